/* SPDX-License-Identifier: MIT */
/* Where a session counts, how long it waits, what it verifies, and what is left at the end. */
#include "fixture.h"
#include "tests/unit/valgrind.h"

#include "leader/group/store_private.h"
#include "shim/identity.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(counts, .init = fixture_init, .fini = fixture_finish);

/* ---- counting --------------------------------------------------------------------------- */

static struct ts_job_row *job_row(void)
{
	return ts_ledger_job(fixture_ledger(), fixture_enter()->job);
}

static struct ts_dataset_row *dataset_row(void)
{
	return ts_ledger_dataset(fixture_ledger(), fixture_enter()->dataset);
}

Test(counts, the_rows_are_those_of_the_settings_and_of_the_job)
{
	setenv("TSSHIM_DATASET", "pets=/somewhere", 1);
	bool alive = false;
	uint32_t dataset = fixture_enter()->dataset;

	cr_expect(eq(str, dataset_row()->name, (char *)"pets"));
	cr_expect(eq(u64, ts_load_relaxed(&job_row()->id), ts_identity_job()));
	cr_expect(eq(int, ts_ledger_leader(fixture_ledger(), dataset, &alive),
		(int)fixture_enter()->job));
	cr_expect(alive);
	ts_session_finish();
}

Test(counts, what_was_counted_before_is_counted_once_joined)
{
	for (int i = 0; i < 3; i++)
		ts_session_count_pass(TS_REASON_JPEG_SMALL);
	ts_session_count_pass(TS_REASON_MEMORY);
	ts_session_count_produced(TS_KIND_PIXELS, 100, 100);
	cr_expect(eq(u64, ts_load_relaxed(&fixture_ledger()->passed[TS_REASON_JPEG_SMALL]), 3));
	cr_expect(eq(u64, ts_load_relaxed(&job_row()->passed[TS_REASON_JPEG_SMALL]), 3));
	cr_expect(eq(u64, ts_load_relaxed(&fixture_ledger()->passed[TS_REASON_MEMORY]), 1));
	cr_expect(eq(u64, ts_load_relaxed(&dataset_row()->kinds[TS_KIND_PIXELS].produced), 1));
	cr_expect(eq(u64, ts_load_relaxed(&job_row()->kinds[TS_KIND_PIXELS].produced), 1));
	ts_session_finish();
}

static int join_and_say_nothing(void)
{
	fixture_enter();
	ts_session_finish();
	return 0;
}

Test(counts, a_child_does_not_count_again_what_its_parent_keeps)
{
	ts_session_count_pass(TS_REASON_JPEG_SMALL);
	cr_assert(eq(int, fixture_fork(join_and_say_nothing), 0));
	cr_expect(eq(u64, ts_load_relaxed(&fixture_ledger()->passed[TS_REASON_JPEG_SMALL]), 1));
	ts_session_finish();
}

Test(counts, what_is_shared_is_counted_with_what_it_saved)
{
	struct ts_lease lease = {.bytes = 1000, .produce_ns = 77};

	fixture_enter();
	ts_session_count_shared(TS_KIND_SAMPLE, &lease);
	ts_session_count_shared(TS_KIND_SAMPLE, &lease);
	struct ts_tally *rows[] = {
		&dataset_row()->kinds[TS_KIND_SAMPLE], &job_row()->kinds[TS_KIND_SAMPLE]};
	for (size_t i = 0; i < TS_ARRAY_SIZE(rows); i++) {
		cr_expect(eq(u64, ts_load_relaxed(&rows[i]->shared), 2));
		cr_expect(eq(u64, ts_load_relaxed(&rows[i]->shared_bytes), 2000));
		cr_expect(eq(u64, ts_load_relaxed(&rows[i]->saved_ns), 154));
		cr_expect(eq(u64, ts_load_relaxed(&rows[i]->produced), 0));
	}
	ts_session_finish();
}

/* Sum of everything that any job counted. */
static uint64_t counted_by_jobs(struct ts_ledger *book)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		struct ts_job_row *row = ts_ledger_job(book, i);
		for (uint32_t k = 0; k < TS_KIND_COUNT; k++)
			sum += ts_load_relaxed(&row->kinds[k].produced) +
			       ts_load_relaxed(&row->kinds[k].shared);
		for (uint32_t r = 0; r < TS_REASON_SLOTS; r++)
			sum += ts_load_relaxed(&row->passed[r]);
	}
	return sum;
}

/* A live job in each row, which is not the caller's. */
static int fill_job_rows(void)
{
	for (uint32_t i = 0; i < TS_JOB_MAX; i++)
		ts_write_relaxed(
			&ts_ledger_job(fixture_ledger(), i)->id, ts_process_id(1, false));
	return 0;
}

Test(counts, a_job_without_a_row_counts_in_nobody_elses)
{
	struct ts_lease lease = {.bytes = 1, .produce_ns = 1};

	ts_session_count_pass(TS_REASON_MEMORY);
	cr_assert(eq(int, fixture_fork(fill_job_rows), 0));
	cr_assert(eq(u32, fixture_enter()->job, TS_JOB_MAX));
	ts_session_count_pass(TS_REASON_JPEG_SMALL);
	ts_session_count_produced(TS_KIND_PIXELS, 1, 1);
	ts_session_count_shared(TS_KIND_PIXELS, &lease);
	cr_expect(eq(u64, counted_by_jobs(fixture_ledger()), 0));
	cr_expect(eq(u64, ts_load_relaxed(&fixture_ledger()->passed[TS_REASON_JPEG_SMALL]), 1));
	cr_expect(eq(u64, ts_load_relaxed(&fixture_ledger()->passed[TS_REASON_MEMORY]), 1));
	cr_expect(eq(u64, ts_load_relaxed(&dataset_row()->kinds[TS_KIND_PIXELS].shared), 1));
	ts_session_finish();
}

/* ---- deadlines -------------------------------------------------------------------------- */

#define MS UINT64_C(1000000)

Test(counts, a_deadline_lies_within_20_ms_and_2_s)
{
	_Atomic uint64_t *cost;

	cr_expect(eq(u64, ts_session_deadline_ns(TS_KIND_PIXELS, 1 << 20), 20 * MS));
	cost = &dataset_row()->cost_ns_per_kib[TS_KIND_PIXELS];
	cr_expect(eq(u64, ts_session_deadline_ns(TS_KIND_PIXELS, 1 << 20), 20 * MS));
	/* 10 ms for 100 KiB are 100 us for each. */
	ts_session_count_produced(TS_KIND_PIXELS, 100 << 10, 10 * MS);
	cr_expect(eq(u64, ts_load_relaxed(cost), 100000));
	cr_expect(eq(u64, ts_session_deadline_ns(TS_KIND_PIXELS, 99 << 10), 40 * MS));
	cr_expect(eq(u64, ts_session_deadline_ns(TS_KIND_PIXELS, 0), 20 * MS));
	cr_expect(eq(u64, ts_session_deadline_ns(TS_KIND_PIXELS, 64 << 20), 2000 * MS));
	cr_expect(eq(u64, ts_session_deadline_ns(TS_KIND_SAMPLE, 64 << 20), 20 * MS));
	/* What others wrote there cannot make it wrap around. */
	ts_write_relaxed(cost, UINT64_MAX);
	cr_expect(eq(u64, ts_session_deadline_ns(TS_KIND_PIXELS, UINT64_MAX), 2000 * MS));
	cr_expect(eq(u64, ts_session_deadline_ns(TS_KIND_PIXELS, 0), 2000 * MS));
	ts_session_finish();
}

Test(counts, the_cost_is_an_average)
{
	_Atomic uint64_t *cost = &dataset_row()->cost_ns_per_kib[TS_KIND_PIXELS];

	ts_session_count_produced(TS_KIND_PIXELS, 1024, 8000);
	for (int i = 0; i < 100; i++)
		ts_session_count_produced(TS_KIND_PIXELS, 1024, 16000);
	cr_expect(le(u64, ts_load_relaxed(cost), 16000));
	cr_expect(ge(u64, ts_load_relaxed(cost), 15900));
	ts_session_count_produced(TS_KIND_PIXELS, 1024, 0);
	cr_expect(ge(u64, ts_load_relaxed(cost), 15900), "0 is unknown, not free");
	ts_session_finish();
}

/* ---- verify mode ------------------------------------------------------------------------ */

static unsigned verified_of(unsigned hits, const char *percent)
{
	unsigned count = 0;

	setenv("TSSHIM_VERIFY", percent, 1);
	for (unsigned i = 0; i < hits; i++)
		count += ts_session_verify_this_hit();
	return count;
}

Test(counts, no_hit_is_verified_at_0)
{
	cr_expect(eq(u32, verified_of(100000, "0"), 0));
}

Test(counts, every_hit_is_verified_at_100)
{
	cr_expect(eq(u32, verified_of(100000, "100"), 100000));
}

Test(counts, some_hits_are_verified_in_between)
{
	unsigned count = verified_of(100000, "1");

	/* Six standard deviations of 31 each way. */
	cr_expect(ge(u32, count, 800), "%u", count);
	cr_expect(le(u32, count, 1200), "%u", count);
}

Test(counts, equal_results_are_counted)
{
	struct ts_lease lease = {.dataset = fixture_enter()->dataset};

	ts_session_count_verified(true, &lease);
	cr_expect(eq(u64, ts_load_relaxed(&fixture_ledger()->verified), 1));
	cr_expect(eq(u64, ts_load_relaxed(&fixture_ledger()->mismatched), 0));
	cr_expect(eq(u32, ts_load_relaxed(&dataset_row()->off), 0));
	ts_session_finish();
}

Test(counts, a_difference_switches_the_records_dataset_off)
{
	struct ts_ledger *book = fixture_ledger();
	int other = ts_ledger_find_dataset(book, "other");
	int third = ts_ledger_find_dataset(book, "third");
	struct ts_lease lease = {.dataset = (uint32_t)other};
	char text[1024] = {0};

	int lines = fixture_catch_stderr();
	ts_session_count_verified(false, &lease);
	cr_expect(eq(u64, ts_load_relaxed(&book->verified), 1));
	cr_expect(eq(u64, ts_load_relaxed(&book->mismatched), 1));
	cr_expect(eq(u32, ts_load_relaxed(&ts_ledger_dataset(book, (uint32_t)other)->off), 1));
	cr_expect(eq(u32, ts_load_relaxed(&dataset_row()->off), 1), "we would ask again");
	cr_expect(eq(u32, ts_load_relaxed(&ts_ledger_dataset(book, (uint32_t)third)->off), 0));
	cr_assert(gt(int, (int)read(lines, text, sizeof(text) - 1), 0));
	cr_expect(strstr(text, "dataset other differs") != NULL, "%s", text);
	ts_session_finish();
}

Test(counts, a_difference_in_a_dataset_that_does_not_exist_stays_within_bounds)
{
	struct ts_lease lease = {.dataset = UINT32_MAX};

	fixture_enter();
	fixture_catch_stderr();
	ts_session_count_verified(false, &lease);
	cr_expect(eq(u32, ts_load_relaxed(&dataset_row()->off), 1));
	ts_session_finish();
}

/* ---- the end ---------------------------------------------------------------------------- */

static bool ring_exists(void)
{
	char path[TS_PATH_BYTES];

	cr_assert(
		eq(int, ts_object_path(path, sizeof(path), getenv("TSSHIM_GROUP"), "ring"), 0));
	return access(path, F_OK) == 0;
}

Test(counts, the_job_removes_the_ring_that_its_workers_used)
{
	NOT_EMULATED("a child is told its parent's start time");
	/* The worker leaves while its job lives: the ring stays for the next one. */
	cr_assert(eq(int, fixture_fork(join_and_say_nothing), 0));
	cr_expect(ring_exists());
	ts_session_finish();
	cr_expect(not(ring_exists()));
}

Test(counts, the_summary_is_printed_when_asked_for)
{
	char text[1024] = {0};

	setenv("TSSHIM_SUMMARY", "1", 1);
	fixture_enter();
	ts_session_count_produced(TS_KIND_PIXELS, 1, 1);
	int lines = fixture_catch_stderr();
	ts_session_finish();
	cr_assert(gt(int, (int)read(lines, text, sizeof(text) - 1), 0));
	cr_expect(
		strstr(text, "decoded images: 1 worked out here, 0 taken") != NULL, "%s", text);
}

Test(counts, a_job_started_by_what_tsrun_started_has_a_summary_too)
{
	setenv("TSSHIM_SUMMARY", "pid:1", 1);
	fixture_enter();
	int lines = fixture_catch_stderr();
	ts_session_finish();
	cr_expect(eq(int, fixture_lines(lines), 2));
}

Test(counts, a_process_that_shares_nothing_prints_nothing_unless_tsrun_started_it)
{
	setenv("TSSHIM_SUMMARY", "pid:1", 1);
	int lines = fixture_catch_stderr();
	ts_session_finish();
	cr_expect(eq(int, fixture_lines(lines), 0));
}
