/* SPDX-License-Identifier: MIT */
/* What is left of counters when those of before are taken off. */
#include "shim/tsrun/baseline.h"
#include "shim/atomic.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct ts_ledger *now, *then;

static struct ts_ledger *make(void)
{
	struct ts_ledger *ledger = aligned_alloc(64, TS_LEDGER_BYTES);

	cr_assert_not_null(ledger);
	memset(ledger, 0, TS_LEDGER_BYTES);
	return ledger;
}

static void begin(void)
{
	now = make();
	then = make();
}

static void end(void)
{
	free(now);
	free(then);
}

TestSuite(baseline, .init = begin, .fini = end);

/* Every word of it is @value. */
static void flood(struct ts_ledger *ledger, uint64_t value)
{
	uint64_t *words = (uint64_t *)ledger;

	for (size_t i = 0; i < TS_LEDGER_BYTES / sizeof(*words); i++)
		words[i] = value;
}

static void expect_tallies(struct ts_tally *tallies, uint64_t value)
{
	for (int kind = 0; kind < TS_KIND_COUNT; kind++) {
		cr_expect_eq(ts_load_relaxed(&tallies[kind].produced), value);
		cr_expect_eq(ts_load_relaxed(&tallies[kind].shared), value);
		cr_expect_eq(ts_load_relaxed(&tallies[kind].shared_bytes), value);
		cr_expect_eq(ts_load_relaxed(&tallies[kind].saved_ns), value);
	}
}

/* Of the last rows, too; and nothing else is touched. */
Test(baseline, takes_off_counters_and_nothing_else)
{
	flood(now, 10);
	flood(then, 10);
	struct ts_dataset_row *data = ts_ledger_dataset(now, TS_DATASET_MAX - 1);
	struct ts_job_row *job = ts_ledger_job(now, TS_JOB_MAX - 1);
	ts_write_relaxed(&now->verified, 17);
	ts_baseline_subtract_from(now, then);
	cr_expect_eq(ts_load_relaxed(&now->verified), 7);
	cr_expect_eq(ts_load_relaxed(&now->mismatched), 0);
	cr_expect_eq(ts_load_relaxed(&now->passed[TS_REASON_SLOTS - 1]), 0);
	cr_expect_eq(ts_load_relaxed(&now->tickets), 10);
	expect_tallies(data->kinds, 0);
	cr_expect_eq(ts_load_relaxed(&data->cost_ns_per_kib[0]), 10);
	cr_expect_eq(ts_load_relaxed(&data->demands[0].asked), 10);
	expect_tallies(job->kinds, 0);
	cr_expect_eq(ts_load_relaxed(&job->passed[0]), 0);
	cr_expect_eq(ts_load_relaxed(&job->ticket), 10);
	cr_expect_eq(ts_load_relaxed(&job->dataset[0]), 10);
	struct ts_drawn_row *drawn = ts_ledger_drawn(now, TS_JOB_MAX - 1);
	cr_expect_eq(ts_load_relaxed(&drawn->computed), 0);
	cr_expect_eq(ts_load_relaxed(&drawn->delivered), 0);
	cr_expect_eq(ts_load_relaxed(&drawn->identity), 10);
	struct ts_progress_row *progress = ts_ledger_progress(now, TS_JOB_MAX - 1);
	cr_expect_eq(ts_load_relaxed(&progress->position), 10);
	cr_expect_eq(ts_load_relaxed(&ts_ledger_refusal_row(now, 0)->state), 10);
	cr_expect_eq(ts_load_relaxed(&ts_ledger_launch_row(now, 0)->launch_xor_id), 10);
}

Test(baseline, rows_of_others_are_left_whole)
{
	flood(now, 10);
	flood(then, 4);
	ts_baseline_subtract_from(now, then);
	cr_expect_eq(ts_load_relaxed(&now->verified), 6);
	expect_tallies(ts_ledger_dataset(now, 0)->kinds, 10);
	expect_tallies(ts_ledger_job(now, 0)->kinds, 10);
	/* The same process, that has been given a row again. */
	flood(now, 10);
	ts_write_relaxed(&ts_ledger_job(then, 0)->id, 10);
	ts_baseline_subtract_from(now, then);
	expect_tallies(ts_ledger_job(now, 0)->kinds, 10);
	/* That job, with samples of another data set. */
	flood(now, 10);
	ts_write_relaxed(&ts_ledger_job(then, 0)->ticket, 10);
	ts_baseline_subtract_from(now, then);
	expect_tallies(ts_ledger_job(now, 0)->kinds, 6);
	cr_expect_eq(ts_load_relaxed(&ts_ledger_drawn(now, 0)->computed), 10);
}

/* It is never more than was counted, and never wraps. */
Test(baseline, a_counter_that_shrank_is_another_one)
{
	flood(now, 10);
	flood(then, 10);
	ts_write_relaxed(&then->verified, 11);
	ts_write_relaxed(&ts_ledger_job(then, 3)->kinds[0].shared, UINT64_MAX);
	ts_baseline_subtract_from(now, then);
	cr_expect_eq(ts_load_relaxed(&now->verified), 10);
	cr_expect_eq(ts_load_relaxed(&ts_ledger_job(now, 3)->kinds[0].shared), 10);
}
