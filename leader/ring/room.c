/* SPDX-License-Identifier: MIT */
/* Room to write: finding a segment, reclaiming the oldest, opening it. */
#include "leader/group/store_private.h"
#include "shim/scratch.h"
#include "shim/sys.h"

/*
 * A job whose records nobody takes leaves the ring to the others: what it has more than one in
 * OWN_SHARE of all segments goes first.  Else a job that fell further behind than the ring
 * holds, and makes everything again, would halve the time that the records of the job in front
 * live, and so would keep itself and those between out of reach for good.  One in PROBE_EVERY
 * of its segments is kept as long as any other, for who follows it at a distance to be noticed.
 * A ring of few segments is cut too coarsely for that.
 */
#define OWN_SHARE   16u
#define PROBE_EVERY 16u
#define SHARED_FROM 24u /* segments */

/* A machine without room is asked again after this. */
#define GROWTH_PAUSE_NS UINT64_C(100000000)

static void begin_generation(struct ts_store *store, struct ts_segment *segment)
{
	uint32_t opening = ts_add_relaxed(&store->openings, 1);

	ts_write_relaxed(&segment->used, 0);
	ts_write_relaxed(&segment->job, store->job);
	ts_write_relaxed(&segment->taken, 0);
	ts_write_relaxed(&segment->is_probe, opening % PROBE_EVERY == 0);
}

bool ts_segment_begin(struct ts_store *store, uint32_t index, uint64_t free,
	enum ts_segment_state state, uint32_t tied, uint64_t *ret_word)
{
	uint32_t owner = state == TS_SEGMENT_OPEN ? (uint32_t)store->member : 0;
	/* A new word in any case: others may be about to take the one of nobody's. */
	uint32_t generation =
		ts_segment_generation(free) + (ts_segment_state(free) == TS_SEGMENT_TIED);
	uint64_t mine = ts_segment_pack(state, owner, generation) | ts_segment_tied_put(tied);

	if (!ts_cas(&store->segments[index].word, &free, mine))
		return false;
	*ret_word = mine;
	if (state != TS_SEGMENT_OPEN)
		return true;
	/* At once: with the age of its last generation it would be taken away again. */
	ts_segment_touch(store, index);
	begin_generation(store, &store->segments[index]);
	TS_KILLPOINT(segment_open);
	return true;
}

/* FREE -> OPEN(me) of a segment with or without memory. Returns its index or -ENOENT. */
static int open_free(struct ts_store *store, bool allocated, uint64_t *ret_word)
{
	for (uint32_t i = 0; i < store->shape.segment_count; i++) {
		uint64_t word = ts_load_acquire(&store->segments[i].word);
		if (ts_segment_is_free(store, i, word) &&
			ts_pages_exist(store, i) == allocated &&
			ts_segment_begin(store, i, word, TS_SEGMENT_OPEN, 0, ret_word))
			return (int)i;
	}
	return -ENOENT;
}

bool ts_segment_is_candidate(struct ts_store *store, uint32_t index, uint64_t word)
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
		if (!ts_segment_is_candidate(
			    store, i, ts_load_acquire(&store->segments[i].word)))
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

int ts_segment_take(struct ts_store *store, uint32_t index)
{
	struct ts_segment *segment = &store->segments[index];
	uint64_t word = ts_load_acquire(&segment->word);
	uint64_t sealed = ts_segment_become(word, TS_SEGMENT_SEALED, 0);

	if (!ts_segment_is_candidate(store, index, word))
		return -EBUSY;
	if (ts_segment_state(word) == TS_SEGMENT_OPEN) {
		if (ts_segment_is_pinned(store, index, ts_segment_generation(word)) ||
			!ts_cas(&segment->word, &word, sealed))
			return -EBUSY;
		TS_KILLPOINT(segment_taken);
	}
	return ts_segment_drain(store, index, sealed);
}

/** The segments of one job, and the oldest that may go before others. */
struct holding {
	uint64_t job, oldest_time;
	uint32_t count;
	int oldest; /* or -ENOENT */
	bool is_taken;
};

static struct holding *holding_of(
	struct holding *all, uint32_t *count, uint32_t most, uint64_t job)
{
	for (uint32_t i = 0; i < *count; i++)
		if (all[i].job == job)
			return &all[i];
	if (*count == most)
		return NULL;
	all[*count] = (struct holding){.job = job, .oldest = -ENOENT};
	return &all[(*count)++];
}

static void add_segment(struct ts_store *store, struct holding *all, uint32_t index)
{
	struct ts_segment *segment = &store->segments[index];
	uint64_t word = ts_load_acquire(&segment->word);
	uint64_t time = ts_load_relaxed(&segment->written_at);

	all->count++;
	all->is_taken |= ts_load_relaxed(&segment->taken) != 0;
	if (ts_segment_state(word) != TS_SEGMENT_SEALED || ts_load_relaxed(&segment->is_probe))
		return;
	if (all->oldest < 0 || time < all->oldest_time) {
		all->oldest = (int)index;
		all->oldest_time = time;
	}
}

/*
 * The oldest segment of a job that has more than its share and whom nobody follows: of this one
 * if it is such a job, else of the one that has most.  -ENOENT: there is none.
 */
static int oldest_unfollowed(struct ts_store *store)
{
	struct holding *all TS_SCRATCH = ts_scratch();
	const struct holding *largest = NULL;
	uint32_t jobs = 0, share = store->shape.segment_count / OWN_SHARE;

	if (!all || store->shape.segment_count < SHARED_FROM)
		return -ENOENT;
	for (uint32_t i = 0; i < store->shape.segment_count; i++) {
		if (!ts_segment_readable(ts_load_acquire(&store->segments[i].word)))
			continue;
		struct holding *some = holding_of(
			all, &jobs, TS_JOB_MAX, ts_load_relaxed(&store->segments[i].job));
		if (some)
			add_segment(store, some, i);
	}
	for (uint32_t i = 0; i < jobs; i++) {
		if (all[i].is_taken || all[i].count <= share || all[i].oldest < 0)
			continue;
		if (all[i].job == store->job)
			return all[i].oldest;
		if (!largest || all[i].count > largest->count)
			largest = &all[i];
	}
	return largest ? largest->oldest : -ENOENT;
}

/* Free one of ours that nobody wants, else the one that nobody has written to for longest. */
static int reclaim(struct ts_store *store)
{
	uint64_t time = 0;
	int index = oldest_unfollowed(store);

	if (index >= 0 && ts_segment_take(store, (uint32_t)index) == 0)
		return 0;
	index = -1;
	/* Every segment is tried once at most. */
	for (uint32_t tries = 0; tries < store->shape.segment_count; tries++) {
		index = next_oldest(store, time, index);
		if (index < 0)
			return -ENOSPC;
		time = ts_load_relaxed(&store->segments[index].written_at);
		if (ts_segment_take(store, (uint32_t)index) == 0)
			return 0;
	}
	return -ENOSPC;
}

/* An OPEN segment that never got memory goes back the ordinary way; nobody can have a pin. */
void ts_segment_give_back(struct ts_store *store, uint32_t index, uint64_t open)
{
	ts_segment_seal_word(store, index, open);
	ts_segment_drain(store, index, ts_segment_become(open, TS_SEGMENT_SEALED, 0));
}

void ts_segment_free_unallocated(struct ts_store *store)
{
	for (uint32_t i = 0; i < store->shape.segment_count; i++) {
		uint64_t word = ts_load_acquire(&store->segments[i].word);
		if (ts_segment_state(word) == TS_SEGMENT_SEALED && !ts_pages_exist(store, i))
			ts_segment_drain(store, i, word);
	}
}

bool ts_limits_may_grow(struct ts_store *store, uint32_t count)
{
	uint64_t allocated = store->shape.data_at, now = ts_now_ns();

	/* Counted afresh: a counter would be wrong for ever after a crash between two steps. */
	for (uint32_t i = 0; i < store->shape.segment_count; i++) {
		if (ts_load_relaxed(&store->segments[i].allocated))
			allocated += store->shape.segment_bytes;
	}
	/* The usual case is a complete ring, and asking the machine takes dozens of files. */
	if (allocated == store->shape.total_bytes || now < ts_load_relaxed(&store->grow_at))
		return false;
	int fd = ts_member_ring_fd(store);
	if (fd < 0)
		return false;
	uint64_t limit = ts_limits_growth(ts_limits_machine(fd, allocated));
	bool may = allocated + count * store->shape.segment_bytes <= limit;
	if (!may)
		ts_write_relaxed(&store->grow_at, now + GROWTH_PAUSE_NS);
	return may;
}

static int find_segment(struct ts_store *store, bool may_grow, bool spares, uint64_t *ret_word)
{
	for (int round = 0; round < 2; round++) {
		for (uint32_t tries = 0; tries < 4; tries++) {
			int index = open_free(store, true, ret_word);
			if (index < 0 && may_grow && ts_limits_may_grow(store, 1)) {
				ts_segment_free_unallocated(store);
				index = open_free(store, false, ret_word);
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
	uint64_t word = 0;
	int fd = ts_member_ring_fd(store);

	if (fd < 0)
		return fd;
	ts_member_clean_next(store);
	for (int attempt = 0; attempt < 2; attempt++) {
		/* Second attempt: the file system is full, so use only what exists. */
		int index = find_segment(store, attempt == 0, spares, &word);
		if (index < 0)
			return index;
		int r = ts_pages_allocate(store, fd, (uint32_t)index);
		if (r < 0) {
			ts_segment_give_back(store, (uint32_t)index, word);
			continue;
		}
		r = ts_pages_open(store, (uint32_t)index, 1, &window->map);
		if (r < 0) {
			ts_segment_seal_word(store, (uint32_t)index, word);
			return r;
		}
		TS_KILLPOINT(segment_mapped);
		window->segment = index;
		window->generation = ts_segment_generation(word);
		window->tied = 0;
		window->next = 0;
		return 0;
	}
	return -ENOSPC;
}
