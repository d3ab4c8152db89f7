/* SPDX-License-Identifier: MIT */
/* Writers that are killed at each step: the next one finds a log that is sound, and the lock.
 */
#include "fixture.h"

#include "leader/object/killpoint.h"
#include "shim/atomic.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define T_MS UINT64_C(1795852123000)

TestSuite(event_kills, .init = fixture_init, .fini = fixture_finish, .timeout = 60);

static const char *const points[] = {
#define TS_X(name) #name,
	TS_EVENTS_KILLPOINTS(TS_X)
#undef TS_X
};

static void work(void)
{
	struct ts_job_row *job = ts_ledger_job(fixture.ledger, 0);

	ts_add_relaxed(&job->kinds[TS_KIND_SAMPLE].produced, 10);
}

/* Write until the kill comes, or the file was made shorter. */
static void write_until_full(uint64_t *t_ms)
{
	struct stat before, now = {.st_size = 0};

	do {
		before = now;
		work();
		*t_ms += 1000;
		if (ts_event_writer_look(fixture.writer, *t_ms) < 0 ||
			stat(fixture.path, &now) < 0)
			_exit(3);
	} while (now.st_size >= before.st_size);
}

static int write_and_die(const char *point)
{
	uint64_t t_ms = T_MS;
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		setenv("TSSHIM_TEST_KILL", point, 1);
		if (ts_event_log_take(&fixture.log) < 0)
			_exit(2);
		write_until_full(&t_ms);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	return status;
}

Test(event_kills, the_next_one_goes_on)
{
	(void)fixture_job(0);
	for (size_t i = 0; i < TS_ARRAY_SIZE(points); i++) {
		int status = write_and_die(points[i]);
		cr_assert(eq(int, WTERMSIG(status), SIGKILL), "%s: %x", points[i],
			(unsigned)status);
		int64_t made = (int64_t)ts_load_relaxed(
			&ts_ledger_job(fixture.ledger, 0)->kinds[TS_KIND_SAMPLE].produced);
		struct ts_event_log log = fixture.log;
		cr_assert(eq(int, ts_event_log_take(&log), 0), "%s", points[i]);
		fixture.writer->log = &log;
		ts_event_writer_forget(fixture.writer);
		cr_assert(eq(int, ts_event_writer_look(fixture.writer, T_MS), 0));
		char *text = fixture_read(fixture.path, NULL);
		cr_expect(gt(uint, fixture_count(text, "\"e\":\"counts\""), 0));
		cr_expect(eq(long, fixture_last(text, "\"counts\"", "", "produced"), made),
			"%s", points[i]);
		cr_expect(le(u64, strlen(text), FIXTURE_MAX));
		free(text);
		ts_event_log_close(&log);
		fixture.writer->log = &fixture.log;
	}
}

Test(event_kills, nobody_else_gets_the_lock_while_a_file_takes_the_place_of_another)
{
	struct ts_event_log waiting = fixture.log;
	uint64_t t_ms = T_MS;
	int status = 0;

	(void)fixture_job(0);
	pid_t pid = fork();
	if (pid == 0) {
		setenv("TSSHIM_TEST_STOP", "events_renamed", 1);
		if (ts_event_log_take(&fixture.log) < 0)
			_exit(2);
		write_until_full(&t_ms);
		_exit(0);
	}
	cr_assert(eq(int, waitpid(pid, &status, WUNTRACED), pid));
	cr_assert(ne(int, WIFSTOPPED(status), 0));
	cr_expect(eq(int, ts_event_log_take(&waiting), -EAGAIN));
	kill(pid, SIGCONT);
	waitpid(pid, &status, 0);
	cr_expect(eq(int, status, 0));
	cr_expect(eq(int, ts_event_log_take(&waiting), 0));
	ts_event_log_close(&waiting);
}
