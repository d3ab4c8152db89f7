/* SPDX-License-Identifier: MIT */
/* What all transfers have in common: their parts, their counts, their end. */
#include "leader/peer/transfer_private.h"

#include "leader/object/killpoint.h"
#include "shim/hash.h"
#include "shim/sys.h"

#include <stdio.h>

/* ---- what was refused ------------------------------------------------------------------- */

static uint64_t refused_key(const struct ts_transfer *transfer)
{
	return ts_hash64(transfer->key, transfer->key_bytes) | 1;
}

bool ts_transfer_is_refused(const struct ts_transfer *transfer)
{
	uint64_t key = refused_key(transfer);
	const typeof(&transfer->all->refused[0]) row =
		&transfer->all->refused[(key >> 1) % TS_TRANSFER_REFUSED];

	return row->key == key && ts_now_ns() < row->until_ns;
}

void ts_transfer_set_refused(const struct ts_transfer *transfer, bool is_refused)
{
	uint64_t key = refused_key(transfer);
	typeof(&transfer->all->refused[0]) row =
		&transfer->all->refused[(key >> 1) % TS_TRANSFER_REFUSED];

	if (is_refused) {
		row->key = key;
		row->until_ns = ts_now_ns() + TS_TRANSFER_REFUSED_NS;
	} else if (row->key == key) {
		row->key = 0;
	}
}

/* ---- counts ----------------------------------------------------------------------------- */

void ts_transfer_count(const struct ts_transfer *transfer, uint32_t server,
	enum ts_mail_counter counter, uint64_t amount)
{
	ts_mail_count(transfer->all->mail, server, counter, amount);
}

static enum ts_mail_answer count_and_say(struct ts_transfers *transfers, uint32_t server,
	enum ts_mail_counter counter, enum ts_mail_answer answer)
{
	ts_mail_count(transfers->mail, server, counter, 1);
	return answer;
}

enum ts_mail_answer ts_transfers_explain(
	struct ts_transfers *transfers, uint32_t server, int error)
{
	switch (error) {
	case -ENOENT:
		return count_and_say(transfers, server, TS_MAIL_COUNT_NONE, TS_MAIL_SAYS_NONE);
	case -ENOSPC:
	case -E2BIG:
		return count_and_say(transfers, server, TS_MAIL_COUNT_FULL, TS_MAIL_SAYS_NONE);
	case -EAGAIN:
	case -EACCES:
	case -EADDRNOTAVAIL:
		return count_and_say(
			transfers, server, TS_MAIL_COUNT_CLOSED, TS_MAIL_SAYS_CLOSED);
	case -ECANCELED:
		return TS_MAIL_SAYS_NONE;
	default:
		return count_and_say(
			transfers, server, TS_MAIL_COUNT_FAILED, TS_MAIL_SAYS_FAILED);
	}
}

enum ts_mail_answer ts_transfer_explain(
	const struct ts_transfer *transfer, uint32_t server, int error)
{
	return ts_transfers_explain(transfer->all, server, error);
}

/* ---- the end of one --------------------------------------------------------------------- */

static void close_file(struct ts_transfer *transfer)
{
	if (transfer->fd >= 0)
		ts_sys_close(transfer->fd);
	transfer->fd = -1;
}

static void release(struct ts_transfer *transfer)
{
	struct ts_transfers *all = transfer->all;

	*transfer->link = transfer->next;
	if (transfer->next)
		transfer->next->link = transfer->link;
	else
		all->end = transfer->link;
	transfer->next = all->free;
	all->free = transfer;
	all->count--;
}

static void deleted(struct ts_pool_request *request)
{
	struct ts_transfer *transfer = request->context;

	transfer->on_way--;
	TS_KILLPOINT(peer_returned);
	ts_transfer_end(transfer, TS_MAIL_SAYS_NONE);
}

/* What another node has put there meanwhile stays. */
static bool delete_chunk_0(struct ts_transfer *transfer)
{
	if (transfer->cas == 0)
		return false;
	(void)snprintf(
		transfer->deleted_key, sizeof(transfer->deleted_key), "%s:0", transfer->key);
	transfer->deletion = (struct ts_pool_request){
		.meta = {.kind = TS_META_DELETE,
			.key = transfer->deleted_key,
			.cas = transfer->cas,
			.until_ns = ts_now_ns() + ts_pool_patience(TS_TRANSFER_ANSWER_NS)},
		.done = deleted,
		.context = transfer,
	};
	if (ts_pool_submit(transfer->all->pool, &transfer->deletion) < 0)
		return false;
	transfer->on_way++;
	return true;
}

static void tell(struct ts_transfer *transfer, enum ts_mail_answer answer)
{
	struct ts_mail *mail = transfer->all->mail;

	if (transfer->index == TS_TRANSFER_NOBODY)
		return;
	ts_transfer_leave_place(transfer);
	/* Whoever has no use for what came returns it as well. */
	if (answer == TS_MAIL_SAYS_WON || answer == TS_MAIL_SAYS_GOT)
		ts_mail_set_place(mail, transfer->index, transfer->cas);
	TS_KILLPOINT(peer_answers);
	if (transfer->done)
		transfer->done(transfer->context, answer);
	else if (!ts_mail_answer(mail, transfer->index, answer) && answer == TS_MAIL_SAYS_WON)
		transfer->deletes = true; /* who has left does not make what he has won */
	TS_KILLPOINT(peer_answered);
	transfer->index = TS_TRANSFER_NOBODY;
}

void ts_transfer_end(struct ts_transfer *transfer, enum ts_mail_answer answer)
{
	if (transfer->state != TS_TRANSFER_ENDING) {
		transfer->state = TS_TRANSFER_ENDING;
		tell(transfer, answer);
		close_file(transfer);
		ts_transfer_let_go(transfer);
	}
	if (transfer->on_way > 0)
		return;
	bool deletes = transfer->deletes;
	transfer->deletes = false;
	if (!deletes || !delete_chunk_0(transfer))
		release(transfer);
}

/* ---- parts ------------------------------------------------------------------------------ */

static void prepare(struct ts_part *part, struct ts_transfer *transfer, uint32_t chunk)
{
	/* How large a sample is says its first chunk. */
	bool is_known = transfer->request.bytes > 0;
	uint64_t total = is_known ? transfer->request.bytes : TS_VALUE_ANY_TOTAL;
	uint32_t bytes =
		is_known ? ts_value_bytes(transfer->request.bytes, chunk) : TS_VALUE_CHUNK;

	part->to = NULL;
	if (ts_transfer_wants_sample(transfer))
		part->to = ts_transfer_place(transfer, chunk, bytes);
	if (!part->to)
		part->to = part->bytes;
	part->transfer = transfer;
	part->is_of_store = ts_transfer_is_store(transfer);
	part->place = (struct ts_value_place){
		.key = transfer->key,
		.key_bytes = transfer->key_bytes,
		.total = total,
		.generation = TS_TRANSFER_GENERATION,
		.chunk = chunk,
	};
	(void)snprintf(part->key, sizeof(part->key), "%s:%u", transfer->key, chunk);
	part->request = (struct ts_pool_request){
		.meta = {.key = part->key,
			.parts = {{&part->head, sizeof(part->head)}, {part->to, bytes}}},
		.context = part,
	};
}

struct ts_part *ts_transfer_take_part(struct ts_transfer *transfer, uint32_t chunk)
{
	struct ts_transfers *all = transfer->all;
	struct ts_part *part = all->free_parts;

	if (!part || (ts_transfer_is_store(transfer) && all->storing >= TS_TRANSFER_HALF))
		return NULL;
	prepare(part, transfer, chunk);
	if (ts_pool_is_busy(all->pool, part->key, TS_TRANSFER_HALF))
		return NULL;
	/* What has begun waits for a probe; who only asks does without it. */
	if ((chunk > 0 || ts_transfer_is_store(transfer)) &&
		ts_pool_is_probed(all->pool, part->key))
		return NULL;
	all->free_parts = part->next;
	all->storing += part->is_of_store;
	return part;
}

void ts_transfer_release_part(struct ts_part *part)
{
	struct ts_transfers *all = part->transfer->all;

	all->storing -= part->is_of_store;
	part->next = all->free_parts;
	all->free_parts = part;
}

bool ts_transfer_submit(struct ts_part *part, enum ts_meta_kind kind, uint64_t allowed_ns,
	void (*done)(struct ts_pool_request *request))
{
	struct ts_transfer *transfer = part->transfer;

	part->request.meta.kind = kind;
	part->request.meta.until_ns = ts_now_ns() + ts_pool_patience(allowed_ns);
	part->request.done = done;
	int r = ts_pool_submit(transfer->all->pool, &part->request);
	if (part->place.chunk == 0)
		transfer->server = part->request.server;
	if (r < 0) {
		uint32_t server = part->request.server;
		ts_transfer_release_part(part);
		ts_transfer_end(transfer, ts_transfer_explain(transfer, server, r));
		return false;
	}
	transfer->on_way++;
	TS_KILLPOINT(peer_asked);
	return true;
}

struct ts_part *ts_transfer_arrived(struct ts_pool_request *request)
{
	struct ts_part *part = request->context;

	part->transfer->on_way--;
	return part;
}
