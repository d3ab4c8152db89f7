/* SPDX-License-Identifier: MIT */
/* When the records of a dataset are worth publishing: on demand, or into a ring that is kept.
 */
#include "leader/group/store_private.h"
#include "shim/sys.h"

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

/* ---- rings that are kept ---------------------------------------------------------------- */

#define SECOND_NS UINT64_C(1000000000)

/* Room comes back by what others free or the machine allows: nothing to ask about often. */
#define FULL_NS (2 * SECOND_NS)

void ts_keep_extend(struct ts_store *store)
{
	if (store->keep == 0)
		return;
	_Atomic uint64_t *until = &store->header->kept_until_ns;
	uint64_t mine = ts_now_ns() + store->keep * SECOND_NS, seen = ts_load_relaxed(until);

	while (seen < mine && !ts_cas(until, &seen, mine))
		continue;
}

bool ts_keep_holds(const struct ts_store *store)
{
	return ts_now_ns() < ts_load_relaxed(&store->header->kept_until_ns);
}

/*
 * Samples that draw random numbers do not come again.  Copies of files and to GPUs have objects
 * of their own.
 */
bool ts_keep_fills(struct ts_store *store, const struct ts_dataset_row *row,
	const struct ts_demand *demand)
{
	if (store->keep == 0)
		return false;
	if (demand != &row->demands[TS_KIND_PIXELS] && demand != &row->demands[TS_KIND_SAMPLE])
		return false;
	uint64_t at = ts_load_relaxed(&store->fill_at);
	return at == 0 || ts_now_ns() >= at;
}

bool ts_keep_has_company(struct ts_store *store)
{
	uint32_t high = ts_member_high(store);

	if (ts_load_relaxed(&store->header->kept_until_ns) == 0)
		return true; /* the ring would have gone with it */
	for (uint32_t i = 0; i < high; i++) {
		struct ts_member *member = &store->members[i];
		if (ts_member_state(ts_load_relaxed(&member->word)) == TS_MEMBER_LIVE &&
			ts_load_relaxed(&member->job) != store->job)
			return true;
	}
	return false;
}

void ts_keep_is_full(struct ts_store *store)
{
	ts_write_relaxed(&store->fill_at, ts_now_ns() + FULL_NS);
}
