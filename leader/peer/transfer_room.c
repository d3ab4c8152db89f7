/* SPDX-License-Identifier: MIT */
/* Room for samples at servers that are full: leader/peer/transfer.h explains it. */
#include "leader/peer/transfer_private.h"

#include "leader/object/killpoint.h"
#include "shim/sys.h"

#include <stdio.h>
#include <string.h>

/*
 * Removed at a time, of those that have such a chunk at the server that is full.  Whenever a
 * SET has no room memcached removes what lies there, here the place of who makes the value, and
 * another node may win it meanwhile: so for several at once.
 */
#define REMOVED_SAMPLES 16

/* Looked at for them. */
#define LOOKS 1024

void ts_transfer_note_stored(struct ts_transfer *transfer)
{
	struct ts_transfers *all = transfer->all;
	struct ts_kept_sample *kept = &all->kept[all->kept_end++ % TS_TRANSFER_KEPT];

	/* What was the oldest is left to its time. */
	*kept = (struct ts_kept_sample){.at_ns = ts_now_ns(), .count = transfer->count};
	memcpy(kept->key, transfer->key, sizeof(kept->key));
	if (all->kept_end - all->kept_first > TS_TRANSFER_KEPT)
		all->kept_first = all->kept_end - TS_TRANSFER_KEPT;
}

/* ---- removing --------------------------------------------------------------------------- */

static void removed(struct ts_pool_request *request)
{
	struct ts_removal *removal = request->context;
	struct ts_transfer *transfer = removal->transfer;

	removal->all = NULL;
	TS_KILLPOINT(room_removed);
	if (!transfer)
		return;
	transfer->on_way--;
	transfer->removing--;
	/* What is STORING goes on with the next turn. */
	if (transfer->state != TS_TRANSFER_STORING)
		ts_transfer_end(transfer, TS_MAIL_SAYS_NONE);
}

static struct ts_removal *take_removal(struct ts_transfers *all)
{
	for (uint32_t i = 0; i < TS_TRANSFER_REMOVALS; i++)
		if (!all->removals[i].all)
			return &all->removals[i];
	return NULL;
}

/* For @transfer, or nobody. */
static bool remove_chunk(struct ts_transfers *all, struct ts_transfer *transfer,
	const struct ts_kept_sample *kept, uint32_t chunk)
{
	struct ts_removal *removal = take_removal(all);

	if (!removal)
		return false;
	(void)snprintf(removal->key, sizeof(removal->key), "%s:%u", kept->key, chunk);
	removal->request = (struct ts_pool_request){
		.meta = {.kind = TS_META_DELETE,
			.key = removal->key,
			.until_ns = ts_now_ns() + ts_pool_patience(TS_TRANSFER_ANSWER_NS)},
		.done = removed,
		.context = removal,
	};
	if (ts_pool_submit(all->pool, &removal->request) < 0)
		return false;
	if (chunk == 0)
		ts_mail_count(all->mail, removal->request.server, TS_MAIL_COUNT_REMOVED, 1);
	removal->all = all;
	removal->transfer = transfer;
	if (transfer) {
		transfer->on_way++;
		transfer->removing++;
	}
	return true;
}

/*
 * Whether its chunk @chunk lies at @server.  Samples of a data set mostly have the same size,
 * and a server has room for a chunk where it had one of that size: pages of memory are for one
 * size.
 */
static bool is_at(struct ts_transfers *all, const struct ts_kept_sample *kept, uint32_t server,
	uint32_t chunk)
{
	char key[TS_TRANSFER_CHUNK];

	if (chunk >= kept->count)
		return false;
	(void)snprintf(key, sizeof(key), "%s:%u", kept->key, chunk);
	return ts_pool_server(all->pool, key) == (int)server;
}

/* All of its chunks: chunk 0 first, without which nobody asks for another one. */
static void remove_sample(
	struct ts_transfers *all, struct ts_transfer *transfer, struct ts_kept_sample *kept)
{
	for (uint32_t chunk = 0; chunk < kept->count; chunk++)
		if (!remove_chunk(all, transfer, kept, chunk))
			break;
	kept->count = 0;
}

bool ts_transfer_make_room(struct ts_transfer *transfer, uint32_t server, uint32_t chunk)
{
	struct ts_transfers *all = transfer->all;
	uint64_t now = ts_now_ns(), end = ts_min_u64(all->kept_end, all->kept_first + LOOKS);
	uint32_t count = 0;

	for (uint64_t i = all->kept_first; i < end && count < REMOVED_SAMPLES; i++) {
		struct ts_kept_sample *kept = &all->kept[i % TS_TRANSFER_KEPT];
		if (kept->count > 0 && now - kept->at_ns < TS_TRANSFER_KEEP_NS)
			break;
		if (kept->count > 0 && is_at(all, kept, server, chunk)) {
			remove_sample(all, transfer, kept);
			count++;
		}
		if (kept->count == 0 && i == all->kept_first)
			all->kept_first++;
	}
	return transfer->removing > 0;
}

/* ---- the end of the helper -------------------------------------------------------------- */

static uint32_t count_free(const struct ts_transfers *all)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < TS_TRANSFER_REMOVALS; i++)
		count += !all->removals[i].all;
	return count;
}

bool ts_transfers_clear(struct ts_transfers *transfers)
{
	struct ts_transfers *all = transfers;

	for (; all->kept_first < all->kept_end; all->kept_first++) {
		struct ts_kept_sample *kept = &all->kept[all->kept_first % TS_TRANSFER_KEPT];
		if (count_free(all) < kept->count)
			return true;
		remove_sample(all, NULL, kept);
	}
	return count_free(all) < TS_TRANSFER_REMOVALS;
}
