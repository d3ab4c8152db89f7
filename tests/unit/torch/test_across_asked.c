/* SPDX-License-Identifier: MIT */
/* Samples between nodes: which of them other nodes are asked for. */
#include "across.h"

#include "fixture.h"
#include "hooks/torch/samples.h"
#include "shim/sys.h"
#include "tests/unit/across.h"

TestSuite(across_asked, .init = across_init, .fini = fixture_finish, .timeout = 60);

Test(across_asked, what_takes_longer_to_get_than_to_make_is_not_asked_for)
{
	struct ts_sample *sample = torch_sample();

	ts_write_relaxed(&across_mail.table->samples.off_until, UINT64_MAX);
	cr_expect(eq(int, tsshim_sample_across(sample), 0));
	cr_expect(eq(int, torch_take(sample, 5, 0), TS_CLAIM));
	cr_expect(eq(int, tsshim_sample_seek(sample), 0));
	cr_expect(eq(u64, across_passed(TS_REASON_ACROSS_SLOW), 1));
	/* It is off for all of a batch, whatever becomes of it meanwhile. */
	ts_write_relaxed(&across_mail.table->samples.off_until, 1);
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

	ts_write_relaxed(&across_mail.table->use.unused_until, UINT64_MAX);
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
	/* And for nobody, where they are not asked. */
	ts_write_relaxed(&across_mail.table->use.unused_until, UINT64_MAX);
	cr_expect(eq(int, tsshim_sample_across(sample), 0));
	cr_expect(eq(int, torch_take(sample, 6, 0), TS_PASS));
	tsshim_sample_destroy(sample);
}
