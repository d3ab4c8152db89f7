/* SPDX-License-Identifier: MIT */
/* Whether any node takes what is handed over. */
#include "samples.h"

#include "leader/peer/taken.h"
#include "leader/peer/transfer.h"
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
}

TestSuite(taken, .init = begin, .fini = samples_end);

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
	clock_pass(TS_TAKEN_AFTER_NS);
	turn();
}

/* The number-th that is remembered, where one in TS_TAKEN_ONE_IN is. */
static struct node_value *remembered(uint32_t number)
{
	return sample_value((number + 1) * TS_TAKEN_ONE_IN - 1, 0);
}

static void expect_looks(uint64_t looked, uint64_t unused, uint64_t times)
{
	cr_expect(eq(u64, ts_load_relaxed(&told->looked), looked));
	cr_expect(eq(u64, ts_load_relaxed(&told->unused), unused));
	cr_expect(eq(u64, ts_load_relaxed(&told->times_unused), times));
}

static void expect_off_for(uint64_t ns)
{
	cr_expect(eq(u64, ts_load_relaxed(&told->unused_until), ts_now_ns() + ns));
}

static void go_off(void)
{
	give(TS_TAKEN_ONE_IN * TS_TAKEN_ROW);
	look();
	cr_assert(not(ts_mail_is_used(&node.mail)));
}

/* ---- going off -------------------------------------------------------------------------- */

Test(taken, what_no_node_takes_is_not_handed_over)
{
	give(TS_TAKEN_ONE_IN * TS_TAKEN_ROW - 1);
	clock_pass(TS_TAKEN_AFTER_NS - 1);
	turn();
	expect_looks(0, 0, 0);
	clock_pass(1);
	turn();
	expect_looks(TS_TAKEN_ROW - 1, TS_TAKEN_ROW - 1, 0);
	cr_expect(ts_mail_is_used(&node.mail));
	give(1);
	look();
	expect_looks(TS_TAKEN_ROW, TS_TAKEN_ROW, 1);
	expect_off_for(TS_MAIL_UNUSED_NS);
	cr_expect(not(ts_mail_is_used(&node.mail)));
	clock_pass(TS_MAIL_UNUSED_NS);
	cr_expect(ts_mail_is_used(&node.mail));
}

Test(taken, one_that_is_taken_begins_the_row_anew)
{
	give(TS_TAKEN_ONE_IN * TS_TAKEN_ROW);
	remembered(TS_TAKEN_ROW - 1)->fetched = true;
	look();
	expect_looks(TS_TAKEN_ROW, TS_TAKEN_ROW - 1, 0);
	give(TS_TAKEN_ONE_IN * (TS_TAKEN_ROW - 1));
	look();
	expect_looks(2 * TS_TAKEN_ROW - 1, 2 * TS_TAKEN_ROW - 2, 0);
	give(TS_TAKEN_ONE_IN);
	look();
	expect_looks(2 * TS_TAKEN_ROW, 2 * TS_TAKEN_ROW - 1, 1);
}

/* Who is behind wins few, and nobody takes these. */
Test(taken, one_that_comes_begins_the_row_anew)
{
	give(TS_TAKEN_ONE_IN * (TS_TAKEN_ROW - 1));
	look();
	cr_assert(eq(int, sample_seek(0), TS_MAIL_SAYS_GOT));
	give(TS_TAKEN_ONE_IN * (TS_TAKEN_ROW - 1));
	look();
	expect_looks(2 * (TS_TAKEN_ROW - 1), 2 * (TS_TAKEN_ROW - 1), 0);
	give(TS_TAKEN_ONE_IN);
	look();
	cr_expect(eq(u64, ts_load_relaxed(&told->times_unused), 1));
}

/* There is no more room, so each that is given makes the server lose old ones. */
static void give_to_full_server(uint32_t count)
{
	node.room = 1;
	clock_pass(TS_TRANSFER_KEEP_NS);
	give(count);
	turn();
	node.room = 0;
}

Test(taken, what_is_removed_is_looked_at_before)
{
	give(TS_TAKEN_ONE_IN * TS_TAKEN_ROW);
	remembered(0)->fetched = true;
	give_to_full_server(1);
	uint64_t removed = node_counter(&node, TS_MAIL_COUNT_REMOVED);
	cr_assert(ge(u64, removed, TS_TAKEN_ONE_IN));
	uint64_t looked = removed / TS_TAKEN_ONE_IN;
	expect_looks(looked, looked - 1, 0);
	/* And not again when its time has come; the others are. */
	look();
	expect_looks(TS_TAKEN_ROW, TS_TAKEN_ROW - 1, 0);
}

Test(taken, what_a_full_server_loses_untaken_is_not_handed_over)
{
	give(TS_TAKEN_ONE_IN * TS_TAKEN_ROW);
	while (ts_mail_is_used(&node.mail) && given < NODE_VALUES - TS_TAKEN_ONE_IN)
		give_to_full_server(1);
	expect_looks(TS_TAKEN_ROW, TS_TAKEN_ROW, 1);
	cr_expect(not(ts_mail_is_used(&node.mail)));
}

Test(taken, what_a_helper_removes_that_ends_is_not_looked_at)
{
	give(TS_TAKEN_ONE_IN * TS_TAKEN_ROW);
	while (ts_transfers_clear(node.transfers))
		turn();
	expect_looks(0, 0, 0);
	cr_expect(gt(uint, node.deleted, 0));
}

Test(taken, what_is_gone_or_another_nodes_counts_neither_way)
{
	give(TS_TAKEN_ONE_IN * TS_TAKEN_ROW);
	remembered(0)->key[0] = '\0';
	remembered(5)->cas = ++node.kept;
	remembered(6)->cas = ++node.kept;
	remembered(6)->fetched = true;
	look();
	expect_looks(TS_TAKEN_ROW - 3, TS_TAKEN_ROW - 3, 0);
	give(TS_TAKEN_ONE_IN * 3);
	look();
	expect_looks(TS_TAKEN_ROW, TS_TAKEN_ROW, 1);
}

Test(taken, what_a_server_does_not_tell_counts_neither_way)
{
	give(TS_TAKEN_ONE_IN * TS_TAKEN_ROW);
	node.is_silent = true;
	for (unsigned i = 0; i < TS_TAKEN_ROW; i++) {
		look();
		clock_pass(SECOND);
		turn();
	}
	expect_looks(0, 0, 0);
	node.is_silent = false;
	cr_expect(ts_mail_is_used(&node.mail));
}

/* ---- coming back ------------------------------------------------------------------------ */

/* So many samples and no more: then it is off until they were looked at. */
static void try(void)
{
	give(TS_TAKEN_ROW - 1);
	cr_expect(ts_mail_is_used(&node.mail));
	give(1);
	cr_expect(not(ts_mail_is_used(&node.mail)));
}

Test(taken, each_trial_is_followed_by_twice_the_time)
{
	static const uint64_t seconds[] = {60, 120, 120, 120};
	uint64_t looked = TS_TAKEN_ROW;

	go_off();
	clock_pass(TS_MAIL_UNUSED_NS);
	for (uint32_t i = 0; i < TS_ARRAY_SIZE(seconds); i++) {
		try();
		expect_looks(looked, looked, i + 1);
		/* Of those who had asked before. */
		give(3);
		look();
		looked += TS_TAKEN_ROW;
		expect_looks(looked, looked, i + 2);
		expect_off_for(seconds[i] * SECOND);
		clock_pass(seconds[i] * SECOND);
	}
	cr_expect(eq(u64, TS_MAIL_UNUSED_MAX_NS, 120 * SECOND));
}

Test(taken, a_trial_of_which_one_is_taken_is_the_last)
{
	go_off();
	clock_pass(TS_MAIL_UNUSED_NS);
	try();
	look();
	expect_off_for(2 * TS_MAIL_UNUSED_NS);
	clock_pass(2 * TS_MAIL_UNUSED_NS);
	try();
	sample_value(given - 1, 0)->fetched = true;
	look();
	cr_expect(eq(u64, ts_load_relaxed(&told->unused_until), 0));
	/* It begins from the start. */
	uint64_t looked = ts_load_relaxed(&told->looked);
	give(TS_TAKEN_ONE_IN * TS_TAKEN_ROW);
	look();
	cr_expect(eq(u64, ts_load_relaxed(&told->looked), looked + TS_TAKEN_ROW));
	expect_off_for(TS_MAIL_UNUSED_NS);
}

Test(taken, a_trial_in_which_one_comes_is_the_last)
{
	go_off();
	clock_pass(TS_MAIL_UNUSED_NS);
	cr_assert(eq(int, sample_seek(0), TS_MAIL_SAYS_GOT));
	give(TS_TAKEN_ROW);
	cr_expect(ts_mail_is_used(&node.mail));
	look();
	cr_expect(eq(u64, ts_load_relaxed(&told->looked),
		TS_TAKEN_ROW + TS_TAKEN_ROW / TS_TAKEN_ONE_IN));
}

Test(taken, a_trial_goes_on_until_enough_were_looked_at)
{
	go_off();
	clock_pass(TS_MAIL_UNUSED_NS);
	try();
	sample_value(given - 1, 0)->key[0] = '\0';
	sample_value(given - 2, 0)->key[0] = '\0';
	look();
	cr_expect(eq(u64, ts_load_relaxed(&told->times_unused), 1));
	clock_pass(SECOND);
	cr_expect(ts_mail_is_used(&node.mail));
	give(2);
	cr_expect(not(ts_mail_is_used(&node.mail)));
	look();
	cr_expect(eq(u64, ts_load_relaxed(&told->times_unused), 2));
	expect_off_for(2 * TS_MAIL_UNUSED_NS);
}

/* That nobody took it does not say that it is to be off for longer. */
Test(taken, what_was_stored_before_it_went_off_brings_it_back)
{
	give(TS_TAKEN_ONE_IN * TS_TAKEN_ROW);
	clock_pass(SECOND);
	give(TS_TAKEN_ONE_IN * (TS_TAKEN_ROW + 1));
	clock_pass(TS_TAKEN_AFTER_NS - SECOND);
	turn();
	expect_looks(TS_TAKEN_ROW, TS_TAKEN_ROW, 1);
	remembered(2 * TS_TAKEN_ROW)->fetched = true;
	clock_pass(SECOND);
	turn();
	expect_looks(2 * TS_TAKEN_ROW + 1, 2 * TS_TAKEN_ROW, 1);
	cr_expect(eq(u64, ts_load_relaxed(&told->unused_until), 0));
}

/* Of two nodes that are off each one's trial is in vain, if the other one asks for nothing. */
Test(taken, what_another_node_tells_of_is_tried_at_once)
{
	ts_transfers_note_heard(node.transfers);
	go_off();
	ts_transfers_note_heard(node.transfers);
	cr_expect(ts_mail_is_used(&node.mail));
	try();
	/* Not more than one at a time. */
	ts_transfers_note_heard(node.transfers);
	cr_expect(not(ts_mail_is_used(&node.mail)));
	look();
	expect_looks(2 * TS_TAKEN_ROW, 2 * TS_TAKEN_ROW, 2);
	expect_off_for(2 * TS_MAIL_UNUSED_NS);
}

/* In strict order nobody tells: some are looked for. */
Test(taken, what_is_found_at_another_node_is_tried_at_once)
{
	go_off();
	cr_expect(eq(int, sample_find(given), TS_MAIL_SAYS_NONE));
	cr_expect(not(ts_mail_is_used(&node.mail)));
	cr_expect(eq(int, sample_find(0), TS_MAIL_SAYS_GOT));
	cr_expect(ts_mail_is_used(&node.mail));
	/* That is a trial still: without another one it ends as ever. */
	try();
	look();
	expect_off_for(2 * TS_MAIL_UNUSED_NS);
	cr_expect(eq(int, sample_find(0), TS_MAIL_SAYS_GOT));
	cr_expect(eq(int, sample_seek(1), TS_MAIL_SAYS_GOT));
	give(TS_TAKEN_ROW);
	cr_expect(ts_mail_is_used(&node.mail), "two in a row are no trial any more");
}

Test(taken, what_is_found_while_a_trial_waits_has_one_more_handed_over)
{
	go_off();
	clock_pass(TS_MAIL_UNUSED_NS);
	try();
	cr_expect(eq(int, sample_find(0), TS_MAIL_SAYS_GOT));
	cr_expect(ts_mail_is_used(&node.mail));
	give(1);
	cr_expect(not(ts_mail_is_used(&node.mail)));
	cr_expect(eq(int, sample_find(0), TS_MAIL_SAYS_GOT));
	cr_expect(eq(int, sample_seek(1), TS_MAIL_SAYS_GOT));
	give(TS_TAKEN_ROW);
	cr_expect(ts_mail_is_used(&node.mail));
}

/* Of one that was looked for when it was off, and comes later. */
Test(taken, what_is_found_in_a_trial_is_its_end)
{
	go_off();
	clock_pass(TS_MAIL_UNUSED_NS);
	give(TS_TAKEN_ROW - 1);
	cr_expect(eq(int, sample_find(0), TS_MAIL_SAYS_GOT));
	give(TS_TAKEN_ROW);
	cr_expect(ts_mail_is_used(&node.mail));
}

Test(taken, when_no_job_is_left_all_begins_anew)
{
	static struct ts_taken next;

	go_off();
	cr_assert(ts_transfers_clear(node.transfers));
	cr_expect(eq(u64, ts_load_relaxed(&told->unused_until), 0));
	turn();
	ts_taken_begin(&next, &node.mail, node.pool);
	cr_expect(not(next.is_trial));
	/* Nor is it a trial where another job has come after all. */
	give(TS_TAKEN_ROW);
	cr_expect(ts_mail_is_used(&node.mail));
}

Test(taken, the_next_helper_begins_with_a_trial)
{
	static struct ts_taken next;

	go_off();
	ts_taken_begin(&next, &node.mail, node.pool);
	clock_pass(TS_MAIL_UNUSED_NS);
	for (uint32_t i = 0; i < TS_TAKEN_ROW; i++) {
		cr_expect(ts_mail_is_used(&node.mail));
		ts_taken_note_stored(&next, "name", 1);
	}
	cr_expect(not(ts_mail_is_used(&node.mail)));
}

/* ---- what is remembered ----------------------------------------------------------------- */

Test(taken, what_has_no_number_is_not_looked_at)
{
	static struct ts_taken all;

	ts_taken_begin(&all, &node.mail, node.pool);
	for (uint32_t i = 0; i < 100 * TS_TAKEN_ONE_IN; i++)
		ts_taken_note_stored(&all, "name", 0);
	cr_expect(eq(u64, ts_taken_deadline(&all), UINT64_MAX));
	for (uint32_t i = 0; i < TS_TAKEN_ONE_IN; i++)
		ts_taken_note_stored(&all, "name", 1);
	cr_expect(eq(u64, ts_taken_deadline(&all), ts_now_ns() + TS_TAKEN_AFTER_NS));
}

Test(taken, so_many_are_remembered_and_no_more)
{
	static struct ts_taken all;

	ts_taken_begin(&all, &node.mail, node.pool);
	for (uint32_t i = 0; i < TS_TAKEN_ONE_IN * (TS_TAKEN_KEPT + 5); i++)
		ts_taken_note_stored(&all, "name", 1);
	cr_expect(eq(u64, all.end - all.first, TS_TAKEN_KEPT));
}
