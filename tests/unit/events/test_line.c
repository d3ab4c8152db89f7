/* SPDX-License-Identifier: MIT */
/* A line of the event log: which jobs it has, and what it says of them. */
#include "fixture.h"
#include "leader/events/recorder.h"
#include "shim/atomic.h"
#include "shim/identity.h"

#include <sys/utsname.h>

#define T_MS UINT64_C(1795852123000)

TestSuite(log_line, .init = fixture_init, .fini = fixture_finish);

static struct ts_job_row *row_of(uint32_t row)
{
	return ts_ledger_job(fixture.ledger, row);
}

static void make(uint32_t row, uint64_t samples)
{
	ts_add_relaxed(&row_of(row)->kinds[TS_KIND_SAMPLE].produced, samples);
}

Test(log_line, it_says_whose_it_is_and_when)
{
	static const char head[] = "{\"tsshim_events\":2,\"t\":1795852123.004000000,"
				   "\"every\":1.000000000,\"version\":\"" TS_VERSION
				   "\",\"group\":\"unit-events\",\"node\":";

	fixture_line(T_MS + 4);
	cr_expect(eq(int, strncmp(fixture.line, head, strlen(head)), 0), "%s", fixture.line);
	cr_expect(eq(uint, fixture_count(",\"jobs\":[]}\n"), 1), "%s", fixture.line);
	cr_expect(not(ts_log_has_jobs(&fixture.jobs)));
}

Test(log_line, a_job_that_lives_is_in_each_line)
{
	uint64_t id = fixture_job(0);

	make(0, 5);
	ts_add_relaxed(&row_of(0)->passed[TS_REASON_ALONE], 3);
	cr_expect(ts_log_has_news(&fixture.jobs, fixture.ledger));
	fixture_line(T_MS);
	cr_expect(eq(long, fixture_number(id, "produced"), 5L));
	cr_expect(eq(long, fixture_number(id, "alone"), 3L));
	cr_expect(eq(uint, fixture_count("\"dataset\":null,\"mode\":null,\"align\":null"), 1));
	cr_expect(eq(uint, fixture_count("\"ended\":null"), 1));
	cr_expect(ts_log_has_jobs(&fixture.jobs));
	ts_ledger_note(
		fixture.ledger, 0, (uint32_t)ts_ledger_find_dataset(fixture.ledger, "late"));
	make(0, 1);
	fixture_line(T_MS + 1000);
	cr_expect(eq(long, fixture_number(id, "produced"), 6L));
	cr_expect(eq(uint, fixture_count("\"dataset\":\"late\""), 1));
}

Test(log_line, one_that_ends_is_in_one_more)
{
	uint64_t id = fixture_job(0);

	make(0, 5);
	fixture_line(T_MS);
	make(0, 2);
	fixture.group.alive[0] = false;
	fixture_line(T_MS + 1000);
	cr_expect(eq(long, fixture_number(id, "produced"), 7L));
	cr_expect(eq(long, fixture_number(id, "ended"), 1795852124L));
	fixture_line(T_MS + 2000);
	cr_expect(eq(long, fixture_number(id, "produced"), -1L));
	cr_expect(not(ts_log_has_news(&fixture.jobs, fixture.ledger)));
}

Test(log_line, it_ended_when_the_ledger_says)
{
	uint64_t id = fixture_job(0), boot_ns = ts_meeting_now_ns();
	uint64_t now_ms = ts_job_real_ms(boot_ns);

	fixture_line(now_ms);
	ts_write_relaxed(&row_of(0)->ended, boot_ns - 5 * UINT64_C(1000000000));
	fixture.group.alive[0] = false;
	fixture_line(now_ms);
	int64_t before = (int64_t)(now_ms / 1000) - fixture_number(id, "ended");
	cr_expect(ge(long, before, 4L));
}

Test(log_line, in_a_new_file_all_are_told_again)
{
	uint64_t over = fixture_job(0), lives = fixture_job(1);

	make(0, 5);
	fixture_line(T_MS);
	fixture.group.alive[0] = false;
	fixture_line(T_MS + 1000);
	fixture.jobs.anew = true;
	fixture_line(T_MS + 9000);
	cr_expect(eq(long, fixture_number(over, "produced"), 5L));
	cr_expect(eq(long, fixture_number(over, "ended"), 1795852124L));
	cr_expect(eq(long, fixture_number(lives, "pid"), (long)TS_PROCESS_PID(lives)));
	fixture_line(T_MS + 10000);
	cr_expect(eq(long, fixture_number(over, "produced"), -1L));
}

Test(log_line, one_that_was_over_before_is_told_where_its_recorder_could_not)
{
	uint64_t waits = fixture_job(0), done = fixture_job(1), none = fixture_job(2);

	make(0, 9);
	memset(fixture.group.alive, 0, sizeof(fixture.group.alive));
	fixture_line(T_MS);
	cr_expect(eq(uint, fixture_count("\"job\":"), 0));
	ts_recorder_tell(fixture.ledger, 0, waits, TS_RECORDER_WAITS, 0);
	ts_recorder_tell(fixture.ledger, 1, done, TS_RECORDER_DONE, 0);
	cr_expect(ts_log_has_news(&fixture.jobs, fixture.ledger));
	fixture_line(T_MS);
	cr_expect(eq(long, fixture_number(waits, "produced"), 9L));
	cr_expect(eq(long, fixture_number(done, "pid"), -1L));
	cr_expect(eq(long, fixture_number(none, "pid"), -1L));
	fixture_line(T_MS);
	cr_expect(eq(uint, fixture_count("\"job\":"), 0));
}

Test(log_line, a_row_that_was_given_to_another_job_is_that_one_s)
{
	uint64_t id = fixture_job(0), next = id + (UINT64_C(1) << 24);

	make(0, 5);
	fixture_line(T_MS);
	ts_write_relaxed(&row_of(0)->id, next);
	ts_write_relaxed(&row_of(0)->kinds[TS_KIND_SAMPLE].produced, 1);
	cr_expect(ts_log_has_news(&fixture.jobs, fixture.ledger));
	fixture_line(T_MS + 1000);
	cr_expect(eq(long, fixture_number(id, "pid"), -1L));
	cr_expect(eq(long, fixture_number(next, "produced"), 1L));
}

Test(log_line, every_counter_of_every_job_is_in_it)
{
	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		(void)fixture_job(i);
		for (uint32_t k = 0; k < TS_KIND_COUNT; k++)
			ts_add_relaxed(&row_of(i)->kinds[k].produced, UINT64_MAX);
		for (uint32_t k = 0; k < TS_REASON_COUNT; k++)
			ts_add_relaxed(&row_of(i)->passed[k], UINT64_MAX);
	}
	fixture_line(T_MS);
	cr_expect(eq(uint, fixture_count("{\"job\":"), TS_JOB_MAX));
	cr_expect(eq(uint, fixture_count("18446744073709551615"),
		TS_JOB_MAX * (TS_KIND_COUNT + TS_REASON_COUNT)));
}

Test(log_line, who_is_in_front_is_told_among_those_that_live)
{
	uint64_t ahead = fixture_job(0), behind = fixture_job(1);

	ts_ledger_advance(fixture.ledger, 0, 7, 3 * TS_EPOCH, TS_ORDER_FREE);
	ts_ledger_advance(fixture.ledger, 1, 7, TS_EPOCH, TS_ORDER_STRICT);
	fixture_line(T_MS);
	cr_expect(eq(uint, fixture_count("\"order\":\"free\",\"epoch\":3.000000000"), 1));
	cr_expect(eq(long, fixture_number(ahead, "behind"), 0L));
	cr_expect(eq(long, fixture_number(behind, "behind"), 2L));
	fixture.group.alive[0] = false;
	fixture_line(T_MS);
	cr_expect(eq(long, fixture_number(behind, "behind"), 0L));
}

Test(log_line, the_period_grows_with_the_oldest_job)
{
	static const struct {
		uint64_t age_s, period_ms;
	} cases[] = {{0, 1000}, {400, 1000}, {1000, 2000}, {10000, 20000}, {86400, 60000}};

	(void)fixture_job(0);
	fixture_line(T_MS);
	for (size_t i = 0; i < TS_ARRAY_SIZE(cases); i++) {
		fixture.jobs.rows[0].began_ms = T_MS - 1000 * cases[i].age_s;
		cr_expect(eq(u64, ts_log_period_ms(&fixture.jobs, T_MS), cases[i].period_ms));
	}
	fixture.jobs.rows[0].began_ms = T_MS + 5000;
	cr_expect(eq(u64, ts_log_period_ms(&fixture.jobs, T_MS), 1000), "a clock that was set");
}

static void set(struct ts_mail_table *table, uint32_t row, const char *name,
	enum ts_mail_peer_state state, uint64_t error)
{
	struct ts_mail_peer *peer = &table->peers[row];

	memcpy(peer->name, name, strlen(name));
	ts_write_relaxed(&peer->state, state);
	ts_write_relaxed(&peer->error, error);
	ts_write_relaxed(&table->peer_count, row + 1);
}

Test(log_line, other_nodes_are_told_with_why_one_is_shut)
{
	static struct ts_mail_table table;

	fixture.group.report.nodes = &table;
	set(&table, 0, "one:1", TS_MAIL_PEER_OPEN, ETIMEDOUT);
	set(&table, 1, "two:2", TS_MAIL_PEER_SHUT, ECONNREFUSED);
	ts_write_relaxed(&table.error, ENOMEM);
	fixture_line(T_MS);
	cr_expect(eq(uint, fixture_count("\"nodes\":{\"helper\":null,\"errno\":12,"), 1));
	cr_expect(eq(uint,
		fixture_count("{\"server\":\"one:1\",\"state\":\"open\",\"errno\":null}"), 1));
	cr_expect(eq(uint,
		fixture_count("{\"server\":\"two:2\",\"state\":\"shut\",\"errno\":111}"), 1));
	ts_write_relaxed(&table.helper, ts_process_id(getpid(), false));
	fixture_line(T_MS);
	cr_expect(eq(uint, fixture_count("\"errno\":12"), 0), "%s", fixture.line);
}

/* Rows of the ledger about recorders: one a job, and nothing of anybody else's is believed. */

#define DEAD(n) ((UINT64_C(77) + (n)) << 24 | 0xfffff0)

static uint64_t self, job; /* in row 0 */

static void begin_rows(void)
{
	fixture_init();
	self = ts_process_id(getpid(), false);
	job = fixture_job(0);
}

TestSuite(event_rows, .init = begin_rows, .fini = fixture_finish);

Test(event_rows, a_job_has_one_recorder)
{
	uint64_t parent = ts_process_id(getppid(), false);

	cr_expect(not(ts_recorder_is_there(fixture.ledger, 0, job)));
	cr_expect(eq(int, ts_recorder_enter(fixture.ledger, 0, job, self, 0), 0));
	cr_expect(ts_recorder_is_there(fixture.ledger, 0, job));
	cr_expect(eq(int, ts_recorder_enter(fixture.ledger, 0, job, parent, 0), -EEXIST));
	cr_expect(eq(int, ts_recorder_enter(fixture.ledger, 0, job, parent, self), 0),
		"who has started it stands in for it");
	cr_expect(eq(int, ts_recorder_enter(fixture.ledger, 0, job, self, 0), -EEXIST));
}

Test(event_rows, one_that_is_dead_is_none)
{
	cr_expect(eq(int, ts_recorder_enter(fixture.ledger, 0, job, DEAD(1), 0), 0));
	cr_expect(not(ts_recorder_is_there(fixture.ledger, 0, job)));
	cr_expect(eq(int, ts_recorder_enter(fixture.ledger, 0, job, self, 0), 0));
}

Test(event_rows, a_row_of_another_job_is_left_alone)
{
	cr_expect(eq(int, ts_recorder_enter(fixture.ledger, 0, DEAD(2), self, 0), -ENOENT));
	cr_expect(not(ts_recorder_is_there(fixture.ledger, 0, job)));
}

Test(event_rows, what_was_told_is_said_again)
{
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
	ts_recorder_tell(fixture.ledger, 0, job, TS_RECORDER_DONE, 0);
	ts_recorder_tell(fixture.ledger, 0, job, TS_RECORDER_WRITES, 0);
	cr_expect(eq(int, ts_recorder_state(fixture.ledger, 0, job, NULL), TS_RECORDER_DONE));
}

Test(event_rows, what_was_told_of_another_job_is_nothing)
{
	ts_recorder_tell(fixture.ledger, 0, job ^ UINT64_C(1) << 30, TS_RECORDER_DONE, 0);
	cr_expect(eq(int, ts_recorder_state(fixture.ledger, 0, job, NULL), TS_RECORDER_NONE));
}

Test(event_rows, a_new_job_begins_with_an_empty_row)
{
	for (uint32_t i = 1; i < TS_JOB_MAX; i++)
		(void)fixture_job(i);
	ts_recorder_tell(fixture.ledger, 0, job, TS_RECORDER_DONE, 0);
	(void)ts_recorder_enter(fixture.ledger, 0, job, self, 0);
	/* All are dead processes, the first one the oldest. */
	cr_assert(eq(int, ts_ledger_find_job(fixture.ledger, DEAD(3)), 0));
	cr_expect(eq(u64,
		ts_load_relaxed(&ts_ledger_recorder_row(fixture.ledger, 0)->recorder_xor_id),
		0));
	cr_expect(
		eq(int, ts_recorder_state(fixture.ledger, 0, DEAD(3), NULL), TS_RECORDER_NONE));
}

/* Where an event log is, and what may lie there. */

TestSuite(event_place, .init = fixture_init, .fini = fixture_finish);

#define HEAD                                                                                  \
	"{\"tsshim_events\":2,\"t\":1.000,\"version\":\"9\",\"group\":\"%s\",\"node\":\"n\"}" \
	"\n"

static int open_log(void)
{
	int fd = -1, r = ts_events_open(fixture.path, "unit-events", 0, &fd);

	if (r == 0)
		close(fd);
	return r;
}

static int open_with(const char *text)
{
	fixture_write(text);
	return open_log();
}

Test(event_place, the_log_of_a_group_is_a_file_of_the_node)
{
	char path[TS_EVENTS_PATH], expected[TS_EVENTS_PATH];
	struct ts_config config;
	struct utsname node;
	char *state[] = {(char *)"HOME=/home/a", (char *)"XDG_STATE_HOME=/state", NULL};
	char *home[] = {(char *)"HOMER=/x", (char *)"HOME=/home/a",
		(char *)"XDG_STATE_HOME=relative", NULL};
	char *none[] = {(char *)"HOME=", NULL};

	ts_config_init(&config);
	cr_expect(eq(int, ts_events_path(&config, home, path), -ENOENT));
	cr_assert(eq(int, ts_config_set(&config, TS_OPTION_EVENTS, "on"), 0));
	cr_assert(eq(int, ts_config_set(&config, TS_OPTION_GROUP, "g"), 0));
	uname(&node);
	cr_expect(eq(int, ts_events_path(&config, state, path), 0));
	(void)snprintf(expected, sizeof(expected), "/state/tsshim/g@%s.events", node.nodename);
	cr_expect(eq(str, path, expected));
	cr_expect(eq(int, ts_events_path(&config, home, path), 0));
	(void)snprintf(expected, sizeof(expected), "/home/a/.local/state/tsshim/g@%s.events",
		node.nodename);
	cr_expect(eq(str, path, expected));
	cr_expect(eq(int, ts_events_path(&config, none, path), -ENOTDIR));
	cr_expect(eq(int, ts_events_path(&config, NULL, path), -ENOTDIR));
	cr_assert(eq(int, ts_config_set(&config, TS_OPTION_EVENTS, "/a/b"), 0));
	cr_expect(eq(int, ts_events_path(&config, none, path), 0));
	cr_expect(eq(str, path, (char *)"/a/b"));
}

Test(event_place, a_home_that_is_too_long_is_none)
{
	static char home[2 * TS_EVENTS_PATH] = "HOME=/";
	char path[TS_EVENTS_PATH];
	struct ts_config config;
	char *env[] = {home, NULL};

	memset(home + 6, 'h', sizeof(home) - 7);
	ts_config_init(&config);
	cr_assert(eq(int, ts_config_set(&config, TS_OPTION_EVENTS, "on"), 0));
	cr_expect(eq(int, ts_events_path(&config, env, path), -ENAMETOOLONG));
}

Test(event_place, what_is_no_log_is_refused)
{
	static char long_line[2048];
	char text[256];

	memset(long_line, 'x', sizeof(long_line) - 1);
	cr_expect(eq(int, open_log(), -ENOENT));
	cr_expect(eq(int, open_with(""), 0), "nothing was written yet");
	(void)snprintf(text, sizeof(text), HEAD, "unit-events");
	cr_expect(eq(int, open_with(text), 0));
	cr_expect(eq(int, open_with("{\"tsshim_ev"), 0), "a first line that was torn");
	cr_expect(eq(int, open_with("{\"tsshim_events\":2,\"t\":1.0"), 0));
	(void)snprintf(text, sizeof(text), HEAD, "unit-events-2");
	cr_expect(eq(int, open_with(text), -EXDEV));
	(void)snprintf(text, sizeof(text), HEAD, "unit");
	cr_expect(eq(int, open_with(text), -EXDEV));
	cr_expect(eq(int, open_with("import torch\n"), -EBADMSG));
	cr_expect(eq(int, open_with("{\"tsshim_events\":2}\n"), -EBADMSG), "of which group?");
	cr_expect(eq(int, open_with(long_line), -EBADMSG));
	memcpy(long_line, "{\"tsshim_events\":", 17);
	cr_expect(eq(int, open_with(long_line), -EBADMSG), "of which group?");
	for (int error = 1; error < 200; error++)
		cr_expect(eq(int, ts_events_is_refusal(-error),
			error == ELOOP || error == EINVAL || error == EPERM ||
				error == EBADMSG || error == EXDEV));
}

Test(event_place, what_is_no_file_of_ours_is_refused)
{
	char other[160];

	(void)snprintf(other, sizeof(other), "%s/other", fixture.directory);
	fixture_write("");
	cr_assert(eq(int, rename(fixture.path, other), 0));
	cr_assert(eq(int, symlink(other, fixture.path), 0));
	cr_expect(eq(int, open_log(), -ELOOP));
	cr_assert(eq(int, unlink(fixture.path), 0));
	cr_assert(eq(int, mkfifo(fixture.path, 0600), 0));
	cr_expect(eq(int, open_log(), -EINVAL));
	cr_assert(eq(int, unlink(fixture.path), 0));
	cr_assert(eq(int, mkdir(fixture.path, 0700), 0));
	cr_expect(eq(int, open_log(), -EINVAL));
	cr_assert(eq(int, rmdir(fixture.path), 0));
	fixture_write("");
	if (geteuid() == 0 && chown(fixture.path, 4711, 4711) == 0)
		cr_expect(eq(int, open_log(), -EPERM));
}
