/* SPDX-License-Identifier: MIT */
/* Room for samples at servers that are full: leader/peer/transfer.h explains it. */
#include "leader/peer/transfer_private.h"

#include "leader/object/killpoint.h"
#include "shim/sys.h"

#include <stdio.h>
#include <string.h>

/* Removed at a time, if they have something at the server that is full. */
#define REMOVED_SAMPLES 4

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

	removal->transfer = NULL;
	transfer->on_way--;
	transfer->removing--;
	TS_KILLPOINT(room_removed);
	/* What is STORING goes on with the next turn. */
	if (transfer->state != TS_TRANSFER_STORING)
		ts_transfer_end(transfer, TS_MAIL_SAYS_NONE);
}

static bool remove_chunk(
	struct ts_transfer *transfer, const struct ts_kept_sample *kept, uint32_t chunk)
{
	struct ts_transfers *all = transfer->all;
	struct ts_removal *removal = NULL;

	for (uint32_t i = 0; i < TS_TRANSFER_REMOVALS && !removal; i++)
		if (!all->removals[i].transfer)
			removal = &all->removals[i];
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
		ts_transfer_count(transfer, removal->request.server, TS_MAIL_COUNT_REMOVED, 1);
	removal->transfer = transfer;
	transfer->on_way++;
	transfer->removing++;
	return true;
}

/* Whether a chunk of it lies at @server. */
static bool is_at(struct ts_transfers *all, const struct ts_kept_sample *kept, uint32_t server)
{
	char key[TS_TRANSFER_CHUNK];

	for (uint32_t chunk = 0; chunk < kept->count; chunk++) {
		(void)snprintf(key, sizeof(key), "%s:%u", kept->key, chunk);
		if (ts_pool_server(all->pool, key) == (int)server)
			return true;
	}
	return false;
}

/* All of its chunks: chunk 0 first, without which nobody asks for another one. */
static void remove_sample(struct ts_transfer *transfer, struct ts_kept_sample *kept)
{
	for (uint32_t chunk = 0; chunk < kept->count; chunk++)
		if (!remove_chunk(transfer, kept, chunk))
			break;
	kept->count = 0;
}

bool ts_transfer_make_room(struct ts_transfer *transfer, uint32_t server)
{
	struct ts_transfers *all = transfer->all;
	uint64_t now = ts_now_ns(), end = ts_min_u64(all->kept_end, all->kept_first + LOOKS);
	uint32_t count = 0;

	for (uint64_t i = all->kept_first; i < end && count < REMOVED_SAMPLES; i++) {
		struct ts_kept_sample *kept = &all->kept[i % TS_TRANSFER_KEPT];
		if (kept->count > 0 && now - kept->at_ns < TS_TRANSFER_KEEP_NS)
			break;
		if (kept->count > 0 && is_at(all, kept, server)) {
			remove_sample(transfer, kept);
			count++;
		}
		if (kept->count == 0 && i == all->kept_first)
			all->kept_first++;
	}
	return transfer->removing > 0;
}
