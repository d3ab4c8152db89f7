/* SPDX-License-Identifier: MIT */
/* Rings that are kept: a lone job fills one, and it stays for who comes later. */
#include "leader/group/store_private.h"
#include "leader/group/words.h"
#include "shim/sys.h"

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
