/* SPDX-License-Identifier: MIT */
/* Segments: draining, sealing, and the private writable windows onto them. */
#include "leader/group/store_private.h"

/* ---- windows ---------------------------------------------------------------------------- */

/*
 * A window is the segment's place in the read-only mapping of all segments, made writable
 * for as long as it is OPEN.  A second, writable mapping would have to be filled with pages
 * for each segment (1.3 ms for 16 MiB, and 0.7 ms to empty it); changing the protection
 * keeps those that are there (0.4 ms each way, 0.01 ms where they are huge).
 */
static void window_close(struct ts_store *store, struct ts_window *window)
{
	if (window->map)
		ts_pages_close(store, window->map, window->tied + 1);
	window->map = NULL;
}

void ts_segment_forget_windows(struct ts_store *store)
{
	for (uint32_t i = 0; i < TS_WINDOWS; i++) {
		struct ts_window *window = &store->windows[i];
		window_close(store, window);
		window->segment = -1;
		ts_write_relaxed(&window->busy, 0);
	}
	/* A fork child has the mappings, but none of their pages. */
	ts_pages_forget(store);
}

/* ---- age and sealing -------------------------------------------------------------------- */

void ts_segment_touch(struct ts_store *store, uint32_t segment)
{
	ts_write_relaxed(&store->segments[segment].written_at,
		ts_load_relaxed(&store->header->seal_clock));
}

void ts_segment_seal_word(struct ts_store *store, uint32_t index, uint64_t open)
{
	struct ts_segment *segment = &store->segments[index];

	ts_write_relaxed(
		&segment->written_at, ts_add_relaxed(&store->header->seal_clock, 1) + 1);
	/* R2: the last write before SEALED; pairs with A2 in ts_segment_drain(). */
	ts_cas(&segment->word, &open, ts_segment_become(open, TS_SEGMENT_SEALED, 0));
}

/* The word of @window's segment while it is OPEN and ours. */
static uint64_t word_of(const struct ts_store *store, const struct ts_window *window)
{
	return ts_segment_pack(TS_SEGMENT_OPEN, (uint32_t)store->member, window->generation) |
	       ts_segment_tied_put(window->tied);
}

void ts_segment_seal(struct ts_store *store, struct ts_window *window)
{
	if (window->segment < 0)
		return;
	window_close(store, window);
	TS_KILLPOINT(segment_seal);
	ts_segment_seal_word(store, (uint32_t)window->segment, word_of(store, window));
	window->segment = -1;
}

void ts_segment_clean(struct ts_store *store, uint32_t member)
{
	for (uint32_t i = 0; i < store->shape.segment_count; i++) {
		struct ts_segment *segment = &store->segments[i];
		uint64_t word = ts_load_acquire(&segment->word);
		enum ts_segment_state state = ts_segment_state(word);
		if (ts_segment_owner(word) != member ||
			(state != TS_SEGMENT_OPEN && state != TS_SEGMENT_DRAIN))
			continue;
		if (state == TS_SEGMENT_OPEN)
			ts_write_relaxed(&segment->written_at,
				ts_add_relaxed(&store->header->seal_clock, 1) + 1);
		ts_cas(&segment->word, &word, ts_segment_become(word, TS_SEGMENT_SEALED, 0));
	}
}

/* ---- runs ------------------------------------------------------------------------------- */

bool ts_segment_is_free(const struct ts_store *store, uint32_t index, uint64_t word)
{
	uint32_t distance = ts_segment_tied(word);

	if (ts_segment_state(word) != TS_SEGMENT_TIED)
		return ts_segment_state(word) == TS_SEGMENT_FREE;
	if (distance > index)
		return true;
	/* After the word, which only the owner of the head makes TIED. */
	uint64_t head = ts_load_acquire(&store->segments[index - distance].word);
	return (!ts_segment_readable(head) && ts_segment_state(head) != TS_SEGMENT_DRAIN) ||
	       ts_segment_tied(head) < distance;
}

uint64_t ts_segment_room(const struct ts_store *store, uint32_t index, uint64_t word)
{
	uint32_t tied = ts_segment_tied(word), count = store->shape.segment_count;

	for (uint32_t i = 1; i <= tied; i++) {
		if (i >= count - index)
			return 0;
		uint64_t next = ts_load_acquire(&store->segments[index + i].word);
		if (ts_segment_state(next) != TS_SEGMENT_TIED || ts_segment_tied(next) != i ||
			!ts_pages_exist(store, index + i))
			return 0;
	}
	return (tied + 1) * store->shape.segment_bytes;
}

/* ---- reclaiming ------------------------------------------------------------------------- */

bool ts_segment_is_pinned(struct ts_store *store, uint32_t segment, uint32_t generation)
{
	uint64_t pin = ts_lease_pack(segment, generation);
	uint32_t high = ts_member_high(store);

	for (uint32_t m = 0; m < high; m++) {
		for (uint32_t i = 0; i < TS_LEASES; i++) {
			/* A3: pairs with R3, the clearing of a lease after its last read. */
			if (ts_load_acquire(&store->members[m].lease[i]) == pin)
				return true;
		}
	}
	return false;
}

int ts_segment_drain(struct ts_store *store, uint32_t index, uint64_t sealed)
{
	struct ts_segment *segment = &store->segments[index];
	uint32_t generation = ts_segment_generation(sealed);
	uint64_t drained = ts_segment_become(sealed, TS_SEGMENT_DRAIN, (uint32_t)store->member);

	/* A look before DRAIN, which turns readers away: a kept lease costs nobody a hit. */
	if (ts_segment_is_pinned(store, index, generation))
		return -EBUSY;
	/* A2: pairs with R2, the owner's seal. */
	if (!ts_cas(&segment->word, &sealed, drained))
		return -EBUSY;
	TS_KILLPOINT(segment_drain);
	/* D2: our DRAIN before the loads of lease words; pairs with D1 in the reader. */
	ts_fence_full();
	bool pinned = ts_segment_is_pinned(store, index, generation);
	TS_KILLPOINT(segment_scan);
	uint64_t next = pinned ? sealed : ts_segment_pack(TS_SEGMENT_FREE, 0, generation + 1);
	if (!ts_cas(&segment->word, &drained, next))
		return -EBUSY;
	TS_KILLPOINT(segment_freed);
	return pinned ? -EBUSY : 0;
}

void ts_segment_forget(struct ts_window *window)
{
	window->map = NULL;
	window->segment = -1;
}

bool ts_segment_is_mine(struct ts_store *store, const struct ts_window *window)
{
	return ts_load_acquire(&store->segments[window->segment].word) ==
	       word_of(store, window);
}

uint64_t ts_segments_used(struct ts_segment *segments, uint32_t count, uint64_t segment_bytes)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t word = ts_load_relaxed(&segments[i].word);
		if (ts_segment_readable(word))
			sum += ts_min_u64(ts_load_relaxed(&segments[i].used),
				(ts_segment_tied(word) + 1) * segment_bytes);
	}
	return ts_min_u64(sum, count * segment_bytes);
}
