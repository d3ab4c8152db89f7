/* SPDX-License-Identifier: MIT */
/* Free orders of one loader beside each other, as iterators that live at a time have them. */
#include "orders.h"

TestSuite(order_beside, .init = torch_init, .fini = fixture_finish);

/* An order beside @order whose @epoch begins. */
static struct ts_order *begun_beside(struct ts_order *order, uint32_t epoch)
{
	struct ts_order *other = tsshim_order_create(order);

	cr_assert(other != NULL);
	cr_assert(eq(
		int, tsshim_order_begin(other, order_own, ORDER_COUNT, epoch, ORDER_TAG), 0));
	return other;
}

/* All that is left of an epoch of a lone job is of its own order, with its own draws. */
static void expect_own(struct ts_order *order, int from, uint32_t draw)
{
	for (int i = from; i < ORDER_COUNT; i++)
		order_expect_next(order, order_own[i], draw);
	order_expect_end(order);
}

Test(order_beside, each_lacks_items_of_its_own)
{
	struct ts_order *outer = order_begun(0);

	order_expect_next(outer, order_own[0], 0);
	struct ts_order *inner = begun_beside(outer, 1);
	expect_own(inner, 0, 1);
	expect_own(outer, 1, 0);
	struct ts_order *third = begun_beside(inner, 2);
	tsshim_order_destroy(inner);
	expect_own(third, 0, 2);
	tsshim_order_destroy(outer);
	tsshim_order_destroy(third);
}

Test(order_beside, none_takes_what_another_one_has_taken)
{
	struct ts_order *one = order_begun(0), *other = begun_beside(one, 1);

	for (int i = 0; i < ORDER_COUNT; i++)
		order_make(order_own[i], 5, 5);
	order_expect_next(one, order_own[ORDER_COUNT - 1], 5);
	order_expect_next(other, order_own[ORDER_COUNT - 2], 5);
	order_expect_next(other, order_own[ORDER_COUNT - 3], 5);
	order_expect_next(one, order_own[ORDER_COUNT - 4], 5);
	int64_t indices[ORDER_COUNT];
	uint32_t draws[ORDER_COUNT];
	cr_assert(eq(u64, order_choose(one, ORDER_COUNT - 4, indices, draws), ORDER_COUNT - 4));
	for (int i = 0; i < ORDER_COUNT - 4; i++)
		cr_expect(eq(u32, draws[i], 5));
	/* What is left the other one has taken: the draw behind that. */
	order_expect_next(one, order_own[ORDER_COUNT - 3], 6);
	order_expect_next(one, order_own[ORDER_COUNT - 2], 6);
	order_expect_end(one);
	order_expect_next(other, order_own[0], 6);
	tsshim_order_destroy(one);
	tsshim_order_destroy(other);
}

Test(order_beside, later_epochs_know_what_all_had)
{
	struct ts_order *one = order_begun(0), *other = begun_beside(one, 1);
	const int64_t twice[] = {5, 5};

	order_make(5, 7, 7);
	order_expect_next(one, 5, 7);
	order_make(6, 8, 8);
	order_expect_next(other, 6, 8);
	struct ts_order *later = begun_beside(one, 2);
	order_make(7, 8, 8);
	order_expect_next(later, 7, 8);
	order_expect_next(later, order_own[0], 8);
	/* Of further times of an index as well. */
	cr_assert(eq(int, tsshim_order_begin(one, twice, 2, 9, ORDER_TAG), 0));
	order_expect_item(one, 5, 0, 9);
	order_expect_item(one, 5, 1, 9);
	tsshim_order_destroy(other);
	cr_assert(eq(int, tsshim_order_begin(later, twice, 2, 10, ORDER_TAG), 0));
	order_make_again(5, 1, 9, 9);
	order_make_again(5, 1, 10, 10);
	order_expect_item(later, 5, 1, 10);
	order_expect_item(later, 5, 0, 10);
	tsshim_order_destroy(one);
	tsshim_order_destroy(later);
}

Test(order_beside, an_epoch_before_another_one_is_drawn_anew)
{
	struct ts_order *one = order_begun(5), *other = begun_beside(one, 3);

	expect_own(other, 0, 3);
	expect_own(one, 0, 5);
	tsshim_order_destroy(one);
	tsshim_order_destroy(other);
}
