/* SPDX-License-Identifier: MIT */
/* What a connection receives: lines, and values straight into their owners' memory. */
#include "leader/peer/meta_private.h"

#include <string.h>

/* What may be answered to what, and what it means. */
static const struct {
	enum ts_meta_kind kind;
	enum ts_answer_word word;
	int result;
} meanings[] = {
	{TS_META_GET, TS_ANSWER_VA, 0},
	{TS_META_GET, TS_ANSWER_EN, -ENOENT},
	{TS_META_SET, TS_ANSWER_HD, 0},
	{TS_META_SET, TS_ANSWER_NS, -EEXIST},
	{TS_META_SET, TS_ANSWER_EX, -EEXIST},
	{TS_META_SET, TS_ANSWER_NF, -ENOENT},
	{TS_META_DELETE, TS_ANSWER_HD, 0},
	{TS_META_DELETE, TS_ANSWER_NF, -ENOENT},
	{TS_META_DELETE, TS_ANSWER_EX, -EEXIST},
	{TS_META_LOOK, TS_ANSWER_HD, 0},
	{TS_META_LOOK, TS_ANSWER_EN, -ENOENT},
	{TS_META_NOTHING, TS_ANSWER_MN, 0},
};

/* ---- lines ------------------------------------------------------------------------------ */

static int trouble_of_server(const struct ts_answer *answer)
{
	if (ts_answer_says(answer, "object too large for cache"))
		return -E2BIG;
	if (ts_answer_says(answer, "out of memory storing object"))
		return -ENOSPC;
	return -EREMOTEIO;
}

static int find_meaning(
	const struct ts_meta_slot *slot, const struct ts_answer *answer, int *ret_result)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(meanings); i++) {
		if (meanings[i].kind == slot->kind && meanings[i].word == answer->word) {
			*ret_result = meanings[i].result;
			return 0;
		}
	}
	return -EBADMSG;
}

/* Nothing is told that was not asked for. */
static bool is_asked_for(const struct ts_meta_slot *slot, const struct ts_answer *answer)
{
	bool is_look = slot->kind == TS_META_LOOK && answer->word == TS_ANSWER_HD;
	bool is_of_value = is_look || answer->word == TS_ANSWER_VA;

	return answer->has_fetched == is_look && (answer->flags == 0 || is_of_value) &&
	       (!answer->has_cas || is_of_value || slot->numbers);
}

static int match(
	const struct ts_meta_slot *slot, const struct ts_answer *answer, int *ret_result)
{
	bool numbered = slot->kind != TS_META_NOTHING;
	int r = find_meaning(slot, answer, ret_result);

	if (r < 0)
		return r;
	if (answer->has_opaque != numbered || (numbered && answer->opaque != slot->opaque))
		return -EBADMSG;
	return is_asked_for(slot, answer) ? 0 : -EPROTO;
}

static int begin_value(struct ts_meta *meta, const struct ts_answer *answer)
{
	struct ts_meta_slot *slot = ts_meta_oldest(meta);
	struct ts_meta_request *request = slot->request;

	if (answer->bytes > TS_META_VALUE)
		return -EFBIG;
	meta->arriving = true;
	meta->value_bytes = answer->bytes;
	meta->value_at = meta->end_at = 0;
	if (!request)
		return 0;
	request->bytes = answer->bytes;
	request->flags = answer->flags;
	request->cas = answer->cas;
	if (answer->bytes > request->parts[0].iov_len + request->parts[1].iov_len) {
		slot->request = NULL;
		ts_meta_complete(request, -EMSGSIZE);
	}
	return 0;
}

/* Which one was stored, or is there; where none is, that is 0 or not said. */
static void take_numbers(const struct ts_meta_slot *slot, const struct ts_answer *answer)
{
	if (!slot->request || answer->word != TS_ANSWER_HD)
		return;
	if (slot->numbers || slot->kind == TS_META_LOOK)
		slot->request->cas = answer->cas;
	slot->request->flags = answer->flags;
}

static void end_oldest(struct ts_meta *meta, int result)
{
	struct ts_meta_request *request = ts_meta_pop(meta);

	if (request)
		ts_meta_complete(request, result);
}

static int take_line(struct ts_meta *meta, const char *line, size_t bytes)
{
	struct ts_answer answer;
	int result, r = ts_answer_parse(line, bytes, &answer);

	if (r < 0)
		return r == -EMSGSIZE ? -EFBIG : r;
	if (meta->state == TS_META_OPENING) {
		meta->state = TS_META_OPEN;
		return answer.word == TS_ANSWER_STORED ? 0 : -EACCES;
	}
	if (answer.word == TS_ANSWER_CLIENT_ERROR && ts_answer_says(&answer, "unauthenticated"))
		return -EACCES;
	if (answer.word == TS_ANSWER_ERROR || answer.word == TS_ANSWER_CLIENT_ERROR)
		return -EPROTO;
	if (meta->slot_count == 0)
		return -EBADMSG;
	if (answer.word == TS_ANSWER_SERVER_ERROR) {
		end_oldest(meta, trouble_of_server(&answer));
		return 0;
	}
	r = match(ts_meta_oldest(meta), &answer, &result);
	if (r < 0)
		return r;
	if (answer.word == TS_ANSWER_VA)
		return begin_value(meta, &answer);
	take_numbers(ts_meta_oldest(meta), &answer);
	end_oldest(meta, result);
	return 0;
}

/* Whether the answer is early: a value is still being sent from its owner's memory. */
static bool is_early(struct ts_meta *meta)
{
	return meta->sending && meta->slot_count > 0 &&
	       ts_meta_oldest(meta)->request == meta->sending;
}

/* Returns 1 a line was taken, 0 there is none that may be. */
static int next_line(struct ts_meta *meta)
{
	char *line = meta->in + meta->in_at;
	size_t bytes = meta->in_end - meta->in_at;
	const char *end = memchr(line, '\n', bytes);

	if (!end)
		return bytes > TS_ANSWER_LINE ? -EFBIG : 0;
	size_t length = (size_t)(end - line);
	if (length > TS_ANSWER_LINE)
		return -EFBIG;
	if (length == 0 || line[length - 1] != '\r')
		return -EPROTO;
	/* Nothing was sent behind that value, so nothing can be answered behind this line. */
	if (is_early(meta))
		return bytes > length + 1 ? -EBADMSG : 0;
	meta->in_at += (uint32_t)length + 1;
	int r = take_line(meta, line, length - 1);
	return r < 0 ? r : 1;
}

/* ---- values ----------------------------------------------------------------------------- */

/* Where the next byte belongs; NULL: nowhere, it is thrown away. */
static char *find_place(struct ts_meta *meta, size_t *ret_room)
{
	const struct ts_meta_request *request = ts_meta_oldest(meta)->request;
	size_t at = meta->value_at, left = meta->value_bytes - at;

	*ret_room = left;
	for (size_t i = 0; request && i < TS_ARRAY_SIZE(request->parts); i++) {
		if (at < request->parts[i].iov_len) {
			*ret_room = ts_min_u64(left, request->parts[i].iov_len - at);
			return (char *)request->parts[i].iov_base + at;
		}
		at -= request->parts[i].iov_len;
	}
	return NULL;
}

/* What came together with the line. Returns 1 a value is complete, 0 it is not. */
static int next_of_value(struct ts_meta *meta)
{
	while (meta->value_at < meta->value_bytes && meta->in_at < meta->in_end) {
		size_t room;
		char *to = find_place(meta, &room);
		room = ts_min_u64(room, meta->in_end - meta->in_at);
		if (to)
			memcpy(to, meta->in + meta->in_at, room);
		meta->in_at += (uint32_t)room;
		meta->value_at += (uint32_t)room;
	}
	for (; meta->value_at == meta->value_bytes && meta->in_at < meta->in_end;
		meta->in_at++) {
		if (meta->in[meta->in_at] != "\r\n"[meta->end_at])
			return -EPROTO;
		if (++meta->end_at == 2) {
			meta->in_at++;
			meta->arriving = false;
			end_oldest(meta, 0);
			return 1;
		}
	}
	return 0;
}

/* To where the next bytes belong; where that is all of the value, what follows it as well. */
static int64_t read_value(struct ts_meta *meta, char *to, size_t room)
{
	const struct ts_link_ops *ops = meta->link->ops;
	bool is_rest = room == meta->value_bytes - meta->value_at;
	/* All of the buffer was used up by next_of_value(). */
	int64_t n = is_rest && ops->read_both
			    ? ops->read_both(meta->link, to, room, meta->in, TS_META_BUFFER)
			    : ops->read(meta->link, to, room);

	if (n <= 0)
		return n;
	uint64_t of_value = ts_min_u64((uint64_t)n, room);
	meta->value_at += (uint32_t)of_value;
	meta->in_at = 0;
	meta->in_end = (uint32_t)((uint64_t)n - of_value);
	return n;
}

static int64_t read_more(struct ts_meta *meta)
{
	const struct ts_link_ops *ops = meta->link->ops;

	if (meta->arriving && meta->value_at < meta->value_bytes) {
		size_t room;
		char *to = find_place(meta, &room);
		if (to)
			return read_value(meta, to, room);
	}
	if (meta->in_at > 0) {
		memmove(meta->in, meta->in + meta->in_at, meta->in_end - meta->in_at);
		meta->in_end -= meta->in_at;
		meta->in_at = 0;
	}
	int64_t n =
		ops->read(meta->link, meta->in + meta->in_end, TS_META_BUFFER - meta->in_end);
	meta->in_end += n > 0 ? (uint32_t)n : 0;
	return n;
}

int ts_meta_in(struct ts_meta *meta, uint64_t *budget)
{
	bool came = false;
	int r;

	for (;;) {
		do
			r = meta->arriving ? next_of_value(meta) : next_line(meta);
		while (r > 0 && meta->state != TS_META_BROKEN);
		if (r < 0 || meta->state == TS_META_BROKEN || *budget == 0)
			return r < 0 ? r : 0;
		/* All is answered; what comes all the same is noticed by the next call. */
		if (came && meta->slot_count == 0 && meta->state == TS_META_OPEN)
			return 0;
		int64_t n = read_more(meta);
		if (n == -EAGAIN)
			return 0;
		if (n <= 0)
			return n == 0 ? -ECONNRESET : (int)n;
		*budget -= ts_min_u64(*budget, (uint64_t)n);
		came = true;
	}
}
