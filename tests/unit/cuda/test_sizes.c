/* SPDX-License-Identifier: MIT */
/* What recurs among the sizes of copies. */
#include "hooks/cuda/gpu/sizes.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define LARGE (UINT64_C(1000) << 20)
#define BATCH (UINT64_C(40) << 20)

static struct ts_sizes sizes;

static void meet(unsigned times, uint64_t bytes)
{
	for (unsigned i = 0; i < times; i++)
		ts_sizes_note(&sizes, bytes);
}

TestSuite(sizes);

Test(sizes, nothing_recurs_that_was_met_less_often)
{
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, UINT64_MAX, 1), 0));
	meet(2, LARGE);
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, UINT64_MAX, 3), 0));
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, UINT64_MAX, 2), LARGE));
	cr_expect(eq(u32, ts_sizes_met(&sizes), 2));
}

Test(sizes, what_is_larger_counts_for_what_is_smaller)
{
	meet(1, LARGE);
	meet(1, LARGE / 2);
	meet(TS_SIZES / 2, BATCH);
	meet(1, LARGE / 4);
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, UINT64_MAX, 1), LARGE));
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, UINT64_MAX, 2), LARGE / 2));
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, UINT64_MAX, 3), LARGE / 4));
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, UINT64_MAX, 4), BATCH));
}

Test(sizes, what_is_too_large_does_not_count_at_all)
{
	meet(TS_SIZES / 2, LARGE);
	meet(2, BATCH);
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, LARGE - 1, 3), 0));
	meet(1, BATCH);
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, LARGE - 1, 3), BATCH));
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, LARGE, 3), LARGE));
}

Test(sizes, what_was_brought_once_is_forgotten)
{
	meet(TS_SIZES, LARGE);
	meet(TS_SIZES - 3, BATCH);
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, UINT64_MAX, 3), LARGE));
	meet(1, BATCH);
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, UINT64_MAX, 3), BATCH));
	sizes.met = UINT32_MAX;
	meet(TS_SIZES, 1);
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, UINT64_MAX, 1), 1), "the count wraps");
}
