/* SPDX-License-Identifier: MIT */
/* A log that is full gets shorter, and what it says stays right: days of samples, on a clock of
 * the test's. */
#include "fixture.h"

#include "shim/atomic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

TestSuite(event_bound, .init = begin, .fini = finish, .timeout = 60);

static void look(uint64_t t_ms)
{
	struct stat st;

	cr_assert(eq(int, ts_event_writer_look(fixture.writer, t_ms), 0));
	cr_assert(eq(int, stat(fixture.path, &st), 0));
	cr_assert(le(u64, (uint64_t)st.st_size, FIXTURE_MAX), "the bound");
}

static void work(uint32_t row)
{
	struct ts_job_row *job = ts_ledger_job(fixture.ledger, row);

	ts_add_relaxed(&job->kinds[TS_KIND_SAMPLE].produced, 10);
	ts_add_relaxed(&job->kinds[TS_KIND_SAMPLE].shared, 30);
	ts_add_relaxed(&job->passed[TS_REASON_ALONE], 1);
}

/* The samples of @line's job and kind are told in order: times and counters never fall. */
static unsigned check_order(const char *job)
{
	int64_t last_ms = 0, last = 0;
	unsigned count = 0;
	const char *end = text + strlen(text);

	for (const char *line = text, *next; line < end; line = next + 1) {
		next = memchr(line, '\n', (size_t)(end - line));
		size_t bytes = (size_t)(next - line);
		const char *at = memmem(line, bytes, "\"produced\":", 11);
		if (!memmem(line, bytes, job, strlen(job)) || !at)
			continue;
		int64_t ms = (int64_t)(strtod(line + 5, NULL) * 1000),
			n = fixture_number(at + 11);
		cr_assert(ge(long, ms, last_ms));
		cr_assert(ge(long, n, last));
		last_ms = ms;
		last = n;
		count++;
	}
	return count;
}

Test(event_bound, a_day_of_four_jobs_fits)
{
	char job[TS_EVENT_JOB];
	uint64_t id[4], t_ms = T_MS;

	for (uint32_t i = 0; i < 4; i++)
		id[i] = fixture_job(i);
	for (unsigned second = 0; second < 86400; second++, t_ms += 1000) {
		for (uint32_t i = 0; i < 4; i++)
			work(i);
		look(t_ms);
	}
	text = fixture_read(fixture.path, NULL);
	cr_expect(gt(uint, fixture_count(text, "\"e\":\"counts\""), 1000));
	for (uint32_t i = 0; i < 4; i++) {
		ts_event_job(id[i], job);
		cr_expect(gt(uint, check_order(job), 300), "%s", job);
		cr_expect(eq(long, fixture_last(text, "\"counts\"", job, "produced"), 864000L));
	}
	/* The whole day is there, not the end of it only. */
	cr_expect(lt(dbl, strtod(strstr(text, "\"e\":\"counts\"") - 19, NULL),
		(double)T_MS / 1000 + 600));
}

Test(event_bound, jobs_that_are_over_keep_their_last_values)
{
	char job[TS_EVENT_JOB];
	uint64_t over = fixture_job(0), t_ms = T_MS;

	(void)fixture_job(1);
	for (unsigned second = 0; second < 20000; second++, t_ms += 1000) {
		if (second < 100)
			work(0);
		if (second == 100)
			fixture.alive[0] = false;
		work(1);
		look(t_ms);
	}
	text = fixture_read(fixture.path, NULL);
	ts_event_job(over, job);
	cr_expect(eq(uint, fixture_count(text, "\"e\":\"end\""), 1));
	cr_expect(eq(long, fixture_last(text, "\"final\":true", job, "produced"), 1000L));
	cr_expect(eq(long, fixture_last(text, "\"final\":true", job, "alone"), 100L));
}

Test(event_bound, the_last_value_before_a_pause_stays)
{
	char job[TS_EVENT_JOB];
	uint64_t id = fixture_job(0), t_ms = T_MS;

	(void)fixture_job(1);
	/* In a minute of each hour the first job works. */
	for (unsigned second = 0; second < 14400; second++, t_ms += 1000) {
		if (second % 3600 < 60)
			work(0);
		work(1);
		look(t_ms);
	}
	text = fixture_read(fixture.path, NULL);
	ts_event_job(id, job);
	for (int64_t hour = 1; hour <= 4; hour++) {
		char counts[64];
		(void)snprintf(counts, sizeof(counts), "\"produced\":%d,", (int)(hour * 600));
		cr_expect(ge(long, fixture_last(text, job, counts, "produced"), 0L),
			"what it had made when hour %d's pause began", (int)hour);
	}
}

Test(event_bound, jobs_alone_may_fill_it)
{
	uint64_t t_ms = T_MS;

	/* The lines of a job that is over have nothing to be left out: the oldest jobs go. */
	for (unsigned n = 0; n < 5000; n++, t_ms += 1000) {
		uint64_t id = (UINT64_C(5000) + n) << 24 | 0xfffff0;
		ts_write_relaxed(&ts_ledger_job(fixture.ledger, 0)->id, id);
		fixture.alive[0] = true;
		work(0);
		look(t_ms);
		fixture.alive[0] = false;
		look(t_ms + 500);
	}
	text = fixture_read(fixture.path, NULL);
	cr_expect(gt(uint, fixture_count(text, "\"e\":\"end\""), 500));
	cr_expect(eq(uint, fixture_count(text, "\"job\":\"16777200.5000\""), 0));
	cr_expect(gt(uint, fixture_count(text, "\"job\":\"16777200.9999\""), 2));
	cr_expect(
		eq(int, strncmp(text, "{\"tsshim_events\":", 17), 0), "it begins with a head");
}

Test(event_bound, damaged_lines_go)
{
	size_t bytes = 0;

	(void)fixture_job(0);
	look(T_MS);
	ts_event_log_close(&fixture.log);
	free(fixture_read(fixture.path, &bytes));
	FILE *file = fopen(fixture.path, "ae");
	cr_assert(file != NULL);
	for (unsigned i = 0; i < 20; i++)
		(void)fprintf(file, "garbage %u \x01\xff\n\n{\"t\":x}\n", i);
	(void)fprintf(file, "{\"t\":5.000,\"e\":\"torn");
	(void)fclose(file);
	cr_assert(eq(int, ts_event_log_take(&fixture.log), 0));
	fixture.log.max = 4096;
	cr_assert(eq(int, ts_event_log_thin(&fixture.log), 0));
	text = fixture_read(fixture.path, NULL);
	cr_expect(eq(sz, strlen(text), bytes));
	cr_expect(eq(uint, fixture_count(text, ""), fixture_count(text, "\"t\":")));
}
