/* SPDX-License-Identifier: MIT */
/* Samples that other nodes are asked for: each is counted as what became of it, once. */
#include "fixture.h"

#include "leader/mail/mail.h"
#include "shim/atomic.h"
#include "shim/sys.h"
#include "tests/unit/across.h"

static struct ts_store *store;
static struct ts_mail mail;

static void begin(void)
{
	fixture_init();
	ts_identity_init();
	store = fixture_attach(JOB_A);
	mail = (struct ts_mail){.table = NULL};
	across_serve(store, &mail);
}

static void end(void)
{
	ts_store_detach(store);
	fixture_finish();
}

TestSuite(mail_samples, .init = begin, .fini = end);

static struct ts_errand post(void)
{
	static uint64_t number;
	const struct ts_key key = {.lo = ++number};
	struct ts_errand errand = {.state = TS_ERRAND_NONE};
	enum ts_reason reason;

	cr_assert(eq(int, ts_errand_ask(&errand, &mail, &key, &reason), 0));
	return errand;
}

/* As the helper does. */
static uint32_t take(enum ts_mail_kind kind)
{
	struct ts_mail_request request;
	uint32_t index;

	cr_assert(eq(int, ts_mail_take(&mail, 0, &index, &request), 0));
	cr_assert(eq(u32, request.kind, (uint32_t)kind));
	return index;
}

static struct ts_errand post_and_answer(enum ts_mail_answer answer)
{
	struct ts_errand errand = post();

	cr_assert(ts_mail_answer(&mail, take(TS_MAIL_SAMPLE), answer));
	return errand;
}

static void expect_counts(uint64_t won, uint64_t alone)
{
	struct ts_mail_flow *samples = &mail.table->samples;

	cr_expect(eq(u64, ts_load_relaxed(&samples->asked), won + alone));
	cr_expect(eq(u64, ts_load_relaxed(&samples->won), won));
	cr_expect(eq(u64, ts_load_relaxed(&samples->alone), alone));
	cr_expect(eq(u64, ts_load_relaxed(&samples->got), 0));
}

Test(mail_samples, what_is_not_waited_for_is_alone)
{
	struct ts_errand errand = post();

	ts_errand_drop(&errand); /* before it was taken */
	expect_counts(0, 1);
	errand = post();
	uint32_t index = take(TS_MAIL_SAMPLE);
	ts_errand_drop(&errand);
	cr_expect(not(ts_mail_answer(&mail, index, TS_MAIL_SAYS_GOT)));
	expect_counts(0, 2);
	errand = post_and_answer(TS_MAIL_SAYS_NONE);
	ts_errand_drop(&errand);
	expect_counts(0, 3);
}

Test(mail_samples, what_was_won_unseen_is_won_and_returned)
{
	struct ts_errand errand = post_and_answer(TS_MAIL_SAYS_WON);

	ts_errand_drop(&errand);
	(void)take(TS_MAIL_SAMPLE_RETURN);
	expect_counts(1, 0);
}

Test(mail_samples, what_was_won_and_is_given_back_is_won)
{
	struct ts_errand errand = post_and_answer(TS_MAIL_SAYS_WON);

	cr_assert(eq(int, ts_errand_look(&errand, 0), TS_MAIL_SAYS_WON));
	ts_errand_drop(&errand);
	(void)take(TS_MAIL_SAMPLE_RETURN);
	expect_counts(1, 0);
}

Test(mail_samples, what_came_and_is_given_back_is_alone)
{
	struct ts_errand errand = post_and_answer(TS_MAIL_SAYS_GOT);

	cr_assert(eq(int, ts_errand_look(&errand, 0), TS_MAIL_SAYS_GOT));
	ts_errand_refuse(&errand);
	(void)take(TS_MAIL_SAMPLE_RETURN);
	expect_counts(0, 1);
}

/* ---- whether it pays -----------------------------------------------------------------------
 */

static enum ts_reason ask(void)
{
	const struct ts_key key = {.lo = 7};
	struct ts_errand errand = {.state = TS_ERRAND_NONE};
	enum ts_reason reason;
	int r = ts_errand_ask(&errand, &mail, &key, &reason);

	cr_expect(eq(int, errand.state, r == 0 ? TS_ERRAND_ASKED : TS_ERRAND_NONE));
	ts_errand_drop(&errand);
	return r == 0 ? TS_REASON_COUNT : reason;
}

Test(mail_samples, nobody_asks_while_the_helper_says_so)
{
	ts_write_relaxed(&mail.table->samples.off_until, UINT64_MAX);
	ts_write_relaxed(&mail.table->use.unused_until, UINT64_MAX);
	cr_expect(eq(int, ask(), TS_REASON_ACROSS_SLOW));
	ts_write_relaxed(&mail.table->samples.off_until, ts_now_ns());
	cr_expect(eq(int, ask(), TS_REASON_ACROSS_UNUSED));
	ts_write_relaxed(&mail.table->use.unused_until, ts_now_ns());
	cr_expect(eq(int, ask(), TS_REASON_COUNT));
}
