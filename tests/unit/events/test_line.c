/* SPDX-License-Identifier: MIT */
/* A line of the event log: which jobs it has, and what it says of them. */
#include "fixture.h"

#include "leader/events/recorder.h"
#include "shim/atomic.h"
#include "shim/identity.h"

#include <string.h>
#include <unistd.h>

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
