/* SPDX-License-Identifier: MIT */
/* Samples between nodes: which of them other nodes are asked for. */
#include "across.h"

#include "fixture.h"
#include "hooks/torch/across.h"
#include "shim/sys.h"
#include "tests/unit/across.h"

TestSuite(across_asked, .init = across_init, .fini = fixture_finish, .timeout = 60);

static void get(uint32_t count, int64_t first, uint64_t took_ns)
{
	for (uint32_t i = 0; i < count; i++) {
		struct ts_sample *sample = across_seek(first + i);
		across_answer(sample, TS_MAIL_SAYS_GOT, took_ns);
		cr_expect(eq(int, tsshim_sample_found(sample, ACROSS_WAIT_US), TS_HIT));
		tsshim_sample_destroy(sample);
	}
}

Test(across_asked, what_takes_longer_to_get_than_to_make_is_not_asked_for)
{
	across_make_record(1, 77, NULL);
	struct ts_sample *sample = torch_sample();

	/* It was made in 5 ms. */
	get(TS_MAIL_WINDOW, 100, 4000000);
	cr_expect(eq(u64, ts_load_relaxed(&across_mail.table->samples.times_off), 0));
	get(TS_MAIL_WINDOW, 200, 6000000);
	cr_expect(eq(u64, ts_load_relaxed(&across_mail.table->samples.times_off), 1));
	cr_expect(eq(int, tsshim_sample_across(sample), 0));
	cr_expect(eq(int, torch_take(sample, 5, 0), TS_CLAIM));
	cr_expect(eq(int, tsshim_sample_seek(sample), 0));
	cr_expect(eq(u64, across_passed(TS_REASON_ACROSS_SLOW), 1));
	/* It is off for all of a batch, whatever becomes of it meanwhile. */
	ts_write_relaxed(&across_mail.table->samples.worth.off_until, 1);
	tsshim_sample_drop(sample);
	cr_expect(eq(int, torch_take(sample, 6, 0), TS_CLAIM));
	cr_expect(eq(int, tsshim_sample_seek(sample), 0));
	cr_expect(eq(u64, across_passed(TS_REASON_ACROSS_SLOW), 2));
	cr_expect(eq(u64, across_passed(TS_REASON_ACROSS_ALONE), 0));
	/* And again after a while. */
	cr_expect(ne(int, tsshim_sample_across(sample), 0));
	tsshim_sample_destroy(sample);
	across_expect_no_request();
}

Test(across_asked, what_no_node_takes_is_not_asked_for)
{
	struct ts_sample *sample = torch_sample();

	ts_write_relaxed(&across_mail.table->use.unused_until, ts_now_ns() + TS_MAIL_UNUSED_NS);
	cr_expect(eq(int, tsshim_sample_across(sample), 0));
	cr_expect(eq(int, torch_take(sample, 5, 0), TS_CLAIM));
	cr_expect(eq(int, tsshim_sample_seek(sample), 0));
	cr_expect(eq(u64, across_passed(TS_REASON_ACROSS_UNUSED), 1));
	across_expect_no_request();
	tsshim_sample_drop(sample);
	ts_write_relaxed(&across_mail.table->use.unused_until, ts_now_ns());
	cr_expect(ne(int, tsshim_sample_across(sample), 0));
	tsshim_sample_destroy(sample);
}

Test(across_asked, a_lone_job_makes_for_other_nodes)
{
	const struct ts_session *session = fixture_enter();
	struct ts_demand *demand =
		&ts_ledger_dataset(fixture_ledger(), session->dataset)->demands[TS_KIND_SAMPLE];
	struct ts_sample *sample = torch_sample();

	ts_write_relaxed(&demand->capture, 0);
	cr_expect(eq(int, torch_take(sample, 5, 0), TS_PASS));
	cr_expect(ne(int, tsshim_sample_across(sample), 0));
	cr_expect(eq(int, torch_take(sample, 5, 0), TS_CLAIM));
	tsshim_sample_destroy(sample);
}

/* ---- while no node takes them ------------------------------------------------------------ */

static void set_off(void)
{
	ts_write_relaxed(&across_mail.table->use.unused_until, UINT64_MAX);
}

/* The next one that is made is asked for, unless many are made at once. */
static void set_turn(void)
{
	struct ts_mail_use *use = &across_mail.table->use;

	ts_write_relaxed(&use->try_count, TS_MAIL_TRY_ONE_IN - 1);
	ts_write_relaxed(&use->try_at, 0);
}

static struct ts_sample *try(int64_t number)
{
	struct ts_sample *sample = torch_sample();

	set_turn();
	cr_expect(eq(int, tsshim_sample_across(sample), 0));
	cr_assert(eq(int, torch_take(sample, number, 0), TS_CLAIM));
	cr_assert(ne(int, tsshim_sample_seek(sample), 0));
	cr_expect(eq(int, tsshim_sample_found(sample, 0), TS_BUSY));
	return sample;
}

static void expect_made_alone(struct ts_sample *sample)
{
	cr_expect(eq(int, tsshim_sample_found(sample, ACROSS_WAIT_US), TS_CLAIM));
	torch_publish(sample, ACROSS_PAYLOAD, 7);
	across_expect_no_request();
	tsshim_sample_destroy(sample);
}

Test(across_asked, one_in_so_many_is_only_looked_for)
{
	struct ts_sample *sample = torch_sample();

	set_off();
	cr_expect(eq(int, tsshim_sample_across(sample), 0));
	for (uint64_t i = 0; i < TS_MAIL_TRY_ONE_IN; i++) {
		across_expect_no_request();
		cr_expect(eq(int, torch_take(sample, (int64_t)(10 + i), 0), TS_CLAIM));
		bool is_last = i == TS_MAIL_TRY_ONE_IN - 1;
		cr_expect(eq(int, tsshim_sample_seek(sample), is_last));
	}
	cr_expect(eq(u64, across_passed(TS_REASON_ACROSS_UNUSED), TS_MAIL_TRY_ONE_IN - 1));
	across_expect_request(TS_MAIL_SAMPLE_FIND, sample);
	expect_made_alone(sample);
	cr_expect(eq(u64, across_passed(TS_REASON_ACROSS_UNUSED), TS_MAIL_TRY_ONE_IN));
	cr_expect(eq(u64, across_passed(TS_REASON_ACROSS_ALONE), 0));
}

Test(across_asked, what_is_taken_here_is_none_of_them)
{
	struct ts_sample *sample = torch_sample(), *other = torch_sample();

	set_off();
	torch_make(other, 5, ACROSS_PAYLOAD, 7);
	cr_expect(eq(int, torch_take(other, 6, 0), TS_CLAIM));
	set_turn();
	cr_expect(eq(int, tsshim_sample_across(sample), 0));
	cr_expect(eq(int, torch_take(sample, 5, 0), TS_HIT));
	cr_expect(eq(int, torch_take(sample, 6, 0), TS_BUSY));
	cr_expect(eq(u64, ts_load_relaxed(&across_mail.table->use.try_count),
		TS_MAIL_TRY_ONE_IN - 1));
	tsshim_sample_destroy(other);
	tsshim_sample_destroy(sample);
}

Test(across_asked, what_is_found_is_taken)
{
	across_make_record(1, 77, NULL);
	set_off();
	struct ts_sample *sample = try(2);
	across_answer(sample, TS_MAIL_SAYS_GOT, 1000);
	cr_assert(eq(int, tsshim_sample_found(sample, ACROSS_WAIT_US), TS_HIT));
	tsshim_sample_taken(sample);
	cr_expect(eq(u64, torch_shared(), 1));
	cr_expect(eq(u64, ts_load_relaxed(&across_mail.table->samples.got), 1));
	tsshim_sample_destroy(sample);
	across_expect_no_request();
}

Test(across_asked, what_takes_longer_to_get_is_not_looked_for)
{
	struct ts_sample *sample = torch_sample();

	set_off();
	ts_write_relaxed(&across_mail.table->samples.worth.off_until, UINT64_MAX);
	for (uint64_t i = 0; i < 2 * TS_MAIL_TRY_ONE_IN; i++) {
		cr_expect(eq(int, tsshim_sample_across(sample), 0));
		cr_expect(eq(int, torch_take(sample, (int64_t)(10 + i), 0), TS_CLAIM));
		cr_expect(eq(int, tsshim_sample_seek(sample), 0));
	}
	tsshim_sample_destroy(sample);
	across_expect_no_request();
}

Test(across_asked, a_lone_job_looks_for_one_and_makes_the_others_alone)
{
	const struct ts_session *session = fixture_enter();
	struct ts_demand *demand =
		&ts_ledger_dataset(fixture_ledger(), session->dataset)->demands[TS_KIND_SAMPLE];
	struct ts_sample *sample;

	ts_write_relaxed(&demand->capture, 0);
	set_off();
	sample = try(5);
	across_expect_request(TS_MAIL_SAMPLE_FIND, sample);
	expect_made_alone(sample);
	sample = torch_sample();
	cr_expect(eq(int, tsshim_sample_across(sample), 0));
	cr_expect(eq(int, torch_take(sample, 6, 0), TS_PASS));
	cr_expect(eq(u32, ts_load_relaxed(&demand->capture), 0));
	tsshim_sample_destroy(sample);
}
