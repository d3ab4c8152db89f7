/* SPDX-License-Identifier: MIT */
/* Samples that other nodes are asked for: each is counted as what became of it, once. */
#include "fixture.h"

#include "leader/mail/samples.h"
#include "shim/atomic.h"
#include "shim/sys.h"
#include "tests/unit/clock.h"

static struct ts_store *store;
static struct ts_mail mail;

static void begin(void)
{
	fixture_init();
	store = fixture_attach(JOB_A);
	mail = (struct ts_mail){.table = NULL};
	cr_assert(eq(int, ts_mail_attach(store, &mail), 0));
}

static void end(void)
{
	ts_store_detach(store);
	fixture_finish();
}

TestSuite(mail_samples, .init = begin, .fini = end);

static struct ts_mail_errand post(void)
{
	static uint64_t number;
	const struct ts_hash128 name = {.lo = ++number};
	struct ts_mail_errand errand;

	cr_assert(eq(int, ts_mail_post(&mail, TS_KIND_SAMPLE, &name, true, &errand), 0));
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

static struct ts_mail_errand post_and_answer(enum ts_mail_answer answer)
{
	struct ts_mail_errand errand = post();

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
	struct ts_mail_errand errand = post();

	ts_mail_abandon(&mail, &errand); /* before it was taken */
	expect_counts(0, 1);
	errand = post();
	uint32_t index = take(TS_MAIL_SAMPLE);
	ts_mail_abandon(&mail, &errand);
	cr_expect(not(ts_mail_answer(&mail, index, TS_MAIL_SAYS_GOT)));
	expect_counts(0, 2);
	errand = post_and_answer(TS_MAIL_SAYS_NONE);
	ts_mail_abandon(&mail, &errand);
	expect_counts(0, 3);
}

Test(mail_samples, what_was_won_unseen_is_won_and_returned)
{
	struct ts_mail_errand errand = post_and_answer(TS_MAIL_SAYS_WON);

	ts_mail_abandon(&mail, &errand);
	(void)take(TS_MAIL_SAMPLE_RETURN);
	expect_counts(1, 0);
}

Test(mail_samples, what_was_won_and_is_given_back_is_won)
{
	struct ts_mail_errand errand = post_and_answer(TS_MAIL_SAYS_WON);

	cr_assert(eq(int, ts_mail_look(&mail, &errand, 0), TS_MAIL_SAYS_WON));
	ts_mail_give_back(&mail, &errand);
	(void)take(TS_MAIL_SAMPLE_RETURN);
	expect_counts(1, 0);
}

Test(mail_samples, what_came_and_is_given_back_is_alone)
{
	struct ts_mail_errand errand = post_and_answer(TS_MAIL_SAYS_GOT);

	cr_assert(eq(int, ts_mail_look(&mail, &errand, 0), TS_MAIL_SAYS_GOT));
	ts_mail_give_back(&mail, &errand);
	(void)take(TS_MAIL_SAMPLE_RETURN);
	expect_counts(0, 1);
}

/* ---- whether it pays -----------------------------------------------------------------------
 */

static void hand_over(enum ts_kind kind, uint64_t bytes, uint64_t made_ns)
{
	static uint64_t number = 1000;

	for (uint64_t i = 0; i < TS_MAIL_WINDOW; i++) {
		const struct ts_hash128 name = {.lo = ++number};
		struct ts_mail_errand errand;
		cr_assert(eq(int, ts_mail_post(&mail, kind, &name, true, &errand), 0));
		cr_assert(ts_mail_answer(&mail, take(TS_MAIL_SAMPLE), TS_MAIL_SAYS_WON));
		cr_assert(eq(int, ts_mail_look(&mail, &errand, 0), TS_MAIL_SAYS_WON));
		ts_mail_hand_over(&mail, &errand, bytes, made_ns);
		(void)ts_mail_answer(&mail, take(TS_MAIL_SAMPLE_STORE), TS_MAIL_SAYS_NONE);
	}
}

Test(mail_samples, pictures_that_cost_less_than_to_move_them_are_not_asked_for)
{
	const uint64_t bytes = UINT64_C(1) << 20, moving = 1024 * TS_MAIL_MOVE_NS_PER_KIB;
	struct ts_mail_worth *worth = &mail.table->pictures.worth;

	hand_over(TS_KIND_PIXELS, bytes, moving);
	cr_expect(ts_mail_pays(&mail, TS_KIND_PIXELS));
	cr_expect(eq(u64, ts_load_relaxed(&worth->off_until), 0));
	hand_over(TS_KIND_PIXELS, bytes, moving - 1);
	cr_expect(not(ts_mail_pays(&mail, TS_KIND_PIXELS)));
	cr_expect(gt(u64, ts_load_relaxed(&worth->off_until), ts_now_ns()));
	cr_expect(ts_mail_pays(&mail, TS_KIND_SAMPLE));
}

/* Whose taker has something else to do meanwhile. */
Test(mail_samples, samples_are_judged_where_they_come_only)
{
	hand_over(TS_KIND_SAMPLE, UINT64_C(1) << 20, 1);
	cr_expect(ts_mail_pays(&mail, TS_KIND_SAMPLE));
	cr_expect(ts_mail_pays(&mail, TS_KIND_PIXELS));
}

/* ---- while they are of no use ---------------------------------------------------------------
 */

/* Of @count that are made one each @apart_ns: which may be asked for. */
static uint64_t tries(uint64_t count, uint64_t apart_ns)
{
	uint64_t found = 0;

	for (uint64_t i = 0; i < count; i++) {
		found += ts_mail_may_try(&mail);
		clock_pass(apart_ns);
	}
	return found;
}

Test(mail_samples, while_no_node_takes_them_one_in_so_many_may_be_asked_for)
{
	clock_begin();
	cr_expect(eq(u64, tries(100, 1), 0), "all are");
	ts_write_relaxed(&mail.table->use.unused_until, UINT64_MAX);
	cr_expect(eq(u64, tries(TS_MAIL_TRY_ONE_IN - 1, TS_MAIL_TRY_NS), 0));
	cr_expect(eq(u64, tries(1, TS_MAIL_TRY_NS), 1));
	cr_expect(eq(u64, tries(10 * TS_MAIL_TRY_ONE_IN, TS_MAIL_TRY_NS), 10));
	/* What other nodes hand over for a trial has one among it in any case. */
	cr_expect(lt(u64, TS_MAIL_TRY_ONE_IN, 32));
	clock_end();
}

Test(mail_samples, where_many_are_made_at_once_few_may_be_asked_for)
{
	clock_begin();
	ts_write_relaxed(&mail.table->use.unused_until, UINT64_MAX);
	cr_expect(eq(u64, tries(1000 * TS_MAIL_TRY_ONE_IN, 0), 1));
	/* The time of each that may be is over with the tenth one behind it. */
	cr_expect(eq(u64,
		tries(1000 * TS_MAIL_TRY_ONE_IN, TS_MAIL_TRY_NS / (10 * TS_MAIL_TRY_ONE_IN)),
		99));
	clock_end();
}

Test(mail_samples, one_that_is_only_looked_for_is_told_apart)
{
	const struct ts_hash128 name = {.lo = 5};
	struct ts_mail_errand errand;

	cr_assert(eq(int, ts_mail_post(&mail, TS_KIND_SAMPLE, &name, false, &errand), 0));
	cr_expect(lt(u32, errand.index, TS_MAIL_PLACES));
	cr_assert(ts_mail_answer(&mail, take(TS_MAIL_SAMPLE_FIND), TS_MAIL_SAYS_NONE));
	cr_expect(eq(int, ts_mail_look(&mail, &errand, 0), TS_MAIL_SAYS_NONE));
	expect_counts(0, 1);
	cr_expect(eq(u64, ts_load_relaxed(&mail.table->samples.tried), 1));
}

Test(mail_samples, pictures_are_counted_apart)
{
	struct ts_mail_flow *pictures = &mail.table->pictures;
	const struct ts_hash128 name = {.lo = 6};
	struct ts_mail_errand errand;

	hand_over(TS_KIND_PIXELS, 1000, 1000000000);
	cr_assert(eq(int, ts_mail_post(&mail, TS_KIND_PIXELS, &name, true, &errand), 0));
	cr_assert(ts_mail_answer(&mail, take(TS_MAIL_SAMPLE), TS_MAIL_SAYS_LATE));
	cr_expect(eq(int, ts_mail_look(&mail, &errand, 0), TS_MAIL_SAYS_LATE));
	expect_counts(0, 0);
	cr_expect(eq(u64, ts_load_relaxed(&mail.table->samples.stored), 0));
	cr_expect(eq(u64, ts_load_relaxed(&pictures->asked), TS_MAIL_WINDOW + 1));
	cr_expect(eq(u64, ts_load_relaxed(&pictures->won), TS_MAIL_WINDOW));
	cr_expect(eq(u64, ts_load_relaxed(&pictures->stored), TS_MAIL_WINDOW));
	cr_expect(eq(u64, ts_load_relaxed(&pictures->alone), 1));
}
