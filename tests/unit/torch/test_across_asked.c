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
	ts_write_relaxed(&across_mail.table->samples.whole.off_until, 1);
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

	ts_write_relaxed(
		&across_mail.table->samples.unused_until, ts_now_ns() + TS_MAIL_UNUSED_NS);
	cr_expect(eq(int, tsshim_sample_across(sample), 0));
	cr_expect(eq(int, torch_take(sample, 5, 0), TS_CLAIM));
	cr_expect(eq(int, tsshim_sample_seek(sample), 0));
	cr_expect(eq(u64, across_passed(TS_REASON_ACROSS_UNUSED), 1));
	across_expect_no_request();
	tsshim_sample_drop(sample);
	ts_write_relaxed(&across_mail.table->samples.unused_until, ts_now_ns());
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
