/* SPDX-License-Identifier: MIT */
/* What a connection sends: lines, many in one write, and values from their owners' memory. */
#include "leader/peer/meta_private.h"

#include <stdio.h>
#include <string.h>

/* Longest line of ours. */
#define LINE (TS_META_KEY + 70)

static size_t value_bytes(const struct ts_meta_request *request)
{
	return request->parts[0].iov_len + request->parts[1].iov_len;
}

static int format_line(char *to, size_t room, const struct ts_meta_request *request,
	const struct ts_meta_slot *slot)
{
	switch (request->kind) {
	case TS_META_GET:
		if (request->vivify)
			return snprintf(to, room, "mg %s v c O%u N%u\r\n", request->key,
				slot->opaque, request->ttl);
		return snprintf(to, room, "mg %s v c O%u\r\n", request->key, slot->opaque);
	case TS_META_SET:
		return snprintf(to, room, "ms %s %zu O%u T%u%s%s\r\n", request->key,
			value_bytes(request), slot->opaque, request->ttl,
			request->only_new ? " ME" : "", slot->numbers ? " c" : "");
	case TS_META_DELETE:
		if (request->invalidate)
			return snprintf(to, room, "md %s O%u I T%u\r\n", request->key,
				slot->opaque, request->ttl);
		if (request->cas != 0)
			return snprintf(to, room, "md %s O%u C%llu\r\n", request->key,
				slot->opaque, (unsigned long long)request->cas);
		return snprintf(to, room, "md %s O%u\r\n", request->key, slot->opaque);
	case TS_META_LOOK:
		return snprintf(to, room, "mg %s h c O%u\r\n", request->key, slot->opaque);
	default:
		return snprintf(to, room, "mn\r\n");
	}
}

/* Lines of what is queued, up to one that a value has to follow. */
static void make_lines(struct ts_meta *meta)
{
	while (meta->state == TS_META_OPEN && meta->first && !meta->sending &&
		meta->slot_count < TS_META_DEPTH && TS_META_BUFFER - meta->out_end >= LINE) {
		struct ts_meta_request *request = ts_meta_take(meta);
		const struct ts_meta_slot *slot = ts_meta_push(meta, request);
		meta->out_end += (uint32_t)format_line(meta->out + meta->out_end,
			TS_META_BUFFER - meta->out_end, request, slot);
		if (request->kind == TS_META_SET) {
			meta->sending = request;
			meta->sent = 0;
		}
	}
}

static int64_t write_lines(struct ts_meta *meta)
{
	int64_t n = meta->link->ops->write(meta->link, meta->out + meta->out_at,
		meta->out_end - meta->out_at, meta->sending != NULL);

	if (n <= 0)
		return n;
	/* A token may have been among them. */
	if (meta->state == TS_META_OPENING)
		explicit_bzero(meta->out + meta->out_at, (size_t)n);
	meta->out_at += (uint32_t)n;
	if (meta->out_at == meta->out_end) {
		meta->out_at = meta->out_end = 0;
		meta->ends_value = false;
	}
	return n;
}

/* The rest of the part that the next byte lies in; false: there is none. */
static bool find_rest(const struct ts_meta_request *request, size_t at, const char **ret_from,
	size_t *ret_bytes)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(request->parts); i++) {
		if (at < request->parts[i].iov_len) {
			*ret_from = (const char *)request->parts[i].iov_base + at;
			*ret_bytes = request->parts[i].iov_len - at;
			return true;
		}
		at -= request->parts[i].iov_len;
	}
	return false;
}

static int64_t write_value(struct ts_meta *meta)
{
	const char *from;
	size_t bytes;

	if (!find_rest(meta->sending, meta->sent, &from, &bytes)) {
		memcpy(meta->out, "\r\n", 2);
		meta->out_end = 2;
		meta->sending = NULL;
		meta->ends_value = true;
		return 2;
	}
	int64_t n = meta->link->ops->write(meta->link, from, bytes, true);
	if (n > 0)
		meta->sent += (size_t)n;
	return n;
}

int ts_meta_out(struct ts_meta *meta, uint64_t *budget)
{
	int64_t n = 1;

	while (n > 0 && *budget > 0) {
		/*
		 * What was refused is offered again as it was, which TLS insists on.  And no
		 * line goes into one record with the end of a value: memcached (1.6.18) reads a
		 * value to its last byte, waits for the socket then, and does not look at what
		 * TLS has decrypted behind it until something else comes.
		 */
		if (meta->out_at == 0 && !meta->ends_value)
			make_lines(meta);
		if (meta->out_at < meta->out_end)
			n = write_lines(meta);
		else if (meta->sending)
			n = write_value(meta);
		else
			return 0;
		if (n > 0)
			*budget -= ts_min_u64(*budget, (uint64_t)n);
	}
	return n < 0 && n != -EAGAIN ? (int)n : 0;
}
