/* SPDX-License-Identifier: MIT */
/* Capture on demand: when the records of a dataset are worth publishing. */
#include "leader/group/store_private.h"

/* A member keeps publishing while at least one of that many published records is taken. */
#define TAKEN_ONE_IN 20u

/* Each time capturing did not pay, that many times more demand is needed to start again. */
#define NEEDED_FACTOR 4u
#define NEEDED_MAX    4096u

bool ts_demand_count(struct ts_demand *demand)
{
	uint64_t needed = ts_max_u64(1, ts_load_relaxed(&demand->needed));

	if (ts_add_relaxed(&demand->asked, 1) + 1 < needed)
		return ts_load_relaxed(&demand->capture) != 0;
	ts_write_relaxed(&demand->capture, 1);
	return true;
}

void ts_store_want(struct ts_store *store, enum ts_kind kind, bool is_wanted)
{
	ts_write_relaxed(&store->wanted[kind % TS_KIND_COUNT], is_wanted);
}

/* Ends a window. Counts that arrive meanwhile belong to the next one, hence the subtraction. */
static void judge(struct ts_demand *demand)
{
	uint64_t published = ts_load_relaxed(&demand->window_published);
	uint64_t taken = ts_load_relaxed(&demand->window_taken);

	ts_sub_relaxed(&demand->window_published, published);
	ts_sub_relaxed(&demand->window_taken, taken);
	if (taken * TAKEN_ONE_IN >= published) {
		ts_write_relaxed(&demand->needed, 1);
		return;
	}
	uint64_t needed = ts_max_u64(1, ts_load_relaxed(&demand->needed)) * NEEDED_FACTOR;
	ts_write_relaxed(&demand->needed, (uint32_t)ts_min_u64(needed, NEEDED_MAX));
	ts_write_relaxed(&demand->asked, 0);
	ts_write_relaxed(&demand->capture, 0);
}

void ts_demand_published(struct ts_demand *demand, uint64_t bytes, uint64_t capacity)
{
	ts_add_relaxed(&demand->window_published, 1);
	uint64_t total = ts_add_relaxed(&demand->window_bytes, bytes) + bytes;

	/* Only one of the members that see the window full may judge it. */
	if (total >= capacity && ts_cas(&demand->window_bytes, &total, 0))
		judge(demand);
}
