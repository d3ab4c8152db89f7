/* SPDX-License-Identifier: MIT */
/* Storing a value: leader/peer/transfer.h explains it. */
#include "leader/peer/transfer_private.h"

#include "leader/object/killpoint.h"
#include "shim/sys.h"

/* Of one value on their way: who fetches comes first. */
#define STORE_PARTS 4

/* So often room is made for a sample, whose chunks lie at several servers. */
#define ROOMS 4

/* What is not stored as a whole is not there. */
static void give_up(struct ts_transfer *transfer, enum ts_mail_answer answer)
{
	transfer->deletes = true;
	ts_transfer_end(transfer, answer);
}

static void stored(struct ts_transfer *transfer)
{
	ts_transfer_set_refused(transfer, false);
	ts_transfer_count(transfer, transfer->server, TS_MAIL_COUNT_STORED, 1);
	ts_transfer_count(transfer, transfer->server, TS_MAIL_COUNT_STORED_BYTES,
		transfer->request.bytes);
	if (transfer->is_leased)
		ts_transfer_note_stored(transfer);
	ts_transfer_end(transfer, TS_MAIL_SAYS_GOT);
}

/* Whether chunk @chunk, for which @server has no room, is stored once more. */
static bool is_stored_again(struct ts_transfer *transfer, uint32_t server, uint32_t chunk)
{
	if (!transfer->is_leased)
		return false;
	if (transfer->removing == 0) {
		if (transfer->rooms == ROOMS || !ts_transfer_make_room(transfer, server, chunk))
			return false;
		transfer->rooms++;
	}
	/* And those behind it, which are there: in that order they are sent. */
	if (transfer->next_chunk < chunk + 1)
		transfer->next_chunk = chunk + 1;
	return true;
}

static void done(struct ts_pool_request *request)
{
	struct ts_part *part = ts_transfer_arrived(request);
	struct ts_transfer *transfer = part->transfer;
	uint32_t chunk = part->place.chunk, server = request->server;
	int result = request->meta.result;

	if (transfer->is_leased)
		transfer->stored[chunk] = request->meta.cas;

	ts_transfer_release_part(part);
	TS_KILLPOINT(peer_stored);
	if (transfer->state != TS_TRANSFER_STORING)
		ts_transfer_end(transfer, TS_MAIL_SAYS_NONE);
	else if (result == -ENOSPC && is_stored_again(transfer, server, chunk))
		return; /* with the next turn */
	else if (result < 0)
		give_up(transfer, ts_transfer_explain(transfer, server, result));
	else if (chunk == 0)
		stored(transfer);
	else
		ts_transfer_store(transfer);
}

/* Read and seal the chunk of @part.  Errors: those of reading and of ts_value_seal(). */
static int prepare(struct ts_transfer *transfer, struct ts_part *part)
{
	uint64_t at = transfer->request.at + (uint64_t)part->place.chunk * TS_VALUE_CHUNK;
	size_t bytes = part->request.meta.parts[1].iov_len;
	int r = 0;

	/* Read and not mapped: a file that is cut short is an error and no signal. */
	if (transfer->is_leased)
		ts_transfer_copy(transfer, at, bytes, part->bytes);
	else
		r = ts_sys_read_all(transfer->fd, part->bytes, bytes, at);
	if (r == 0)
		r = ts_value_seal(
			transfer->all->sealer, &part->place, part->bytes, &part->head);
	TS_KILLPOINT(peer_sealed);
	return r;
}

/* Whether the next one was sent; @chunk is the number of those that are left behind it. */
static bool send_chunk(struct ts_transfer *transfer, uint32_t chunk)
{
	struct ts_part *part = ts_transfer_take_part(transfer, chunk);

	if (!part)
		return false;
	transfer->next_chunk = chunk;
	if (prepare(transfer, part) < 0) {
		ts_transfer_release_part(part);
		give_up(transfer, TS_MAIL_SAYS_UNFIT);
		return false;
	}
	/* Ends the transfer, if it cannot be: the place is deleted then as well. */
	transfer->deletes = true;
	if (transfer->is_leased) {
		part->request.meta.ttl = TS_TRANSFER_SAMPLE;
		part->request.meta.numbers = true;
	}
	bool is_sent = ts_transfer_submit(part, TS_META_SET, TS_TRANSFER_STORE_NS, done);
	if (is_sent)
		transfer->deletes = false;
	return is_sent;
}

void ts_transfer_store(struct ts_transfer *transfer)
{
	if (transfer->removing > 0)
		return;
	while (transfer->next_chunk > 1 && transfer->on_way < STORE_PARTS)
		if (!send_chunk(transfer, transfer->next_chunk - 1))
			return;
	/* Who finds chunk 0 has to find all. */
	if (transfer->next_chunk == 1 && transfer->on_way == 0)
		(void)send_chunk(transfer, 0);
}
