/* SPDX-License-Identifier: MIT */
/* Whether sharing a copy pays. */
#include "hooks/cuda/cost.h"

#include "leader/session.h"
#include "shim/atomic.h"

#include <stdlib.h>

#define CLASSES 64u

/* One in so many copies that do not pay is looked for all the same. */
#define PROBE 64u

/* Newest copies of the group that say how many are found; in parts of 1024. */
#define WINDOW 64u
#define PARTS  1024u

/* One in so many parts of the difference is forgotten with each that is faster. */
#define FORGET 256u

/* Of 1 KiB. */
#define GROUP_MAX_NS UINT64_C(1000000)

static _Atomic uint64_t average[TS_COST_COUNT][CLASSES];
static _Atomic uint64_t slowest[CLASSES];
static _Atomic uint32_t refused;
static _Atomic uint64_t looked_before, found_before;
static _Atomic uint32_t found_parts = PARTS / 2;

/* Sizes of one class differ by less than a factor of two. */
static unsigned class_of(uint64_t bytes)
{
	return 63u - (unsigned)__builtin_clzll(bytes | 1);
}

void ts_cost_learn(enum ts_cost cost, uint64_t bytes, uint64_t ns)
{
	_Atomic uint64_t *at = &average[cost][class_of(bytes)];
	uint64_t old = ts_load_relaxed(at);
	ts_store_relaxed(at, old ? old - old / 8 + ns / 8 : ts_max_u64(ns, 1));
}

uint64_t ts_cost_of(enum ts_cost cost, uint64_t bytes)
{
	return ts_load_relaxed(&average[cost][class_of(bytes)]);
}

void ts_cost_brought(uint64_t bytes, uint64_t ns)
{
	_Atomic uint64_t *at = &slowest[class_of(bytes)];
	uint64_t old = ts_load_relaxed(at);
	/* Waiting too short costs a copy, too long nothing where others are not held up. */
	if (old)
		ns = ns > old ? ts_min_u64(ns, 4 * old) : old - (old - ns) / FORGET;
	ts_store_relaxed(at, ts_max_u64(ns, 1));
	ts_session_learn_cost(TS_KIND_DEVICE, bytes, ns);
}

uint64_t ts_cost_of_bringing(const struct ts_dataset_row *row, uint64_t bytes)
{
	uint64_t own = ts_load_relaxed(&slowest[class_of(bytes)]);
	uint64_t group = ts_load_relaxed(&row->cost_ns_per_kib[TS_KIND_DEVICE]);
	/* Whatever is in there, keep the product far from overflow. */
	return own ? own
		   : 2 * ts_min_u64(group, GROUP_MAX_NS) * ts_min_u64(bytes >> 10, UINT32_MAX);
}

/* Share of the group's newest copies that were taken. */
static uint64_t parts_found(const struct ts_dataset_row *row)
{
	const struct ts_tally *tally = &row->kinds[TS_KIND_DEVICE];
	uint64_t found = ts_load_relaxed(&tally->shared);
	uint64_t looked = found + ts_load_relaxed(&tally->produced);
	uint64_t since = looked - ts_load_relaxed(&looked_before);
	if (since >= WINDOW) {
		uint64_t of_them = found - ts_load_relaxed(&found_before);
		ts_store_relaxed(&looked_before, looked);
		ts_store_relaxed(&found_before, found);
		ts_store_relaxed(
			&found_parts, (uint32_t)(ts_min_u64(of_them, since) * PARTS / since));
	}
	return ts_load_relaxed(&found_parts);
}

static bool is_forced(void)
{
#ifdef TS_TEST_BUILD
	return getenv("TSSHIM_TEST_COPIES_ALWAYS") != NULL;
#else
	return false;
#endif
}

bool ts_cost_pays(const struct ts_dataset_row *row, uint64_t bytes)
{
	uint64_t own = ts_cost_of(TS_COST_OWN, bytes), hash = ts_cost_of(TS_COST_HASH, bytes);
	uint64_t taken = ts_cost_of(TS_COST_TAKEN, bytes), found = parts_found(row);
	if (own == 0 || hash == 0 || is_forced())
		return true;
	uint64_t saved = own > taken ? own - taken : 0;
	/* One pass in any case, the second where nothing was found. */
	if (saved * found > hash * PARTS + hash * (PARTS - found))
		return true;
	return ts_add_relaxed(&refused, 1) % PROBE == 0;
}
