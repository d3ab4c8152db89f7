/* SPDX-License-Identifier: MIT */
/* The free order where other nodes tell what they made: what of that is chosen, and when. */
#include "orders.h"

#include "hooks/torch/samples_private.h"
#include "leader/journal/journal.h"
#include "leader/mail/mail.h"
#include "shim/sys.h"
#include "tests/unit/across.h"
#include "tests/unit/clock.h"

#include <stdlib.h>
#include <unistd.h>

static struct ts_mail mail;

/* A helper is there, and the virtual clock of this process. */
static void init(void)
{
	across_set();
	torch_init();
	across_serve(fixture_enter()->store, &mail);
	clock_begin();
}

static void finish(void)
{
	clock_end();
	fixture_finish();
}

TestSuite(order_told, .init = init, .fini = finish);

/* Another node tells that a job of its own at @epoch made that. */
static void tell_again(int64_t index, uint32_t occurrence, uint32_t draw, uint32_t epoch)
{
	struct ts_note_made note = {.tag = ts_note_tag(ORDER_TAG, occurrence),
		.index = (uint32_t)index,
		.draw = draw,
		.epoch = epoch};
	struct ts_journal *journal;

	cr_assert(eq(int, ts_journal_attach(fixture_enter()->store, &journal), 0));
	ts_journal_tell(journal, &note);
}

static void tell(int64_t index, uint32_t draw, uint32_t epoch)
{
	tell_again(index, 0, draw, epoch);
}

Test(order_told, what_this_node_has_comes_first_then_what_others_have_then_the_own_order)
{
	struct ts_order *order = order_begun(0);

	tell(order_own[9], 0, 0);
	tell(order_own[5], 0, 0);
	order_make(order_own[20], 0, 0);
	order_expect_next(order, order_own[20], 0);
	order_expect_next(order, order_own[5], 0);
	tell(order_own[7], 0, 0);
	order_expect_next(order, order_own[7], 0);
	order_make(order_own[8], 0, 0);
	order_expect_next(order, order_own[8], 0);
	order_expect_next(order, order_own[9], 0);
	order_expect_next(order, order_own[0], 0);
	tsshim_order_destroy(order);
}

Test(order_told, each_comes_once_and_no_draw_comes_again)
{
	struct ts_order *order = order_begun(0);
	int64_t indices[ORDER_COUNT];
	uint32_t draws[ORDER_COUNT];

	for (int i = 0; i < 3; i++)
		tell(order_own[4], 0, 0);
	order_expect_next(order, order_own[4], 0);
	order_expect_next(order, order_own[0], 0);
	tell(order_own[0], 0, 0); /* had already */
	order_expect_next(order, order_own[1], 0);
	/* Again in the epoch, by another draw. */
	tell(order_own[4], 1, 0);
	order_expect_next(order, order_own[2], 0);
	cr_assert(eq(u64, order_choose(order, ORDER_COUNT, indices, draws), ORDER_COUNT - 4));
	order_expect_end(order);
	/* In the next epoch what was told is looked through again. */
	cr_assert(eq(int, tsshim_order_begin(order, order_own, ORDER_COUNT, 1, ORDER_TAG), 0));
	tell(order_own[6], 0, 0); /* that draw was had */
	order_expect_next(order, order_own[4], 1);
	order_expect_next(order, order_own[0], 1);
	tsshim_order_destroy(order);
}

Test(order_told, every_index_comes_once_whatever_others_tell)
{
	struct ts_order *order = order_begun(3);
	int64_t indices[ORDER_COUNT];
	uint32_t draws[ORDER_COUNT];
	bool seen[ORDER_COUNT] = {false};

	for (uint32_t i = 0; i < ORDER_COUNT; i++) {
		tell(i, 4, 5); /* nobody makes for an epoch that is over */
		tell(i + ORDER_COUNT, 3, 3);
		tell(UINT32_MAX - i, 3, 3);
		tell(i, UINT32_MAX, 3);
		tell_again(i, 1, 3, 3);
		if (i % 2 == 0)
			tell(i, 7 + i, 3);
	}
	cr_assert(eq(u64, order_choose(order, ORDER_COUNT, indices, draws), ORDER_COUNT));
	for (uint32_t i = 0; i < ORDER_COUNT; i++) {
		cr_assert(not(seen[indices[i]]));
		seen[indices[i]] = true;
		cr_expect(
			eq(u32, draws[i], indices[i] % 2 == 0 ? (uint32_t)indices[i] + 7 : 3));
	}
	order_expect_end(order);
	tsshim_order_destroy(order);
}

Test(order_told, an_occurrence_is_an_item_of_its_own)
{
	struct ts_order *order = order_begun(0);
	const int64_t twice[] = {5, 6, 5};

	cr_assert(eq(int, tsshim_order_begin(order, twice, 3, 0, ORDER_TAG), 0));
	tell_again(5, 1, 2, 0);
	order_expect_item(order, 5, 1, 2);
	order_expect_item(order, 5, 0, 0);
	order_expect_item(order, 6, 0, 0);
	tsshim_order_destroy(order);
}

Test(order_told, what_is_told_of_who_is_in_front_is_believed)
{
	struct ts_order *order = order_begun(1);

	tell(order_own[4], 6, 5);
	order_expect_next(order, order_own[4], 6);
	order_expect_next(order, order_own[0], 5);
	/* Of what it lacks or not. */
	tell(order_own[4], 9, 8);
	order_expect_next(order, order_own[1], 8);
	tsshim_order_destroy(order);
}

/* So far that its own draws would pass the largest number, and begin again. */
Test(order_told, who_is_said_to_be_beyond_all_epochs_is_not_believed)
{
	struct ts_order *order = order_begun(1);

	for (uint32_t draw = TS_ORDER_NO_DRAW - 1; draw > TS_ORDER_NO_DRAW / 2;
		draw -= draw / 4)
		tell(order_own[4], draw, draw);
	order_expect_next(order, order_own[0], 1);
	tell(order_own[5], TS_ORDER_NO_DRAW / 2, TS_ORDER_NO_DRAW / 2);
	order_expect_next(order, order_own[5], TS_ORDER_NO_DRAW / 2);
	cr_assert(eq(int, tsshim_order_begin(order, order_own, 6, 2, ORDER_TAG), 0));
	/* The first was drawn for an earlier epoch; each of these never. */
	for (uint32_t i = 0; i < 5; i++)
		order_expect_next(order, order_own[i], TS_ORDER_NO_DRAW / 2);
	order_expect_next(order, order_own[5], TS_ORDER_NO_DRAW / 2 + 1);
	tsshim_order_destroy(order);
}

Test(order_told, what_was_told_long_ago_is_not_asked_for)
{
	struct ts_order *order = order_begun(0);

	tell(order_own[9], 0, 0);
	tell(order_own[8], 7, 7);
	clock_pass(TS_JOURNAL_TOLD_NS / 2);
	tell(order_own[5], 0, 0);
	clock_pass(TS_JOURNAL_TOLD_NS / 2 + (2 << 20));
	/* Who reads it only now does not believe that somebody is in front, either. */
	order_expect_next(order, order_own[5], 0);
	order_expect_next(order, order_own[0], 0);
	/* Nor does who has read it in time. */
	tell(order_own[20], 0, 0);
	tell(order_own[21], 0, 0);
	order_expect_next(order, order_own[21], 0);
	clock_pass(TS_JOURNAL_TOLD_NS + (2 << 20));
	order_expect_next(order, order_own[1], 0);
	tsshim_order_destroy(order);
}

/* So long nobody asks other nodes: what they have would be made here. */
Test(order_told, nothing_is_chosen_of_it_while_it_does_not_pay)
{
	struct ts_order *order = order_begun(0);

	tell(order_own[9], 5, 5);
	tell(order_own[8], 0, 0);
	ts_write_relaxed(&mail.table->samples.worth.off_until, ts_now_ns() + 1000000);
	order_expect_next(order, order_own[0], 0);
	clock_pass(2000000);
	order_expect_next(order, order_own[8], 0);
	order_expect_next(order, order_own[9], 5);
	tell(order_own[20], 0, 0);
	ts_write_release(&mail.table->helper, 0);
	order_expect_next(order, order_own[1], 5);
	tsshim_order_destroy(order);
}

static void init_alone(void)
{
	torch_init();
}

/* A job that asks no other node, beside others of its group that do. */
Test(order_told_alone, nothing_is_chosen_of_it, .init = init_alone, .fini = fixture_finish)
{
	struct ts_order *order = order_begun(0);

	across_serve(fixture_enter()->store, &mail);
	tell(order_own[9], 5, 5);
	order_expect_next(order, order_own[0], 0);
	tsshim_order_destroy(order);
}
