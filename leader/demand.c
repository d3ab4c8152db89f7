/* SPDX-License-Identifier: MIT */
/* Capture on demand: when the records of a dataset are worth publishing. */
#include "leader/store_private.h"

/* A member keeps publishing while at least one of that many published records is taken. */
#define TAKEN_ONE_IN 20u

/* Each time capturing did not pay, that many times more demand is needed to start again. */
#define NEEDED_FACTOR 4u
#define NEEDED_MAX    4096u

struct ts_dataset_row *ts_demand_row(struct ts_store *store, uint32_t dataset)
{
	return ts_ledger_dataset(store->ledger, dataset < TS_DATASET_MAX ? dataset : 0);
}

bool ts_demand_count(struct ts_dataset_row *row)
{
	uint64_t needed = ts_max_u64(1, ts_load_relaxed(&row->demand_needed));

	if (ts_add_relaxed(&row->demand, 1) + 1 < needed)
		return ts_load_relaxed(&row->capture) != 0;
	ts_store_relaxed(&row->capture, 1);
	return true;
}

void ts_demand_taken(struct ts_dataset_row *row)
{
	ts_add_relaxed(&row->window_taken, 1);
}

/* Ends a window. Counts that arrive meanwhile belong to the next one, hence the subtraction. */
static void judge(struct ts_dataset_row *row)
{
	uint64_t published = ts_load_relaxed(&row->window_published);
	uint64_t taken = ts_load_relaxed(&row->window_taken);

	ts_sub_relaxed(&row->window_published, published);
	ts_sub_relaxed(&row->window_taken, taken);
	if (taken * TAKEN_ONE_IN >= published) {
		ts_store_relaxed(&row->demand_needed, 1);
		return;
	}
	uint64_t needed = ts_max_u64(1, ts_load_relaxed(&row->demand_needed)) * NEEDED_FACTOR;
	ts_store_relaxed(&row->demand_needed, (uint32_t)ts_min_u64(needed, NEEDED_MAX));
	ts_store_relaxed(&row->demand, 0);
	ts_store_relaxed(&row->capture, 0);
}

void ts_demand_published(struct ts_dataset_row *row, uint64_t bytes, uint64_t capacity)
{
	ts_add_relaxed(&row->window_published, 1);
	uint64_t total = ts_add_relaxed(&row->window_bytes, bytes) + bytes;

	/* Only one of the members that see the window full may judge it. */
	if (total >= capacity && ts_cas(&row->window_bytes, &total, 0))
		judge(row);
}
