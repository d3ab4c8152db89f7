/* SPDX-License-Identifier: MIT */
/* Whether asking other nodes pays, on a virtual clock. */
#include "samples.h"

#include "leader/peer/kept.h"
#include "shim/atomic.h"
#include "shim/sys.h"
#include "tests/unit/clock.h"

#include <stdio.h>
#include <string.h>

static struct node node;
static struct ts_mail_use *told;
static uint32_t given;

static void begin(void)
{
	samples_begin(&node, 1);
	told = &node.mail.table->use;
	given = 0;
	/* At the beginning of the longest time for which nobody asks. */
	clock_set((int64_t)(1000 * TS_MAIL_UNUSED_MAX_NS));
}

TestSuite(worth, .init = begin, .fini = samples_end);

/* ---- what tests do ---------------------------------------------------------------------- */

static void give(uint32_t count)
{
	while (count-- > 0)
		sample_give(given++, 1000);
}

static void turn(void)
{
	while (node_turn(&node))
		;
}

/* Those that were given so far have been there for so long. */
static void look(void)
{
	clock_pass(TS_KEPT_LOOK_NS);
	turn();
}

/* The number-th that is looked at, where one in TS_KEPT_ONE_IN is. */
static struct node_value *looked_at(uint32_t number)
{
	return sample_value((number + 1) * TS_KEPT_ONE_IN - 1, 0);
}

static void expect_looks(uint64_t looked, uint64_t unused, uint64_t times)
{
	cr_expect(eq(u64, ts_load_relaxed(&told->looked), looked));
	cr_expect(eq(u64, ts_load_relaxed(&told->unused), unused));
	cr_expect(eq(u64, ts_load_relaxed(&told->times_unused), times));
}

static bool is_off(void)
{
	return ts_now_ns() < ts_load_relaxed(&told->unused_until);
}

static void go_off(void)
{
	give(TS_KEPT_ONE_IN * TS_WORTH_ROW);
	look();
	cr_assert(is_off());
}

/* ---- what no node fetches --------------------------------------------------------------- */

Test(worth, what_no_node_fetches_is_not_handed_over)
{
	give(TS_KEPT_ONE_IN * TS_WORTH_ROW - 1);
	clock_pass(TS_KEPT_LOOK_NS - 1);
	turn();
	expect_looks(0, 0, 0);
	clock_pass(1);
	turn();
	expect_looks(TS_WORTH_ROW - 1, TS_WORTH_ROW - 1, 0);
	cr_expect(not(is_off()));
	give(1);
	look();
	expect_looks(TS_WORTH_ROW, TS_WORTH_ROW, 1);
	cr_expect(is_off());
}

Test(worth, one_that_is_fetched_begins_the_row_anew)
{
	give(TS_KEPT_ONE_IN * TS_WORTH_ROW);
	looked_at(TS_WORTH_ROW - 1)->fetched = true;
	look();
	expect_looks(TS_WORTH_ROW, TS_WORTH_ROW - 1, 0);
	give(TS_KEPT_ONE_IN * (TS_WORTH_ROW - 1));
	look();
	expect_looks(2 * TS_WORTH_ROW - 1, 2 * TS_WORTH_ROW - 2, 0);
	give(TS_KEPT_ONE_IN);
	look();
	expect_looks(2 * TS_WORTH_ROW, 2 * TS_WORTH_ROW - 1, 1);
}

/* Who is behind wins few, and nobody fetches these. */
Test(worth, one_that_comes_begins_the_row_anew)
{
	give(TS_KEPT_ONE_IN * (TS_WORTH_ROW - 1));
	look();
	cr_assert(eq(int, sample_seek(0), TS_MAIL_SAYS_GOT));
	give(TS_KEPT_ONE_IN * (TS_WORTH_ROW - 1));
	look();
	expect_looks(2 * (TS_WORTH_ROW - 1), 2 * (TS_WORTH_ROW - 1), 0);
	give(TS_KEPT_ONE_IN);
	look();
	cr_expect(eq(u64, ts_load_relaxed(&told->times_unused), 1));
}

/* All nodes that are off are on again in one moment, whenever each went off. */
Test(worth, times_end_together_by_the_clock_of_the_day)
{
	uint64_t pause = TS_MAIL_OFF_NS;

	for (unsigned i = 0; i < 7; i++) {
		for (uint32_t j = 0; j < NODE_VALUES; j++) /* they have ended by their time */
			node.values[j].key[0] = '\0';
		go_off();
		uint64_t left = ts_load_relaxed(&told->unused_until) - ts_now_ns();
		cr_expect(left >= pause / 2 && left < pause / 2 + pause, "pause %u", i);
		cr_expect(eq(u64, ((uint64_t)ts_real_ns() + left) % pause, 0), "pause %u", i);
		clock_pass(left);
		cr_expect(not(is_off()));
		pause = ts_min_u64(2 * pause, TS_MAIL_UNUSED_MAX_NS);
	}
	cr_expect(eq(u64, pause, TS_MAIL_UNUSED_MAX_NS));
}

Test(worth, one_that_is_fetched_after_all_ends_it_and_the_next_time_is_short)
{
	uint32_t more = TS_KEPT_ONE_IN;

	give(TS_KEPT_ONE_IN * TS_WORTH_ROW);
	clock_pass(SECOND);
	give(more);
	clock_pass(TS_KEPT_LOOK_NS - SECOND);
	turn();
	cr_assert(is_off());
	looked_at(TS_WORTH_ROW)->fetched = true;
	clock_pass(SECOND);
	turn();
	cr_expect(not(is_off()));
	given = 5000;
	go_off();
	cr_expect(lt(
		u64, ts_load_relaxed(&told->unused_until) - ts_now_ns(), 2 * TS_MAIL_OFF_NS));
}

/* What was stored before it went off says nothing new. */
Test(worth, what_was_stored_before_goes_off_once)
{
	give(3 * TS_KEPT_ONE_IN * TS_WORTH_ROW);
	look();
	expect_looks(3 * TS_WORTH_ROW, 3 * TS_WORTH_ROW, 1);
}

Test(worth, what_another_node_has_made_again_counts_neither_way)
{
	give(TS_KEPT_ONE_IN * TS_WORTH_ROW);
	looked_at(0)->cas = ++node.kept;
	looked_at(1)->key[0] = '\0';
	look();
	expect_looks(TS_WORTH_ROW - 2, TS_WORTH_ROW - 2, 0);
}

/* There is no more room, so each that is given makes the server lose old ones. */
Test(worth, what_is_removed_is_looked_at_before)
{
	give(TS_KEPT_ONE_IN * TS_WORTH_ROW);
	looked_at(0)->fetched = true;
	node.room = 1;
	clock_pass(TS_KEPT_YOUNG_NS);
	give(1);
	turn();
	node.room = 0;
	uint64_t looked = node_counter(&node, TS_MAIL_COUNT_REMOVED) / TS_KEPT_ONE_IN;
	cr_assert(ge(u64, looked, 1));
	expect_looks(looked, looked - 1, 0);
	look();
	/* One of each eight, whenever it was looked at. */
	expect_looks(TS_WORTH_ROW, TS_WORTH_ROW - 1, 0);
}

Test(worth, the_end_of_all_jobs_begins_anew)
{
	go_off();
	while (ts_transfers_clear(node.transfers))
		cr_assert(node_turn(&node));
	cr_expect(not(is_off()));
}

/* ---- what takes longer to get than to make ---------------------------------------------- */

/* Another node's helper hands them over, and each takes @took_ns to come. */
static void get(uint32_t count, uint64_t took_ns)
{
	struct ts_worth worth;

	ts_worth_init(&worth, &node.mail);
	for (uint32_t i = 0; i < count; i++)
		ts_worth_note_got(&worth, took_ns, SAMPLE_MADE_NS);
}

Test(worth, what_takes_longer_to_get_than_to_make_is_not_asked_for)
{
	struct ts_mail_flow *flow = &node.mail.table->samples;

	get(TS_WORTH_WINDOW - 1, SAMPLE_MADE_NS + 1);
	cr_expect(eq(u64, ts_load_relaxed(&flow->off_until), 0));
	get(3 * TS_WORTH_WINDOW, SAMPLE_MADE_NS);
	cr_expect(eq(u64, ts_load_relaxed(&flow->off_until), 0));
	get(TS_WORTH_WINDOW, SAMPLE_MADE_NS + 1);
	cr_expect(eq(u64, ts_load_relaxed(&flow->off_until), ts_now_ns() + TS_MAIL_OFF_NS));
	cr_expect(eq(u64, ts_load_relaxed(&flow->times_off), 1));
}

/* Each way here: what a sample says of itself is what it is judged by. */
Test(worth, a_sample_that_comes_is_weighed)
{
	struct ts_mail_flow *flow = &node.mail.table->samples;

	give(1);
	for (unsigned i = 0; i < TS_WORTH_WINDOW; i++) {
		sample_want(0);
		node_post(&node, TS_MAIL_SAMPLE);
		clock_pass(SAMPLE_MADE_NS + 1);
		cr_assert(eq(int, node_wait(&node), TS_MAIL_SAYS_GOT));
		node_rest(&node);
	}
	cr_expect(eq(u64, ts_load_relaxed(&flow->times_off), 1));
}
