/* SPDX-License-Identifier: MIT */
/* Fetching a value: leader/peer/transfer.h explains it. */
#include "leader/peer/transfer_private.h"

#include "leader/object/killpoint.h"
#include "shim/sys.h"

#include <stdio.h>

/* ---- chunks that came ------------------------------------------------------------------- */

static void refuse(struct ts_transfer *transfer, uint32_t server)
{
	ts_transfer_set_refused(transfer, true);
	transfer->deletes = true;
	ts_transfer_count(transfer, server, TS_MAIL_COUNT_REFUSED, 1);
	ts_transfer_end(transfer, TS_MAIL_SAYS_REFUSED);
}

/* Whether the chunk is in the file; else the transfer has ended. */
static bool take_chunk(struct ts_transfer *transfer, struct ts_part *part)
{
	const struct ts_meta_request *meta = &part->request.meta;
	bool is_sample = ts_transfer_is_sample(transfer);
	uint64_t at = (uint64_t)part->place.chunk * TS_VALUE_CHUNK +
		      (is_sample ? ts_mail_place_at(transfer->index) : transfer->request.at);
	int r = meta->result == -EMSGSIZE ? -EOVERFLOW
					  : ts_value_open(transfer->all->sealer, &part->place,
						    &part->head, meta->bytes, part->to);

	if (r == 0 && is_sample && part->place.chunk == 0)
		r = ts_transfer_learn(transfer, part);
	if (r == -ENOTSUP) {
		ts_transfer_end(
			transfer, ts_transfer_explain(transfer, part->request.server, r));
		return false;
	}
	if (r < 0) {
		refuse(transfer, part->request.server);
		return false;
	}
	TS_KILLPOINT(peer_opened);
	/* Who has left may have given the file away. */
	if (!ts_mail_is_wanted(transfer->all->mail, transfer->index)) {
		ts_transfer_end(transfer, TS_MAIL_SAYS_LATE);
		return false;
	}
	if (part->to == part->bytes)
		r = ts_transfer_write(is_sample ? transfer->all->places_fd : transfer->fd,
			part->bytes, part->head.bytes, at);
	TS_KILLPOINT(peer_written);
	if (r < 0)
		ts_transfer_end(transfer, TS_MAIL_SAYS_UNFIT);
	return r == 0;
}

/* All of it is in its place. */
static void got_sample(struct ts_transfer *transfer)
{
	struct ts_transfers *all = transfer->all;

	if (transfer->request.kind == TS_MAIL_SAMPLE_FIND)
		ts_taken_note_found(&all->taken);
	else
		ts_taken_note_got(&all->taken);
	ts_mail_set_found(all->mail, transfer->index,
		transfer->request.bytes - sizeof(struct ts_mail_sample),
		ts_now_ns() - transfer->asked_ns);
}

static void get_on(struct ts_transfer *transfer)
{
	if (transfer->next_chunk < transfer->count || transfer->on_way > 0) {
		ts_transfer_fetch(transfer);
		return;
	}
	ts_transfer_count(transfer, transfer->server, TS_MAIL_COUNT_GOT, 1);
	ts_transfer_count(
		transfer, transfer->server, TS_MAIL_COUNT_GOT_BYTES, transfer->request.bytes);
	if (ts_transfer_is_sample(transfer))
		got_sample(transfer);
	ts_transfer_end(transfer, TS_MAIL_SAYS_GOT);
}

/* ---- the others ------------------------------------------------------------------------- */

static void other_done(struct ts_pool_request *request)
{
	struct ts_part *part = ts_transfer_arrived(request);
	struct ts_transfer *transfer = part->transfer;
	int result = request->meta.result;
	bool is_taken = false;

	if (transfer->state != TS_TRANSFER_FILLING) {
		ts_transfer_end(transfer, TS_MAIL_SAYS_NONE);
	} else if (result < 0 && result != -EMSGSIZE) {
		/* Chunk 0 was stored last: this one was there, and has gone. */
		transfer->deletes = result == -ENOENT;
		ts_transfer_end(
			transfer, ts_transfer_explain(transfer, request->server, result));
	} else {
		is_taken = take_chunk(transfer, part);
	}
	ts_transfer_release_part(part);
	if (is_taken)
		get_on(transfer);
}

static void ask_others(struct ts_transfer *transfer)
{
	while (transfer->next_chunk < transfer->count && transfer->on_way < TS_TRANSFER_PARTS) {
		struct ts_part *part = ts_transfer_take_part(transfer, transfer->next_chunk);
		if (!part)
			return;
		transfer->next_chunk++;
		if (!ts_transfer_submit(part, TS_META_GET, TS_TRANSFER_ANSWER_NS, other_done))
			return;
	}
}

/* ---- the first one ---------------------------------------------------------------------- */

static struct ts_waiting *waiting_for(const struct ts_transfer *transfer)
{
	return &transfer->all->waiting[transfer->server];
}

/* Which server it would have asked, had there been a buffer. */
static uint32_t server_of(const struct ts_transfer *transfer)
{
	char key[TS_TRANSFER_CHUNK];

	if (transfer->is_counted)
		return transfer->server;
	(void)snprintf(key, sizeof(key), "%s:0", transfer->key);
	int server = ts_pool_server(transfer->all->pool, key);
	return server < 0 ? 0 : (uint32_t)server;
}

void ts_transfer_late(struct ts_transfer *transfer)
{
	if (transfer->waits_ns > 0)
		ts_waiting_was_in_vain(waiting_for(transfer), ts_now_ns(), transfer->waits_ns);
	ts_transfer_count(transfer, server_of(transfer), TS_MAIL_COUNT_LATE, 1);
	ts_transfer_end(transfer, TS_MAIL_SAYS_LATE);
}

static void pause_transfer(struct ts_transfer *transfer)
{
	uint64_t now = ts_now_ns(), most = ts_pool_patience(TS_MAIL_WAIT_NS);

	if (transfer->waits_ns == 0) {
		if (!ts_waiting_may(waiting_for(transfer), now, most)) {
			ts_transfer_late(transfer);
			return;
		}
		transfer->waits_ns = now;
	}
	transfer->state = TS_TRANSFER_PAUSED;
	transfer->at_ns = now + transfer->pause_ns;
	transfer->pause_ns = ts_min_u64(2 * transfer->pause_ns, TS_TRANSFER_LAST_NS);
}

/* Whether it is asked for together with the right to make it. */
static bool may_win(const struct ts_transfer *transfer)
{
	return !transfer->done && transfer->request.kind != TS_MAIL_SAMPLE_FIND;
}

/* Who has not asked for the right to make it would neither use it nor give it back. */
static void win(struct ts_transfer *transfer)
{
	if (!may_win(transfer)) {
		ts_transfer_end(
			transfer, ts_transfer_explain(transfer, transfer->server, -ENOENT));
		return;
	}
	ts_transfer_count(transfer, transfer->server, TS_MAIL_COUNT_WON, 1);
	ts_transfer_end(transfer, TS_MAIL_SAYS_WON);
}

/* An answer without a single byte; returns whether it was one. */
static bool take_word(struct ts_transfer *transfer, const struct ts_meta_request *meta)
{
	if (meta->result < 0 && meta->result != -EMSGSIZE) {
		ts_transfer_end(transfer,
			ts_transfer_explain(transfer, transfer->server, meta->result));
		return true;
	}
	if (meta->result < 0 || meta->bytes > 0)
		return false;
	if (meta->flags & TS_ANSWER_WON)
		win(transfer);
	else if ((meta->flags & TS_ANSWER_MADE) ||
		 !may_win(transfer)) /* a place, not asked for */
		pause_transfer(transfer);
	else
		return false;
	return true;
}

static void first_done(struct ts_pool_request *request)
{
	struct ts_part *part = ts_transfer_arrived(request);
	struct ts_transfer *transfer = part->transfer;
	const struct ts_meta_request *meta = &request->meta;
	bool is_taken = false;

	transfer->cas = meta->cas;
	if (transfer->state != TS_TRANSFER_ASKING) {
		/* It was too late, and nobody makes what was won. */
		transfer->deletes =
			transfer->deletes || (meta->result == 0 && meta->bytes == 0 &&
						     (meta->flags & TS_ANSWER_WON) != 0);
		ts_transfer_end(transfer, TS_MAIL_SAYS_LATE);
	} else if (!take_word(transfer, meta)) {
		is_taken = take_chunk(transfer, part);
	}
	ts_transfer_release_part(part);
	if (is_taken) {
		transfer->waits_ns = 0;
		ts_waiting_has_got(waiting_for(transfer));
		transfer->state = TS_TRANSFER_FILLING;
		transfer->next_chunk = 1;
		get_on(transfer);
	}
}

static void ask_first(struct ts_transfer *transfer)
{
	struct ts_part *part = ts_transfer_take_part(transfer, 0);

	if (!part)
		return;
	part->request.meta.vivify = may_win(transfer);
	part->request.meta.ttl =
		may_win(transfer) ? (uint32_t)ts_pool_patience(TS_TRANSFER_PLACE) : 0;
	transfer->state = TS_TRANSFER_ASKING;
	transfer->asked_ns = ts_now_ns();
	if (!ts_transfer_submit(part, TS_META_GET, TS_TRANSFER_ANSWER_NS, first_done) ||
		transfer->is_counted)
		return;
	transfer->is_counted = true;
	ts_transfer_count(transfer, transfer->server, TS_MAIL_COUNT_ASKED, 1);
}

void ts_transfer_fetch(struct ts_transfer *transfer)
{
	/* Its time has come, and does not come again while it wants a buffer. */
	if (transfer->state == TS_TRANSFER_PAUSED && ts_now_ns() >= transfer->at_ns)
		transfer->state = TS_TRANSFER_QUEUED;
	if (transfer->state == TS_TRANSFER_QUEUED)
		ask_first(transfer);
	else if (transfer->state == TS_TRANSFER_FILLING)
		ask_others(transfer);
}
