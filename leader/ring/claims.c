/* SPDX-License-Identifier: MIT */
/* The producer's moves: reserve memory for a claimed record, publish it, or give up. */
#include "leader/group/store_private.h"
#include "leader/group/words.h"
#include "shim/hash.h"

/* Times an idle segment may be taken from us between two looks before we work alone. */
#define ROOM_TRIES 4

/* A window nobody uses, the last used one first: its segment is likely to have room. */
static struct ts_window *take_window(struct ts_store *store)
{
	uint32_t hint = ts_load_relaxed(&store->window_hint);

	for (uint32_t i = 0; i < TS_WINDOWS; i++) {
		uint32_t at = (hint + i) % TS_WINDOWS;
		if (ts_try_hold(&store->windows[at].busy)) {
			ts_write_relaxed(&store->window_hint, at);
			return &store->windows[at];
		}
	}
	return NULL;
}

static void give_window(struct ts_window *window)
{
	ts_write_release(&window->busy, 0); /* private try-lock, pairs with take_window() */
}

/* Where the payload of @bytes would start behind what @window holds. */
static uint64_t payload_at(const struct ts_window *window, uint64_t bytes)
{
	uint64_t align = bytes >= TS_PAGE_ALIGN_FROM ? TS_PAGE_BYTES : 64;

	return ts_align_up(window->next + sizeof(struct ts_record), align);
}

/*
 * End the use of a window's segment.  Pinned, and seen to be ours after that, it cannot come
 * back to this process through another window before it is read-only here.
 */
static void close_window(struct ts_store *store, struct ts_window *window, uint32_t slot)
{
	ts_lease_pin(store, slot, (uint32_t)window->segment, window->generation);
	ts_fence_full(); /* D1 */
	if (ts_segment_is_mine(store, window))
		ts_segment_seal(store, window);
	else
		ts_segment_forget(window);
}

/*
 * Give @window an OPEN segment with room for @bytes, pinned in lease word @slot.  Who finds no
 * other segment may have sealed ours while it was idle, so look again after the pin (D1):
 * from then on nobody reuses it before the pin is gone.
 */
static int hold_room(struct ts_store *store, struct ts_window *window, uint64_t bytes,
	uint32_t slot, bool spares)
{
	for (int tries = 0; tries < ROOM_TRIES; tries++) {
		if (window->segment >= 0 &&
			payload_at(window, bytes) + bytes > store->shape.segment_bytes)
			close_window(store, window, slot);
		if (window->segment < 0 && ts_segment_open(store, window, spares) < 0)
			return -ENOSPC;
		ts_lease_pin(store, slot, (uint32_t)window->segment, window->generation);
		TS_KILLPOINT(reserve_pin);
		ts_fence_full();
		if (ts_segment_is_mine(store, window))
			return 0;
		ts_segment_forget(window);
	}
	return -ENOSPC;
}

static struct ts_record *record_of(const struct ts_window *window, const struct ts_claim *claim)
{
	return (struct ts_record *)(window->map + (uint64_t)claim->offset * 64);
}

/* Without its check a header is no record: a later generation's reader cannot be misled. */
static void write_header(const struct ts_store *store, const struct ts_window *window,
	const struct ts_claim *claim)
{
	*record_of(window, claim) = (struct ts_record){.key_lo = claim->key.lo,
		.key_hi = claim->key.hi,
		.bytes = claim->bytes,
		.skip = sizeof(struct ts_record),
		.generation = window->generation,
		.kind = claim->kind,
		.dataset = claim->dataset,
		.producer = store->job};
}

static int reserve(
	struct ts_store *store, struct ts_claim *claim, uint64_t bytes, void **ret_buffer)
{
	if (store->member < 0 || claim->window >= 0)
		return -EINVAL;
	/* A whole segment less its first page, which holds the header. */
	if (bytes > store->shape.segment_bytes - TS_PAGE_BYTES)
		return -E2BIG;
	if (!ts_entry_is_claimed(&store->entries[claim->entry], claim->word))
		return -ESTALE;
	int slot = ts_lease_acquire(store);
	if (slot < 0)
		return slot;
	struct ts_window *window = take_window(store);
	int r = window ? hold_room(store, window, bytes, (uint32_t)slot, claim->fills) : -EBUSY;
	if (r == -ENOSPC && claim->fills)
		ts_keep_is_full(store);
	if (r < 0) {
		if (window)
			give_window(window);
		ts_lease_drop(store, (uint32_t)slot);
		return r;
	}
	uint64_t payload = payload_at(window, bytes);
	claim->window = (int32_t)(window - store->windows);
	claim->slot = (uint32_t)slot;
	claim->offset = (uint32_t)((payload - sizeof(struct ts_record)) / 64);
	claim->bytes = bytes;
	write_header(store, window, claim);
	TS_KILLPOINT(reserve_header);
	*ret_buffer = window->map + payload;
	return 0;
}

int ts_claim_reserve(
	struct ts_store *store, struct ts_claim *claim, uint64_t bytes, void **ret_buffer)
{
	int r = reserve(store, claim, bytes, ret_buffer);

	if (r < 0)
		ts_claim_abandon(store, claim);
	return r;
}

/* The reservation ends; its bytes are used again unless publish() moved `next` past them. */
static void end_reservation(struct ts_store *store, struct ts_claim *claim)
{
	if (claim->window < 0)
		return;
	struct ts_window *window = &store->windows[claim->window];
	ts_lease_drop(store, claim->slot);
	give_window(window);
	claim->window = -1;
}

static int publish(
	struct ts_store *store, struct ts_claim *claim, uint64_t bytes, uint64_t produce_ns)
{
	struct ts_entry *entry = &store->entries[claim->entry];
	struct ts_window *window = &store->windows[claim->window];
	struct ts_record *record = record_of(window, claim);
	uint32_t segment = (uint32_t)window->segment;

	record->bytes = bytes;
	record->produce_ns = produce_ns;
	record->check = ts_hash64(record, offsetof(struct ts_record, check));
	TS_KILLPOINT(publish_bytes);
	if (!ts_entry_is_claimed(entry, claim->word))
		return -ESTALE;
	/* From here a reader may find the bytes, even if the claim is lost: never again used.
	 */
	window->next = ts_align_up((uint64_t)claim->offset * 64 + record->skip + bytes, 64);
	ts_write_relaxed(&store->segments[segment].used, window->next);
	ts_segment_touch(store, segment);
	claim->origin = ts_where_pack(claim->offset, segment, window->generation);
	/* R1: record bytes before `where`, which is stored before READY; pairs with A1. */
	ts_write_release(&entry->where, claim->origin);
	TS_KILLPOINT(publish_where);
	return ts_entry_end(entry, claim->word, TS_ENTRY_READY);
}

int ts_claim_publish(
	struct ts_store *store, struct ts_claim *claim, uint64_t bytes, uint64_t produce_ns)
{
	if (claim->window < 0 || claim->window >= (int32_t)TS_WINDOWS || bytes > claim->bytes) {
		ts_claim_abandon(store, claim);
		return -EINVAL;
	}
	int r = publish(store, claim, bytes, produce_ns);
	end_reservation(store, claim);
	/* What nobody has asked for says nothing of what pays. */
	if (r == 0 && !claim->fills)
		ts_demand_published(ts_demand_of(ts_demand_row(store, claim->dataset),
					    (enum ts_kind)claim->kind, &claim->key),
			bytes, store->shape.segment_count * store->shape.segment_bytes);
	return r;
}

void ts_claim_abandon(struct ts_store *store, struct ts_claim *claim)
{
	end_reservation(store, claim);
	ts_entry_end(&store->entries[claim->entry], claim->word, TS_ENTRY_EMPTY);
}
