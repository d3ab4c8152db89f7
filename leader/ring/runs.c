/* SPDX-License-Identifier: MIT */
/* Runs: adjacent segments for one record that is larger than a segment. */
#include "leader/group/store_private.h"

/* Looks at a segment that others change at the same moment, and for another place. */
#define TRIES 4u

#define NEVER UINT64_MAX

/* Whose segment @index, with @word, is: the head of its run, or itself. */
static uint32_t head_of(uint32_t index, uint64_t word)
{
	bool is_tied = ts_segment_state(word) == TS_SEGMENT_TIED;

	return is_tied ? index - ts_segment_tied(word) : index;
}

/**
 * What there is to be had: memory that the ring has, whose records may be evicted, and memory
 * that it has yet to get.
 */
struct terms {
	bool spares, may_grow;
};

/* What it costs to have segment @index: the age of the record that goes, if any; or NEVER, also
 * where that is not below @most. */
static uint64_t price_of(
	struct ts_store *store, uint32_t index, struct terms terms, uint64_t most)
{
	uint64_t word = ts_load_acquire(&store->segments[index].word);

	if (ts_segment_is_free(store, index, word)) {
		if (ts_pages_exist(store, index))
			return 0;
		return terms.may_grow ? 1 : NEVER;
	}
	uint32_t head = head_of(index, word);
	uint64_t age = ts_load_relaxed(&store->segments[head].written_at) + 2;
	word = ts_load_acquire(&store->segments[head].word);
	if (terms.spares || age >= most || !ts_segment_is_candidate(store, head, word) ||
		ts_segment_is_pinned(store, head, ts_segment_generation(word)))
		return NEVER;
	return age;
}

/*
 * Where the youngest record that has to go for @count segments in a row is the oldest, or
 * -ENOSPC.  Of equal places the last one: single segments are taken from the other end.
 */
static int find_place(struct ts_store *store, uint32_t count, struct terms terms)
{
	uint64_t best = NEVER;
	int place = -ENOSPC;

	for (uint32_t start = store->shape.segment_count - count + 1;
		start-- > 0 && best > 0;) {
		uint64_t price = 0;
		for (uint32_t i = count; i-- > 0 && price < best;)
			price = ts_max_u64(price, price_of(store, start + i, terms, best));
		if (price < best) {
			best = price;
			place = (int)start;
		}
	}
	return place;
}

/* Make the segment at @distance from @head ours: the head itself OPEN, the others TIED. */
static int have(struct ts_store *store, uint32_t head, uint32_t distance, uint32_t tied,
	uint64_t *ret_word)
{
	uint32_t index = head + distance;

	for (uint32_t tries = 0; tries < TRIES; tries++) {
		uint64_t word = ts_load_acquire(&store->segments[index].word);
		/* Of a head that was there before us: now it is ours. */
		bool is_left = distance > 0 && ts_segment_state(word) == TS_SEGMENT_TIED &&
			       ts_segment_tied(word) == distance;
		if (!is_left && !ts_segment_is_free(store, index, word)) {
			if (ts_segment_take(store, head_of(index, word)) < 0)
				return -EBUSY;
		} else if (ts_segment_begin(store, index, word,
				   distance ? TS_SEGMENT_TIED : TS_SEGMENT_OPEN,
				   distance ? distance : tied, ret_word)) {
			return 0;
		}
	}
	return -EBUSY;
}

/* Tie those behind @head to it; it is ours, and pinned, so that they are too. */
static int tie(struct ts_store *store, uint32_t head, uint32_t tied)
{
	uint64_t word;

	for (uint32_t i = 1; i <= tied; i++) {
		if (have(store, head, i, tied, &word) < 0)
			return -EBUSY;
		TS_KILLPOINT(segment_tied);
	}
	return 0;
}

static int allocate(struct ts_store *store, uint32_t first, uint32_t count)
{
	int fd = ts_member_ring_fd(store), r = fd < 0 ? fd : 0;

	for (uint32_t i = first; r == 0 && i < first + count; i++)
		r = ts_pages_allocate(store, fd, i);
	return r;
}

/* A run at @head for @window.  Errors: -EBUSY somebody was faster; of memory. */
static int open_at(struct ts_store *store, struct ts_window *window, uint32_t head,
	uint32_t tied, uint32_t slot)
{
	uint64_t word;

	if (have(store, head, 0, tied, &word) < 0)
		return -EBUSY;
	ts_lease_pin(store, slot, head, ts_segment_generation(word));
	TS_KILLPOINT(reserve_pin);
	ts_fence_full(); /* D1 */
	int r = ts_load_acquire(&store->segments[head].word) == word ? tie(store, head, tied)
								     : -EBUSY;
	if (r == 0)
		r = allocate(store, head, tied + 1);
	if (r == 0)
		r = ts_pages_open(store, head, tied + 1, &window->map);
	if (r < 0) {
		ts_lease_unpin(store, slot);
		ts_segment_give_back(store, head, word);
		return r;
	}
	TS_KILLPOINT(segment_mapped);
	window->segment = (int32_t)head;
	window->generation = ts_segment_generation(word);
	window->tied = tied;
	window->next = 0;
	return 0;
}

int ts_run_open(struct ts_store *store, struct ts_window *window, uint32_t count, uint32_t slot,
	bool spares)
{
	struct terms terms = {.spares = spares, .may_grow = ts_limits_may_grow(store, count)};

	ts_member_clean_next(store);
	if (terms.may_grow)
		ts_segment_free_unallocated(store);
	for (uint32_t tries = 0; tries < TRIES; tries++) {
		int head = find_place(store, count, terms);
		if (head < 0 && ts_member_clean_all(store) == 0)
			return head;
		if (head < 0)
			continue;
		int r = open_at(store, window, (uint32_t)head, count - 1, slot);
		if (r == 0)
			return 0;
		/* The file system is full, so use only what exists. */
		if (r != -EBUSY)
			terms.may_grow = false;
	}
	return -ENOSPC;
}

void ts_run_end(struct ts_store *store, struct ts_window *window, uint32_t slot)
{
	uint32_t head = (uint32_t)window->segment;
	uint64_t sealed = ts_segment_pack(TS_SEGMENT_SEALED, 0, window->generation) |
			  ts_segment_tied_put(window->tied);
	bool is_published = window->next > 0;

	/* Pinned, it cannot come back to this process before it is read-only here. */
	ts_segment_seal(store, window);
	ts_lease_drop(store, slot);
	if (!is_published)
		ts_segment_drain(store, head, sealed);
}
