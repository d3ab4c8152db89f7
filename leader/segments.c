/* SPDX-License-Identifier: MIT */
/* Segments: opening, reclaiming, sealing, and the private writable windows onto them. */
#include "leader/store_private.h"
#include "leader/words.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; not in older headers */
#endif

/* ---- windows ------------------------------------------------------------------------------
 */

/*
 * A window is the segment's place in the read-only mapping of all segments, made writable
 * for as long as it is OPEN.  A second, writable mapping would have to be filled with pages
 * for each segment (1.3 ms for 16 MiB, and 0.7 ms to empty it); changing the protection
 * keeps those that are there (0.4 ms each way).
 */
static unsigned char *segment_at(const struct ts_store *store, uint32_t segment)
{
	return (unsigned char *)store->data + segment * store->shape.segment_bytes;
}

static void window_close(struct ts_store *store, struct ts_window *window)
{
	if (window->map)
		(void)mprotect(window->map, store->shape.segment_bytes, PROT_READ);
	window->map = NULL;
}

static int window_map(struct ts_store *store, struct ts_window *window, uint32_t segment)
{
	uint64_t bytes = store->shape.segment_bytes;
	unsigned char *map = segment_at(store, segment);
	uint64_t seen = UINT64_C(1) << segment % 64;

	if (mprotect(map, bytes, PROT_READ | PROT_WRITE) < 0)
		return -ENOMEM;
	/* All pages in one go, the first time: cheaper than a fault for each.  Kernels before
	 * 5.14 say EINVAL and fault. */
	if (!(ts_load_relaxed(&store->populated[segment / 64]) & seen)) {
		(void)madvise(map, bytes, MADV_POPULATE_WRITE);
		ts_or_relaxed(&store->populated[segment / 64], seen);
	}
	window->map = map;
	return 0;
}

void ts_segment_forget_windows(struct ts_store *store)
{
	for (uint32_t i = 0; i < TS_WINDOWS; i++) {
		struct ts_window *window = &store->windows[i];
		window_close(store, window);
		window->segment = -1;
		ts_store_relaxed(&window->busy, 0);
	}
	/* A fork child has the mappings, but none of their pages. */
	for (uint32_t i = 0; i < TS_ARRAY_SIZE(store->populated); i++)
		ts_store_relaxed(&store->populated[i], 0);
}

/* ---- sealing ------------------------------------------------------------------------------
 */

/* OPEN(me) -> SEALED. All writes of this process into the segment are done. */
static void seal_word(struct ts_store *store, uint32_t index, uint32_t generation)
{
	struct ts_segment *segment = &store->segments[index];
	uint64_t open = ts_segment_pack(TS_SEGMENT_OPEN, (uint32_t)store->member, generation);

	ts_store_relaxed(
		&segment->sealed_at, ts_add_relaxed(&store->header->seal_clock, 1) + 1);
	/* R2: the last write before SEALED; pairs with A2 in drain(). */
	ts_cas(&segment->word, &open, ts_segment_pack(TS_SEGMENT_SEALED, 0, generation));
}

void ts_segment_seal(struct ts_store *store, struct ts_window *window)
{
	if (window->segment < 0)
		return;
	window_close(store, window);
	TS_KILLPOINT(segment_seal);
	seal_word(store, (uint32_t)window->segment, window->generation);
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
			ts_store_relaxed(&segment->sealed_at,
				ts_add_relaxed(&store->header->seal_clock, 1) + 1);
		ts_cas(&segment->word, &word,
			ts_segment_pack(TS_SEGMENT_SEALED, 0, ts_segment_generation(word)));
	}
}

/* ---- reclaiming ---------------------------------------------------------------------------
 */

/* Whether any lease word pins @segment in @generation. */
static bool is_pinned(struct ts_store *store, uint32_t segment, uint32_t generation)
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

/* SEALED -> DRAIN -> FREE of the next generation, or back when somebody reads there. */
static int drain(struct ts_store *store, uint32_t index, uint64_t sealed)
{
	struct ts_segment *segment = &store->segments[index];
	uint32_t generation = ts_segment_generation(sealed);
	uint64_t drained =
		ts_segment_pack(TS_SEGMENT_DRAIN, (uint32_t)store->member, generation);

	/* A look before DRAIN, which turns readers away: a kept lease costs nobody a hit. */
	if (is_pinned(store, index, generation))
		return -EBUSY;
	/* A2: pairs with R2, the owner's seal. */
	if (!ts_cas(&segment->word, &sealed, drained))
		return -EBUSY;
	TS_KILLPOINT(segment_drain);
	/* D2: our DRAIN before the loads of lease words; pairs with D1 in the reader. */
	ts_fence_full();
	bool pinned = is_pinned(store, index, generation);
	TS_KILLPOINT(segment_scan);
	uint64_t next = pinned ? ts_segment_pack(TS_SEGMENT_SEALED, 0, generation)
			       : ts_segment_pack(TS_SEGMENT_FREE, 0, generation + 1);
	if (!ts_cas(&segment->word, &drained, next))
		return -EBUSY;
	TS_KILLPOINT(segment_freed);
	return pinned ? -EBUSY : 0;
}

static bool is_allocated(struct ts_store *store, uint32_t index)
{
	return ts_load_acquire(&store->segments[index].allocated) != 0;
}

/* FREE -> OPEN(me) of a segment with or without memory. Returns its index or -ENOENT. */
static int open_free(struct ts_store *store, bool allocated, uint32_t *ret_generation)
{
	for (uint32_t i = 0; i < store->shape.segment_count; i++) {
		struct ts_segment *segment = &store->segments[i];
		uint64_t word = ts_load_acquire(&segment->word);
		if (ts_segment_state(word) != TS_SEGMENT_FREE ||
			is_allocated(store, i) != allocated)
			continue;
		uint32_t generation = ts_segment_generation(word);
		uint64_t open =
			ts_segment_pack(TS_SEGMENT_OPEN, (uint32_t)store->member, generation);
		if (!ts_cas(&segment->word, &word, open))
			continue;
		TS_KILLPOINT(segment_open);
		*ret_generation = generation;
		return (int)i;
	}
	return -ENOENT;
}

/* The oldest SEALED segment sealed after @after, or -ENOENT; ties go by index. */
static int oldest_sealed(struct ts_store *store, uint64_t after_time, int after_index)
{
	uint64_t best_time = 0;
	int best = -ENOENT;

	for (uint32_t i = 0; i < store->shape.segment_count; i++) {
		uint64_t time = ts_load_relaxed(&store->segments[i].sealed_at);
		uint64_t word = ts_load_acquire(&store->segments[i].word);
		if (ts_segment_state(word) != TS_SEGMENT_SEALED || !is_allocated(store, i))
			continue;
		if (time < after_time || (time == after_time && (int)i <= after_index))
			continue;
		if (best < 0 || time < best_time) {
			best = (int)i;
			best_time = time;
		}
	}
	return best;
}

/* Free the oldest segment that nobody pins; every segment is tried once at most. */
static int reclaim(struct ts_store *store)
{
	uint64_t time = 0;
	int index = -1;

	for (uint32_t tries = 0; tries < store->shape.segment_count; tries++) {
		index = oldest_sealed(store, time, index);
		if (index < 0)
			return -ENOSPC;
		time = ts_load_relaxed(&store->segments[index].sealed_at);
		uint64_t word = ts_load_acquire(&store->segments[index].word);
		if (ts_segment_state(word) == TS_SEGMENT_SEALED &&
			drain(store, (uint32_t)index, word) == 0)
			return 0;
	}
	return -ENOSPC;
}

/*
 * Take the fullest segment that another member has OPEN but is not writing into: members that
 * stopped producing would keep theirs for ever.  It is sealed in its owner's name and then
 * reclaimed like any other; the owner notices before it writes again (claims.c, hold_room).
 */
static int take_idle(struct ts_store *store)
{
	uint64_t best_used = 0, best_word = 0;
	uint32_t best = 0;

	for (uint32_t i = 0; i < store->shape.segment_count; i++) {
		uint64_t word = ts_load_acquire(&store->segments[i].word);
		uint64_t used = ts_load_relaxed(&store->segments[i].used);
		if (ts_segment_state(word) != TS_SEGMENT_OPEN || used <= best_used ||
			ts_segment_owner(word) == (uint32_t)store->member ||
			!is_allocated(store, i) ||
			is_pinned(store, i, ts_segment_generation(word)))
			continue;
		best = i;
		best_used = used;
		best_word = word;
	}
	if (best_used == 0)
		return -ENOSPC;
	uint64_t sealed =
		ts_segment_pack(TS_SEGMENT_SEALED, 0, ts_segment_generation(best_word));
	if (!ts_cas(&store->segments[best].word, &best_word, sealed))
		return -EAGAIN;
	TS_KILLPOINT(segment_taken);
	return drain(store, best, sealed);
}

/* An OPEN segment that never got memory goes back the ordinary way; nobody can have a pin. */
static void give_back(struct ts_store *store, uint32_t index, uint32_t generation)
{
	seal_word(store, index, generation);
	drain(store, index, ts_segment_pack(TS_SEGMENT_SEALED, 0, generation));
}

/* Segments a crash left sealed without memory become FREE, so that growth can use them. */
static void free_unallocated(struct ts_store *store)
{
	for (uint32_t i = 0; i < store->shape.segment_count; i++) {
		uint64_t word = ts_load_acquire(&store->segments[i].word);
		if (ts_segment_state(word) == TS_SEGMENT_SEALED && !is_allocated(store, i))
			drain(store, i, word);
	}
}

/* Pages are allocated by who produces into them, so that its own cgroup is charged. */
static int allocate(struct ts_store *store, int fd, uint32_t index)
{
	uint64_t bytes = store->shape.segment_bytes;

	if (is_allocated(store, index))
		return 0;
	int r = ts_sys_fallocate(fd, store->shape.data_at + index * bytes, bytes);
	if (r < 0)
		return r;
	ts_store_release(&store->segments[index].allocated, 1); /* R4, pairs with A4 */
	ts_add_relaxed(&store->header->allocated_bytes, bytes);
	TS_KILLPOINT(segment_allocated);
	return 0;
}

/* ---- opening ------------------------------------------------------------------------------
 */

static int find_segment(struct ts_store *store, bool may_grow, uint32_t *ret_generation)
{
	for (int round = 0; round < 2; round++) {
		for (uint32_t tries = 0; tries < 4; tries++) {
			int index = open_free(store, true, ret_generation);
			if (index < 0 && may_grow && ts_limits_may_grow(store)) {
				free_unallocated(store);
				index = open_free(store, false, ret_generation);
			}
			if (index >= 0)
				return index;
			if (reclaim(store) < 0 && take_idle(store) == -ENOSPC)
				break;
			/* It is FREE now, but not ours: somebody may be faster, hence `tries`.
			 */
		}
		if (round == 0 && ts_member_clean_all(store) == 0)
			break;
	}
	return -ENOSPC;
}

void ts_segment_forget(struct ts_window *window)
{
	window->map = NULL;
	window->segment = -1;
}

bool ts_segment_is_mine(struct ts_store *store, const struct ts_window *window)
{
	return ts_load_acquire(&store->segments[window->segment].word) ==
	       ts_segment_pack(TS_SEGMENT_OPEN, (uint32_t)store->member, window->generation);
}

int ts_segment_open(struct ts_store *store, struct ts_window *window)
{
	uint32_t generation = 0;
	bool reopened = false;
	int fd = ts_object_fd(&store->ring, &reopened);

	if (fd < 0)
		return fd;
	if (reopened)
		ts_member_relock(store);
	ts_member_clean_next(store);
	for (int attempt = 0; attempt < 2; attempt++) {
		/* Second attempt: the file system is full, so use only what exists. */
		int index = find_segment(store, attempt == 0, &generation);
		if (index < 0)
			return index;
		int r = allocate(store, fd, (uint32_t)index);
		if (r < 0) {
			give_back(store, (uint32_t)index, generation);
			continue;
		}
		r = window_map(store, window, (uint32_t)index);
		if (r < 0) {
			seal_word(store, (uint32_t)index, generation);
			return r;
		}
		TS_KILLPOINT(segment_mapped);
		ts_store_relaxed(&store->segments[index].used, 0);
		window->segment = index;
		window->generation = generation;
		window->next = 0;
		return 0;
	}
	return -ENOSPC;
}

void ts_store_usage(struct ts_store *store, uint64_t *ret_capacity, uint64_t *ret_used)
{
	uint64_t used = 0;

	for (uint32_t i = 0; i < store->shape.segment_count; i++) {
		uint64_t word = ts_load_relaxed(&store->segments[i].word);
		uint64_t bytes = ts_load_relaxed(&store->segments[i].used);
		if (ts_segment_readable(word))
			used += ts_min_u64(bytes, store->shape.segment_bytes);
	}
	*ret_capacity = store->shape.segment_count * store->shape.segment_bytes;
	*ret_used = used;
}
