/* SPDX-License-Identifier: MIT */
/* A connection's life and the deadlines in it: leader/peer/meta.h explains it. */
#include "leader/peer/meta_private.h"

#include "shim/sys.h"

#include <stdio.h>
#include <string.h>

/* Longest name of a user, and longest token. */
#define TOKEN 255

const char *ts_meta_fault(int error)
{
#define CASE(name, number, text) \
	case -number:            \
		return text;
	switch (error) {
		TS_META_FAULTS(CASE)
	default:
		return NULL;
	}
#undef CASE
}

/* ---- beginning and end ------------------------------------------------------------------ */

/* One word of what is printed: no blank, no end of a line, in no character set. */
static bool is_word(const char *text, size_t most)
{
	size_t bytes = 0;

	for (; text && text[bytes]; bytes++)
		if (bytes == most || (unsigned char)text[bytes] <= ' ' || text[bytes] == 0x7f)
			return false;
	return bytes > 0;
}

int ts_meta_init(struct ts_meta *meta, struct ts_link *link, const char *user,
	const char *token, uint32_t seed, uint64_t until_ns)
{
	memset(meta, 0, sizeof(*meta));
	meta->link = link;
	meta->opaque = seed;
	meta->end = &meta->first;
	meta->until_ns = until_ns;
	meta->state = token ? TS_META_OPENING : TS_META_OPEN;
	if (!token)
		return 0;
	if (!is_word(user, TOKEN) || !is_word(token, TOKEN))
		return -EINVAL;
	meta->out_end = (uint32_t)snprintf(meta->out, sizeof(meta->out),
		"set auth 0 0 %zu\r\n%s %s\r\n", strlen(user) + 1 + strlen(token), user, token);
	return 0;
}

void ts_meta_finish(struct ts_meta *meta, int error)
{
	(void)ts_meta_break(meta, error);
}

static bool is_good(const struct ts_meta_request *request)
{
	uint64_t most = TS_META_VALUE;

	if (request->kind > TS_META_NOTHING || request->ttl > TS_META_TTL)
		return false;
	if (request->kind != TS_META_NOTHING && !is_word(request->key, TS_META_KEY))
		return false;
	return request->kind != TS_META_SET ||
	       (request->parts[0].iov_len <= most &&
		       request->parts[1].iov_len <= most - request->parts[0].iov_len);
}

int ts_meta_submit(struct ts_meta *meta, struct ts_meta_request *request)
{
	if (!is_good(request))
		return -EINVAL;
	request->result = -EINPROGRESS;
	request->bytes = request->flags = 0;
	if (request->kind != TS_META_DELETE)
		request->cas = 0;
	request->next = NULL;
	if (meta->state == TS_META_BROKEN) {
		ts_meta_complete(request, meta->error);
	} else if (ts_now_ns() >= request->until_ns) {
		ts_meta_complete(request, -ETIMEDOUT);
	} else {
		*meta->end = request;
		meta->end = &request->next;
	}
	return 0;
}

/* ---- deadlines -------------------------------------------------------------------------- */

/* The first one of the list whose time has come, taken out of it; or NULL. */
static struct ts_meta_request *take_late(struct ts_meta *meta, uint64_t now)
{
	for (struct ts_meta_request **at = &meta->first; *at; at = &(*at)->next) {
		struct ts_meta_request *request = *at;
		if (now < request->until_ns)
			continue;
		*at = request->next;
		if (!*at)
			meta->end = at;
		return request;
	}
	return NULL;
}

static int expire_slot(struct ts_meta *meta, struct ts_meta_slot *slot, uint64_t now)
{
	struct ts_meta_request *request = slot->request;

	if (now >= slot->until_ns)
		return -ETIMEDOUT;
	if (!request || now < request->until_ns)
		return 0;
	/* The server waits for the rest of a value, which is its owner's again. */
	if (request == meta->sending)
		return -ETIMEDOUT;
	slot->request = NULL;
	ts_meta_complete(request, -ETIMEDOUT);
	return 0;
}

static int expire(struct ts_meta *meta)
{
	struct ts_meta_request *late;
	uint64_t now = ts_now_ns();
	int r = meta->state == TS_META_OPENING && now >= meta->until_ns ? -ETIMEDOUT : 0;

	while ((late = take_late(meta, now)))
		ts_meta_complete(late, -ETIMEDOUT);
	for (uint32_t i = 0; i < meta->slot_count && r == 0; i++)
		r = expire_slot(meta, &meta->slots[(meta->slot_at + i) % TS_META_DEPTH], now);
	return r;
}

uint64_t ts_meta_deadline(const struct ts_meta *meta)
{
	uint64_t until = meta->state == TS_META_OPENING ? meta->until_ns : UINT64_MAX;

	if (meta->more)
		return 0;
	for (const struct ts_meta_request *one = meta->first; one; one = one->next)
		until = ts_min_u64(until, one->until_ns);
	for (uint32_t i = 0; i < meta->slot_count; i++) {
		const struct ts_meta_slot *slot =
			&meta->slots[(meta->slot_at + i) % TS_META_DEPTH];
		until = ts_min_u64(
			until, slot->request ? slot->request->until_ns : slot->until_ns);
	}
	return until;
}

/* ---- going on --------------------------------------------------------------------------- */

bool ts_meta_wants_to_write(const struct ts_meta *meta)
{
	return meta->out_at < meta->out_end || meta->sending ||
	       (meta->state == TS_META_OPEN && meta->first && meta->slot_count < TS_META_DEPTH);
}

/* Without a look at the link, which has just been read until it was empty. */
static bool has_more_to_do(const struct ts_meta *meta)
{
	return meta->state != TS_META_BROKEN &&
	       (ts_meta_wants_to_write(meta) || meta->in_at < meta->in_end);
}

static int move(struct ts_meta *meta, uint64_t *budget)
{
	int r = ts_meta_out(meta, budget);

	/* An answer may be there already although its request could not be sent to its end. */
	if (r == 0 || r == -EPIPE || r == -ECONNRESET) {
		int in = ts_meta_in(meta, budget);
		r = in < 0 ? in : r;
	}
	return r == -EPIPE ? -ECONNRESET : r;
}

int ts_meta_step(struct ts_meta *meta)
{
	uint64_t budget = TS_META_STEP, before;
	int r;

	/* What came in makes room for what goes out, and the other way round. */
	do {
		before = budget;
		r = expire(meta);
		if (r == 0 && meta->state != TS_META_BROKEN)
			r = move(meta, &budget);
	} while (r == 0 && budget > 0 && budget < before && has_more_to_do(meta));
	if (r < 0)
		return ts_meta_break(meta, r);
	meta->more = budget == 0;
	return meta->state == TS_META_BROKEN ? meta->error : 0;
}

int ts_meta_send(struct ts_meta *meta)
{
	uint64_t budget = TS_META_STEP;

	if (meta->state == TS_META_BROKEN)
		return meta->error;
	if (ts_meta_out(meta, &budget) < 0)
		return ts_meta_step(meta); /* an answer may be there all the same */
	meta->more = meta->more || budget == 0;
	return 0;
}

int ts_meta_wait(struct ts_meta *meta, struct ts_meta_request *request)
{
	while (request->result == -EINPROGRESS) {
		if (ts_meta_step(meta) < 0 || request->result != -EINPROGRESS)
			break;
		int r = meta->link->ops->wait(
			meta->link, ts_meta_wants_to_write(meta), ts_meta_deadline(meta));
		if (r < 0 && r != -ETIMEDOUT)
			(void)ts_meta_break(meta, r);
	}
	return request->result;
}
