/* SPDX-License-Identifier: MIT */
/* Rows of the ledger about recorders: one a job, and nothing of anybody else's is believed. */
#include "fixture.h"

#include "leader/events/recorder.h"
#include "shim/atomic.h"
#include "shim/identity.h"

#include <unistd.h>

TestSuite(event_rows, .init = fixture_init, .fini = fixture_finish);

#define DEAD(n) ((UINT64_C(77) + (n)) << 24 | 0xfffff0)

static uint64_t self(void)
{
	return ts_process_id(getpid(), false);
}

Test(event_rows, a_job_has_one_recorder)
{
	uint64_t job = fixture_job(0), parent = ts_process_id(getppid(), false);

	cr_expect(not(ts_recorder_is_there(fixture.ledger, 0, job)));
	cr_expect(eq(int, ts_recorder_enter(fixture.ledger, 0, job, self(), 0), 0));
	cr_expect(ts_recorder_is_there(fixture.ledger, 0, job));
	cr_expect(eq(int, ts_recorder_enter(fixture.ledger, 0, job, parent, 0), -EEXIST));
	cr_expect(eq(int, ts_recorder_enter(fixture.ledger, 0, job, parent, self()), 0),
		"who has started it stands in for it");
	cr_expect(eq(int, ts_recorder_enter(fixture.ledger, 0, job, self(), 0), -EEXIST));
}

Test(event_rows, one_that_is_dead_is_none)
{
	uint64_t job = fixture_job(0);

	cr_expect(eq(int, ts_recorder_enter(fixture.ledger, 0, job, DEAD(1), 0), 0));
	cr_expect(not(ts_recorder_is_there(fixture.ledger, 0, job)));
	cr_expect(eq(int, ts_recorder_enter(fixture.ledger, 0, job, self(), 0), 0));
}

Test(event_rows, a_row_of_another_job_is_left_alone)
{
	uint64_t job = fixture_job(0);

	cr_expect(eq(int, ts_recorder_enter(fixture.ledger, 0, DEAD(2), self(), 0), -ENOENT));
	cr_expect(not(ts_recorder_is_there(fixture.ledger, 0, job)));
}

Test(event_rows, what_was_told_is_said_again)
{
	uint64_t job = fixture_job(0);
	int error = 1;

	cr_expect(eq(int, ts_recorder_state(fixture.ledger, 0, job, &error), TS_RECORDER_NONE));
	cr_expect(eq(int, error, 0));
	for (int state = 0; state < TS_RECORDER_STATE_COUNT; state++) {
		if (state == TS_RECORDER_DONE)
			continue;
		ts_recorder_tell(
			fixture.ledger, 0, job, (enum ts_recorder_state)state, -ENOSPC);
		cr_expect(eq(int, ts_recorder_state(fixture.ledger, 0, job, &error), state));
		cr_expect(eq(int, error, -ENOSPC));
	}
	ts_recorder_tell(fixture.ledger, TS_JOB_MAX, job, TS_RECORDER_DONE, 0);
}

Test(event_rows, that_a_job_is_done_is_the_last_word)
{
	uint64_t job = fixture_job(0);

	ts_recorder_tell(fixture.ledger, 0, job, TS_RECORDER_DONE, 0);
	ts_recorder_tell(fixture.ledger, 0, job, TS_RECORDER_WRITES, 0);
	cr_expect(eq(int, ts_recorder_state(fixture.ledger, 0, job, NULL), TS_RECORDER_DONE));
}

Test(event_rows, what_was_told_of_another_job_is_nothing)
{
	uint64_t job = fixture_job(0);

	ts_recorder_tell(fixture.ledger, 0, job ^ UINT64_C(1) << 30, TS_RECORDER_DONE, 0);
	cr_expect(eq(int, ts_recorder_state(fixture.ledger, 0, job, NULL), TS_RECORDER_NONE));
}

Test(event_rows, a_new_job_begins_with_an_empty_row)
{
	uint64_t job = fixture_job(0);

	for (uint32_t i = 1; i < TS_JOB_MAX; i++)
		(void)fixture_job(i);
	ts_recorder_tell(fixture.ledger, 0, job, TS_RECORDER_DONE, 0);
	(void)ts_recorder_enter(fixture.ledger, 0, job, self(), 0);
	/* All are dead processes, the first one the oldest. */
	cr_assert(eq(int, ts_ledger_find_job(fixture.ledger, DEAD(3)), 0));
	cr_expect(eq(u64,
		ts_load_relaxed(&ts_ledger_recorder_row(fixture.ledger, 0)->recorder_xor_id),
		0));
	cr_expect(
		eq(int, ts_recorder_state(fixture.ledger, 0, DEAD(3), NULL), TS_RECORDER_NONE));
}
