/* SPDX-License-Identifier: MIT */
/* Room for samples at servers that are full: leader/peer/transfer.h explains it. */
#include "leader/peer/transfer_private.h"

#include "leader/object/killpoint.h"
#include "shim/sys.h"

#include <stdio.h>
#include <string.h>

/* Looked at for room; the next time it goes on there. */
#define LOOKS 1024

#define NS_PER_S UINT64_C(1000000000)

void ts_transfer_note_stored(struct ts_transfer *transfer)
{
	struct ts_transfers *all = transfer->all;
	struct ts_kept_sample *kept = &all->kept[all->kept_end++ % TS_TRANSFER_KEPT];

	/* What was the oldest is left to its time. */
	*kept = (struct ts_kept_sample){.at_ns = ts_now_ns(),
		.count = transfer->count,
		.is_looked_at =
			ts_taken_note_stored(&all->taken, transfer->key, transfer->stored[0])};
	memcpy(kept->stored, transfer->stored, sizeof(kept->stored));
	memcpy(kept->key, transfer->key, sizeof(kept->key));
	if (all->kept_end - all->kept_first > TS_TRANSFER_KEPT)
		all->kept_first = all->kept_end - TS_TRANSFER_KEPT;
}

/* ---- removing --------------------------------------------------------------------------- */

static void removed(struct ts_pool_request *request)
{
	struct ts_removal *removal = request->context;
	struct ts_transfer *transfer = removal->transfer;

	if (removal->is_first && request->meta.result == 0)
		ts_mail_count(removal->all->mail, request->server, TS_MAIL_COUNT_REMOVED, 1);
	removal->all = NULL;
	TS_KILLPOINT(room_removed);
	if (!transfer)
		return;
	transfer->on_way--;
	transfer->removing--;
	/* What is still being stored goes on with the next turn of the loop. */
	if (transfer->state != TS_TRANSFER_STORING)
		ts_transfer_end(transfer, TS_MAIL_SAYS_NONE);
}

/*
 * There is one that is not in use.  What another node has put there meanwhile stays: ours was
 * lost, and that one has made it again.
 */
static bool remove_chunk(struct ts_transfers *all, struct ts_transfer *transfer,
	const struct ts_kept_sample *kept, uint32_t chunk, bool is_first)
{
	struct ts_removal *removal = all->removals;

	if (kept->stored[chunk] == 0)
		return false; /* the server does not say */
	while (removal->all)
		removal++;
	(void)snprintf(removal->key, sizeof(removal->key), "%s:%u", kept->key, chunk);
	removal->is_first = is_first;
	removal->request = (struct ts_pool_request){
		.meta = {.kind = TS_META_DELETE,
			.key = removal->key,
			.cas = kept->stored[chunk],
			.until_ns = ts_now_ns() + ts_pool_patience(TS_TRANSFER_ANSWER_NS)},
		.done = removed,
		.context = removal,
	};
	if (ts_pool_submit(all->pool, &removal->request) < 0)
		return false;
	removal->all = all;
	removal->transfer = transfer;
	if (transfer) {
		transfer->on_way++;
		transfer->removing++;
	}
	return true;
}

static uint32_t removals_left(const struct ts_transfers *all)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < TS_TRANSFER_REMOVALS; i++)
		left += !all->removals[i].all;
	return left;
}

/*
 * All of its chunks, for @transfer or nobody: chunk 0 first, without which nobody asks for
 * another one.  Those of servers that are not asked now stay to the end of their time.  Whether
 * there is one less; else there may be later.
 */
static bool remove_sample(
	struct ts_transfers *all, struct ts_transfer *transfer, struct ts_kept_sample *kept)
{
	bool is_removed = false;

	if (kept->count > removals_left(all))
		return false;
	/* The server is asked in this order.  Who clears all looks for nobody. */
	if (transfer && kept->is_looked_at)
		ts_taken_leave(&all->taken, kept->stored[0]);
	kept->is_looked_at = false;
	for (uint32_t chunk = 0; chunk < kept->count; chunk++)
		is_removed |= remove_chunk(all, transfer, kept, chunk, !is_removed);
	if (is_removed)
		kept->count = 0;
	return is_removed;
}

/* What has ended by its time takes no room. */
static void forget_ended(struct ts_transfers *all, uint64_t now)
{
	while (all->kept_first < all->kept_end &&
		now - all->kept[all->kept_first % TS_TRANSFER_KEPT].at_ns >=
			TS_TRANSFER_SAMPLE * NS_PER_S)
		all->kept_first++;
}

/* ---- for one that is stored ------------------------------------------------------------- */

/*
 * Whether its last chunk, or one in front of that, lies at @server.  A server has room for a
 * chunk where one of that size was: its pages of memory are for one size each.  All chunks but
 * the last are of one size, and last ones mostly are, as samples of a data set are alike.
 */
static bool is_at(struct ts_transfers *all, const struct ts_kept_sample *kept, uint32_t server,
	bool is_last)
{
	uint32_t from = is_last && kept->count > 0 ? kept->count - 1 : 0;
	uint32_t end = is_last || kept->count == 0 ? kept->count : kept->count - 1;
	char key[TS_TRANSFER_CHUNK];

	for (uint32_t chunk = from; chunk < end; chunk++) {
		(void)snprintf(key, sizeof(key), "%s:%u", kept->key, chunk);
		if (ts_pool_server(all->pool, key) == (int)server)
			return true;
	}
	return false;
}

bool ts_transfer_make_room(struct ts_transfer *transfer, uint32_t server, uint32_t chunk)
{
	struct ts_transfers *all = transfer->all;
	bool is_last = chunk + 1 == transfer->count;
	uint64_t now = ts_now_ns(), *at = &all->kept_at[server][is_last];
	uint32_t count = 0;

	forget_ended(all, now);
	*at = ts_max_u64(*at, all->kept_first);
	for (uint64_t end = ts_min_u64(all->kept_end, *at + LOOKS); *at < end; (*at)++) {
		struct ts_kept_sample *kept = &all->kept[*at % TS_TRANSFER_KEPT];
		if (count == TS_TRANSFER_REMOVED || now - kept->at_ns < TS_TRANSFER_KEEP_NS)
			break;
		/* What was lost before its time is being stored anew. */
		if (strcmp(kept->key, transfer->key) == 0 || !is_at(all, kept, server, is_last))
			continue;
		if (!remove_sample(all, transfer, kept))
			break;
		count++;
	}
	return transfer->removing > 0;
}

/* ---- at the end of the helper ----------------------------------------------------------- */

bool ts_transfers_clear(struct ts_transfers *transfers)
{
	struct ts_transfers *all = transfers;

	ts_taken_end(&all->taken);
	forget_ended(all, ts_now_ns());
	for (; all->kept_first < all->kept_end; all->kept_first++) {
		struct ts_kept_sample *kept = &all->kept[all->kept_first % TS_TRANSFER_KEPT];
		if (removals_left(all) < kept->count)
			return true;
		/* Where a server is not asked now, it is left to its time. */
		(void)remove_sample(all, NULL, kept);
	}
	return removals_left(all) < TS_TRANSFER_REMOVALS;
}
