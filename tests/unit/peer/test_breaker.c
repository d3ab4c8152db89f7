/* SPDX-License-Identifier: MIT */
/* When a peer is asked, on a clock of our own. */
#include "leader/peer/breaker.h"
#include "shim/sys.h"
#include "tests/unit/clock.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define FIRST_NS UINT64_C(100000000)
#define LAST_NS  UINT64_C(30000000000)

static const struct ts_breaker_times times = {.first_ns = FIRST_NS, .last_ns = LAST_NS};
static struct ts_breaker breaker;
static uint32_t ticket;

static void begin(void)
{
	clock_begin();
	ts_breaker_init(&breaker, &times, 1);
}

TestSuite(breaker, .init = begin, .fini = clock_end);

static void fail(void)
{
	cr_assert(eq(int, ts_breaker_ask(&breaker, &ticket), 0));
	ts_breaker_failed(&breaker, ticket);
}

static void open_it(void)
{
	for (int i = 0; i < TS_BREAKER_FAILURES; i++)
		fail();
	cr_assert(eq(int, (int)breaker.state, TS_BREAKER_OPEN));
}

static uint64_t left(void)
{
	return breaker.until_ns - ts_now_ns();
}

Test(breaker, some_failures_in_a_row_open_it)
{
	for (int i = 1; i < TS_BREAKER_FAILURES; i++)
		fail();
	cr_expect(eq(int, (int)breaker.state, TS_BREAKER_CLOSED));
	cr_assert(eq(int, ts_breaker_ask(&breaker, &ticket), 0));
	ts_breaker_answered(&breaker, ticket);
	for (int i = 1; i < TS_BREAKER_FAILURES; i++)
		fail();
	cr_expect(eq(int, (int)breaker.state, TS_BREAKER_CLOSED), "an answer was between them");
	fail();
	cr_expect(eq(int, (int)breaker.state, TS_BREAKER_OPEN));
	cr_expect(eq(int, ts_breaker_ask(&breaker, &ticket), -EAGAIN));
}

Test(breaker, pauses_double_up_to_the_longest_and_none_is_below_its_half)
{
	uint64_t pause = FIRST_NS;

	open_it();
	for (int i = 0; i < 20; i++) {
		cr_expect(ge(u64, left(), pause / 2), "%d", i);
		cr_expect(le(u64, left(), pause), "%d", i);
		clock_pass(left() - 1);
		cr_expect(eq(int, ts_breaker_ask(&breaker, &ticket), -EAGAIN), "%d", i);
		clock_pass(1);
		fail();
		pause = ts_min_u64(2 * pause, LAST_NS);
	}
	cr_expect(eq(u64, breaker.pause_ns, LAST_NS));
}

Test(breaker, one_probe_at_a_time_closes_it_after_some)
{
	uint32_t other;

	open_it();
	clock_pass(left());
	for (int i = 0; i < TS_BREAKER_PROBES; i++) {
		cr_expect(not(ts_breaker_is_probed(&breaker)));
		cr_assert(eq(int, ts_breaker_ask(&breaker, &ticket), 0), "%d", i);
		cr_expect(ts_breaker_is_probed(&breaker));
		for (int j = 0; j < 100; j++)
			cr_expect(eq(int, ts_breaker_ask(&breaker, &other), -EAGAIN));
		ts_breaker_answered(&breaker, ticket);
	}
	cr_expect(eq(int, (int)breaker.state, TS_BREAKER_CLOSED));
	open_it();
	cr_expect(le(u64, left(), FIRST_NS), "it begins anew");
}

Test(breaker, a_probe_that_fails_opens_it_at_once)
{
	open_it();
	clock_pass(left());
	cr_assert(eq(int, ts_breaker_ask(&breaker, &ticket), 0));
	ts_breaker_answered(&breaker, ticket);
	fail();
	cr_expect(eq(int, (int)breaker.state, TS_BREAKER_OPEN));
}

Test(breaker, what_was_asked_before_says_nothing_now)
{
	uint32_t before;

	cr_assert(eq(int, ts_breaker_ask(&breaker, &before), 0));
	open_it();
	ts_breaker_answered(&breaker, before);
	cr_expect(eq(int, (int)breaker.state, TS_BREAKER_OPEN));
	clock_pass(left());
	cr_assert(eq(int, ts_breaker_ask(&breaker, &ticket), 0));
	ts_breaker_failed(&breaker, before);
	cr_expect(eq(int, (int)breaker.state, TS_BREAKER_HALF_OPEN));
	ts_breaker_answered(&breaker, before);
	cr_expect(eq(u32, breaker.proven, 0));
}

Test(breaker, a_lost_probe_is_given_up)
{
	uint32_t lost;

	open_it();
	clock_pass(left());
	cr_assert(eq(int, ts_breaker_ask(&breaker, &lost), 0));
	clock_pass(TS_BREAKER_LOST_NS - 1);
	cr_expect(eq(int, ts_breaker_ask(&breaker, &ticket), -EAGAIN));
	cr_expect(ts_breaker_is_probed(&breaker));
	clock_pass(1);
	cr_expect(not(ts_breaker_is_probed(&breaker)));
	cr_assert(eq(int, ts_breaker_ask(&breaker, &ticket), 0));
	ts_breaker_failed(&breaker, lost);
	cr_expect(eq(int, (int)breaker.state, TS_BREAKER_HALF_OPEN));
	ts_breaker_answered(&breaker, ticket);
	cr_expect(eq(u32, breaker.proven, 1));
}

Test(breaker, a_probe_that_was_not_sent_is_anothers)
{
	open_it();
	clock_pass(left());
	cr_assert(eq(int, ts_breaker_ask(&breaker, &ticket), 0));
	ts_breaker_returned(&breaker, ticket);
	cr_expect(eq(int, ts_breaker_ask(&breaker, &ticket), 0));
	cr_expect(eq(u32, breaker.proven, 0));
}

Test(breaker, what_is_known_to_be_well_is_asked_at_once)
{
	open_it();
	clock_pass(left());
	cr_assert(eq(int, ts_breaker_ask(&breaker, &ticket), 0));
	uint32_t before = ticket;
	ts_breaker_close(&breaker);
	cr_expect(eq(int, ts_breaker_ask(&breaker, &ticket), 0));
	ts_breaker_failed(&breaker, before); /* of another state */
	for (int i = 1; i < TS_BREAKER_FAILURES; i++)
		fail();
	cr_expect(eq(int, (int)breaker.state, TS_BREAKER_CLOSED));
	ts_breaker_close(&breaker);
	open_it();
	cr_expect(le(u64, left(), FIRST_NS), "it begins anew");
}

/* 256 nodes lose a peer in one moment: how many come back in the same millisecond. */
Test(breaker, nodes_do_not_come_back_in_one_moment)
{
	unsigned in_ms[FIRST_NS / 1000000 + 1] = {0};
	uint64_t begin_ns = ts_now_ns();

	for (uint64_t node = 0; node < 256; node++) {
		ts_breaker_init(&breaker, &times, node);
		open_it();
		in_ms[(breaker.until_ns - begin_ns) / 1000000]++;
	}
	/* The seeds are given, so this is one outcome and no chance: some 5 on the average. */
	for (size_t i = 0; i < sizeof(in_ms) / sizeof(in_ms[0]); i++)
		cr_expect(lt(uint, in_ms[i], 16), "%zu ms", i);
}
