/* SPDX-License-Identifier: MIT */
/* Room to write: finding a segment, reclaiming the oldest, opening it. */
#include "leader/group/store_private.h"
#include "leader/group/words.h"

/* FREE -> OPEN(me) of a segment with or without memory. Returns its index or -ENOENT. */
static int open_free(struct ts_store *store, bool allocated, uint32_t *ret_generation)
{
	for (uint32_t i = 0; i < store->shape.segment_count; i++) {
		struct ts_segment *segment = &store->segments[i];
		uint64_t word = ts_load_acquire(&segment->word);
		if (ts_segment_state(word) != TS_SEGMENT_FREE ||
			ts_pages_exist(store, i) != allocated)
			continue;
		uint32_t generation = ts_segment_generation(word);
		uint64_t open =
			ts_segment_pack(TS_SEGMENT_OPEN, (uint32_t)store->member, generation);
		if (!ts_cas(&segment->word, &word, open))
			continue;
		/* At once: with the age of its last generation it would be taken away again. */
		ts_segment_touch(store, i);
		ts_write_relaxed(&segment->used, 0);
		TS_KILLPOINT(segment_open);
		*ret_generation = generation;
		return (int)i;
	}
	return -ENOENT;
}

/*
 * Whether @word lets us have segment @index: it is SEALED, or another member's OPEN one:
 * a member that stopped producing would keep its segment for ever.
 */
static bool is_candidate(struct ts_store *store, uint32_t index, uint64_t word)
{
	if (!ts_pages_exist(store, index))
		return false;
	return ts_segment_state(word) == TS_SEGMENT_SEALED ||
	       (ts_segment_state(word) == TS_SEGMENT_OPEN &&
		       ts_segment_owner(word) != (uint32_t)store->member);
}

/* The candidate next in age after @after, or -ENOENT; ties go by index. */
static int next_oldest(struct ts_store *store, uint64_t after_time, int after_index)
{
	uint64_t best_time = 0;
	int best = -ENOENT;

	for (uint32_t i = 0; i < store->shape.segment_count; i++) {
		uint64_t time = ts_load_relaxed(&store->segments[i].written_at);
		if (!is_candidate(store, i, ts_load_acquire(&store->segments[i].word)))
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

/*
 * Make the candidate @index FREE.  One that is OPEN is sealed in its owner's name first; the
 * owner notices before it writes again (claims.c, hold_room).
 */
static int take(struct ts_store *store, uint32_t index)
{
	struct ts_segment *segment = &store->segments[index];
	uint64_t word = ts_load_acquire(&segment->word);
	uint64_t sealed = ts_segment_pack(TS_SEGMENT_SEALED, 0, ts_segment_generation(word));

	if (!is_candidate(store, index, word))
		return -EBUSY;
	if (ts_segment_state(word) == TS_SEGMENT_OPEN) {
		if (ts_segment_is_pinned(store, index, ts_segment_generation(word)) ||
			!ts_cas(&segment->word, &word, sealed))
			return -EBUSY;
		TS_KILLPOINT(segment_taken);
	}
	return ts_segment_drain(store, index, sealed);
}

/* Free the segment that nobody pins and nobody has written to for longest. */
static int reclaim(struct ts_store *store)
{
	uint64_t time = 0;
	int index = -1;

	/* Every segment is tried once at most. */
	for (uint32_t tries = 0; tries < store->shape.segment_count; tries++) {
		index = next_oldest(store, time, index);
		if (index < 0)
			return -ENOSPC;
		time = ts_load_relaxed(&store->segments[index].written_at);
		if (take(store, (uint32_t)index) == 0)
			return 0;
	}
	return -ENOSPC;
}

/* An OPEN segment that never got memory goes back the ordinary way; nobody can have a pin. */
static void give_back(struct ts_store *store, uint32_t index, uint32_t generation)
{
	ts_segment_seal_word(store, index, generation);
	ts_segment_drain(store, index, ts_segment_pack(TS_SEGMENT_SEALED, 0, generation));
}

/* Segments a crash left sealed without memory become FREE, so that growth can use them. */
static void free_unallocated(struct ts_store *store)
{
	for (uint32_t i = 0; i < store->shape.segment_count; i++) {
		uint64_t word = ts_load_acquire(&store->segments[i].word);
		if (ts_segment_state(word) == TS_SEGMENT_SEALED && !ts_pages_exist(store, i))
			ts_segment_drain(store, i, word);
	}
}

static int find_segment(
	struct ts_store *store, bool may_grow, bool spares, uint32_t *ret_generation)
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
			if (spares || reclaim(store) < 0)
				break;
			/* It is FREE now, but not ours: somebody may be faster, hence `tries`.
			 */
		}
		if (round == 0 && ts_member_clean_all(store) == 0)
			break;
	}
	return -ENOSPC;
}

int ts_segment_open(struct ts_store *store, struct ts_window *window, bool spares)
{
	uint32_t generation = 0;
	int fd = ts_member_ring_fd(store);

	if (fd < 0)
		return fd;
	ts_member_clean_next(store);
	for (int attempt = 0; attempt < 2; attempt++) {
		/* Second attempt: the file system is full, so use only what exists. */
		int index = find_segment(store, attempt == 0, spares, &generation);
		if (index < 0)
			return index;
		int r = ts_pages_allocate(store, fd, (uint32_t)index);
		if (r < 0) {
			give_back(store, (uint32_t)index, generation);
			continue;
		}
		r = ts_pages_open(store, (uint32_t)index, &window->map);
		if (r < 0) {
			ts_segment_seal_word(store, (uint32_t)index, generation);
			return r;
		}
		TS_KILLPOINT(segment_mapped);
		window->segment = index;
		window->generation = generation;
		window->next = 0;
		return 0;
	}
	return -ENOSPC;
}
