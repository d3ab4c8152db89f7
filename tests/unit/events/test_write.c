/* SPDX-License-Identifier: MIT */
/* What a recorder writes of the jobs of its group. */
#include "fixture.h"

#include "shim/atomic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define T_MS UINT64_C(1795852123000)

static char *text;

static void begin(void)
{
	fixture_init();
	cr_assert(eq(int, ts_event_log_take(&fixture.log), 0));
}

static void finish(void)
{
	free(text);
	fixture_finish();
}

TestSuite(event_write, .init = begin, .fini = finish);

/* Look, and read what is there then. */
static const char *look(uint64_t second)
{
	cr_assert(eq(int, ts_event_writer_look(fixture.writer, T_MS + second * 1000), 0));
	free(text);
	text = fixture_read(fixture.path, NULL);
	return text;
}

static struct ts_job_row *row_of(uint32_t row)
{
	return ts_ledger_job(fixture.ledger, row);
}

static void make(uint32_t row, uint64_t samples)
{
	ts_add_relaxed(&row_of(row)->kinds[TS_KIND_SAMPLE].produced, samples);
}

static void name_of(uint64_t id, char name[TS_EVENT_JOB + 16])
{
	char job[TS_EVENT_JOB];

	ts_event_job(id, job);
	(void)snprintf(name, TS_EVENT_JOB + 16, "\"job\":\"%s\"", job);
}

Test(event_write, a_head_and_the_jobs_come_first)
{
	uint64_t id = fixture_job(0);
	char name[TS_EVENT_JOB + 16];

	name_of(id, name);
	ts_ledger_note(
		fixture.ledger, 0, (uint32_t)ts_ledger_find_dataset(fixture.ledger, "images"));
	make(0, 5);
	look(0);
	cr_expect(eq(int, strncmp(text, "{\"tsshim_events\":1,", 19), 0));
	cr_expect(eq(uint, fixture_count(text, "\"e\":\"job\""), 1));
	cr_expect(eq(uint, fixture_count(text, "\"dataset\":\"images\""), 1));
	cr_expect(eq(uint, fixture_count(text, "\"mode\":null"), 1), "it has no environment");
	cr_expect(eq(long, fixture_last(text, "\"counts\"", name, "produced"), 5L));
}

Test(event_write, only_what_has_changed_is_written)
{
	(void)fixture_job(0);
	make(0, 5);
	look(0);
	size_t before = strlen(text);
	look(1);
	cr_expect(eq(sz, strlen(text), before));
	ts_add_relaxed(&row_of(0)->passed[TS_REASON_ALONE], 3);
	look(2);
	cr_expect(eq(uint, fixture_count(text, "\"e\":\"counts\""), 1));
	cr_expect(eq(uint, fixture_count(text, "\"e\":\"reasons\""), 1));
	cr_expect(eq(long, fixture_last(text, "\"reasons\"", "", "alone"), 3L));
	fixture.cpu_ns = 20000000;
	look(3);
	cr_expect(eq(uint, fixture_count(text, "\"cpu_seconds\":0.020000000"), 1));
}

Test(event_write, every_counter_of_a_job_is_told)
{
	(void)fixture_job(0);
	for (uint32_t i = 0; i < TS_REASON_COUNT; i++)
		ts_add_relaxed(&row_of(0)->passed[i], UINT64_MAX - i);
	for (uint32_t i = 0; i < TS_KIND_COUNT; i++) {
		ts_add_relaxed(&row_of(0)->kinds[i].produced, UINT64_MAX);
		ts_add_relaxed(&row_of(0)->kinds[i].shared_bytes, UINT64_MAX);
	}
	look(0);
	cr_expect(eq(uint, fixture_count(text, "\"e\":\"counts\""), 1));
	cr_expect(eq(uint, fixture_count(text, "\"e\":\"reasons\""), 1), "it fits");
}

Test(event_write, a_data_set_that_is_noted_later_is_told)
{
	(void)fixture_job(0);
	look(0);
	cr_expect(eq(uint, fixture_count(text, "\"dataset\":null"), 1));
	ts_ledger_note(
		fixture.ledger, 0, (uint32_t)ts_ledger_find_dataset(fixture.ledger, "late"));
	look(1);
	look(2);
	cr_expect(eq(uint, fixture_count(text, "\"dataset\":\"late\""), 1));
}

Test(event_write, the_end_has_the_last_values_before_it)
{
	uint64_t id = fixture_job(0);

	make(0, 5);
	look(0);
	make(0, 2);
	fixture.alive[0] = false;
	look(1);
	cr_expect(eq(long, fixture_last(text, "\"final\":true", "\"counts\"", "produced"), 7L));
	cr_expect(eq(uint, fixture_count(text, "\"e\":\"end\""), 1));
	cr_expect(eq(int, ts_recorder_state(fixture.ledger, 0, id, NULL), TS_RECORDER_DONE));
	size_t before = strlen(text);
	look(2);
	cr_expect(eq(sz, strlen(text), before));
}

Test(event_write, a_job_that_nobody_recorded_is_told_of_while_it_lives)
{
	(void)fixture_job(0);
	fixture.alive[0] = false;
	look(0);
	cr_expect(eq(uint, fixture_count(text, "\"e\":\"job\""), 0), "it was over before");
}

Test(event_write, the_next_writer_tells_the_end_that_is_missing)
{
	uint64_t waits = fixture_job(0), done = fixture_job(1);

	make(0, 9);
	ts_recorder_tell(fixture.ledger, 0, waits, TS_RECORDER_WAITS, 0);
	ts_recorder_tell(fixture.ledger, 1, done, TS_RECORDER_DONE, 0);
	fixture.alive[0] = fixture.alive[1] = false;
	look(0);
	cr_expect(eq(uint, fixture_count(text, "\"e\":\"job\""), 1));
	cr_expect(eq(uint, fixture_count(text, "\"e\":\"end\""), 1));
	cr_expect(eq(long, fixture_last(text, "\"final\":true", "\"counts\"", "produced"), 9L));
}

Test(event_write, a_row_that_was_given_to_another_job_ends_the_first)
{
	char first[TS_EVENT_JOB + 16], second[TS_EVENT_JOB + 16];
	uint64_t id = fixture_job(0);

	name_of(id, first);
	make(0, 5);
	look(0);
	ts_write_relaxed(&row_of(0)->id, id + (UINT64_C(1) << 24));
	name_of(id + (UINT64_C(1) << 24), second);
	ts_write_relaxed(&row_of(0)->kinds[TS_KIND_SAMPLE].produced, 1);
	look(1);
	cr_expect(eq(uint, fixture_count(text, "\"e\":\"end\""), 1));
	cr_expect(eq(long, fixture_last(text, "\"counts\"", first, "produced"), 5L));
	cr_expect(eq(long, fixture_last(text, "\"counts\"", second, "produced"), 1L));
}

Test(event_write, who_is_in_front_is_told_among_those_that_live)
{
	char ahead[TS_EVENT_JOB + 16], behind[TS_EVENT_JOB + 16];

	name_of(fixture_job(0), ahead);
	name_of(fixture_job(1), behind);
	ts_ledger_advance(fixture.ledger, 0, 7, 3 * TS_EPOCH, TS_ORDER_FREE);
	ts_ledger_advance(fixture.ledger, 1, 7, TS_EPOCH, TS_ORDER_STRICT);
	look(0);
	cr_expect(eq(long, fixture_last(text, "\"order\":\"free\"", ahead, "epoch"), 3L));
	cr_expect(eq(long, fixture_last(text, "\"order\"", ahead, "behind"), 0L));
	cr_expect(eq(long, fixture_last(text, "\"order\":\"strict\"", behind, "behind"), 2L));
	fixture.alive[0] = false;
	look(1);
	cr_expect(eq(long, fixture_last(text, "\"order\"", behind, "behind"), 0L));
}

Test(event_write, a_new_file_is_told_all_again)
{
	(void)fixture_job(0);
	make(0, 5);
	look(0);
	cr_assert(eq(int, unlink(fixture.path), 0));
	make(0, 1);
	cr_expect(eq(int, ts_event_writer_look(fixture.writer, T_MS + 1000), -ESTALE));
	cr_assert(eq(int, ts_event_log_take(&fixture.log), 0));
	ts_event_writer_forget(fixture.writer);
	look(2);
	cr_expect(eq(uint, fixture_count(text, "tsshim_events"), 1));
	cr_expect(eq(uint, fixture_count(text, "\"e\":\"job\""), 1));
	cr_expect(eq(long, fixture_last(text, "\"counts\"", "", "produced"), 6L));
}

Test(event_write, all_jobs_that_a_ledger_holds_are_told)
{
	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		(void)fixture_job(i);
		make(i, i + 1);
	}
	look(0);
	cr_expect(eq(uint, fixture_count(text, "\"e\":\"job\""), TS_JOB_MAX));
	cr_expect(eq(uint, fixture_count(text, "\"e\":\"counts\""), TS_JOB_MAX));
}
