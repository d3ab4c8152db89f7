/* SPDX-License-Identifier: MIT */
/* A client of one server: leader/peer/meta.h explains it. */
#include "leader/peer/meta.h"

#include "shim/sys.h"

#include <stdio.h>
#include <string.h>

/* Longest name of a user, and longest token. */
#define TOKEN 255

/* Longest line of ours. */
#define LINE (TS_META_KEY + 70)

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

/* ---- requests on their way, and their ends ---------------------------------------------- */

/* It is done, and no longer ours: the caller must not touch it again. */
static void complete(struct ts_meta_request *request, int result)
{
	void (*done)(struct ts_meta_request *) = request->done;

	request->next = NULL;
	request->result = result;
	if (done)
		done(request);
}

static struct ts_meta_slot *oldest_slot(struct ts_meta *meta)
{
	return &meta->slots[meta->slot_at];
}

/* A slot for @request, behind all others; there must be one. */
static struct ts_meta_slot *push_slot(struct ts_meta *meta, struct ts_meta_request *request)
{
	uint32_t at = (meta->slot_at + meta->slot_count++) % TS_META_DEPTH;
	uint64_t until = request->until_ns + TS_META_GRACE_NS;

	meta->slots[at] = (struct ts_meta_slot){
		.request = request,
		.until_ns = until < request->until_ns ? UINT64_MAX : until,
		.opaque = meta->opaque++,
		.kind = request->kind,
		.numbers = request->kind == TS_META_SET && request->numbers,
	};
	return &meta->slots[at];
}

/* The oldest slot is free again; the request that it had, or NULL. */
static struct ts_meta_request *pop_slot(struct ts_meta *meta)
{
	struct ts_meta_request *request = oldest_slot(meta)->request;

	meta->slot_at = (meta->slot_at + 1) % TS_META_DEPTH;
	meta->slot_count--;
	return request;
}

/* The first request of the list, which is not empty. */
static struct ts_meta_request *take_first(struct ts_meta *meta)
{
	struct ts_meta_request *request = meta->first;

	meta->first = request->next;
	if (!meta->first)
		meta->end = &meta->first;
	return request;
}

/* BROKEN, unless it was before; all requests are done with @error.  Returns what broke it. */
static int break_off(struct ts_meta *meta, int error)
{
	if (meta->state == TS_META_BROKEN)
		return meta->error;
	meta->state = TS_META_BROKEN;
	meta->error = error;
	meta->sending = NULL;
	meta->arriving = false;
	meta->more = false;
	meta->out_at = meta->out_end = meta->in_at = meta->in_end = 0;
	explicit_bzero(meta->out, sizeof(meta->out));
	while (meta->slot_count > 0) {
		struct ts_meta_request *request = pop_slot(meta);
		if (request)
			complete(request, error);
	}
	while (meta->first)
		complete(take_first(meta), error);
	return error;
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
	(void)break_off(meta, error);
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
		complete(request, meta->error);
	} else if (ts_now_ns() >= request->until_ns) {
		complete(request, -ETIMEDOUT);
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
	complete(request, -ETIMEDOUT);
	return 0;
}

static int expire(struct ts_meta *meta)
{
	struct ts_meta_request *late;
	uint64_t now = ts_now_ns();
	int r = meta->state == TS_META_OPENING && now >= meta->until_ns ? -ETIMEDOUT : 0;

	while ((late = take_late(meta, now)))
		complete(late, -ETIMEDOUT);
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

/* ==== sending: lines, many in one write, and values from their owners' memory ============= */

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
		return snprintf(to, room, "ms %s %zu O%u T%u%s\r\n", request->key,
			value_bytes(request), slot->opaque, request->ttl,
			slot->numbers ? " c" : "");
	case TS_META_DELETE:
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
		struct ts_meta_request *request = take_first(meta);
		const struct ts_meta_slot *slot = push_slot(meta, request);
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

static int send_all(struct ts_meta *meta, uint64_t *budget)
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

/* ==== receiving: lines, and values straight into their owners' memory ==================== */

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
	struct ts_meta_slot *slot = oldest_slot(meta);
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
		complete(request, -EMSGSIZE);
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
	struct ts_meta_request *request = pop_slot(meta);

	if (request)
		complete(request, result);
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
	r = match(oldest_slot(meta), &answer, &result);
	if (r < 0)
		return r;
	if (answer.word == TS_ANSWER_VA)
		return begin_value(meta, &answer);
	take_numbers(oldest_slot(meta), &answer);
	end_oldest(meta, result);
	return 0;
}

/* Whether the answer is early: a value is still being sent from its owner's memory. */
static bool is_early(struct ts_meta *meta)
{
	return meta->sending && meta->slot_count > 0 &&
	       oldest_slot(meta)->request == meta->sending;
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
	const struct ts_meta_request *request = oldest_slot(meta)->request;
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

static int receive(struct ts_meta *meta, uint64_t *budget)
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
	int r = send_all(meta, budget);

	/* An answer may be there already although its request could not be sent to its end. */
	if (r == 0 || r == -EPIPE || r == -ECONNRESET) {
		int in = receive(meta, budget);
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
		return break_off(meta, r);
	meta->more = budget == 0;
	return meta->state == TS_META_BROKEN ? meta->error : 0;
}

int ts_meta_send(struct ts_meta *meta)
{
	uint64_t budget = TS_META_STEP;

	if (meta->state == TS_META_BROKEN)
		return meta->error;
	if (send_all(meta, &budget) < 0)
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
			(void)break_off(meta, r);
	}
	return request->result;
}
