/* SPDX-License-Identifier: MIT */
/* The free order: what comes next, of what others made and of one's own. */
#include "orders.h"

#include "hooks/torch/samples_private.h"
#include "leader/journal/journal_private.h"

#include <stdlib.h>
#include <string.h>

TestSuite(order, .init = torch_init, .fini = fixture_finish);

Test(order, who_is_alone_has_its_own)
{
	struct ts_order *order = order_begun(0);
	int64_t indices[ORDER_COUNT];
	uint32_t draws[ORDER_COUNT];

	for (uint32_t epoch = 0; epoch < 3; epoch++) {
		cr_assert(eq(int,
			tsshim_order_begin(order, order_own, ORDER_COUNT, epoch, ORDER_TAG),
			0));
		cr_assert(eq(u64, order_choose(order, ORDER_COUNT - 7, indices, draws),
			ORDER_COUNT - 7));
		cr_assert(eq(u64,
			order_choose(order, ORDER_COUNT, indices + ORDER_COUNT - 7,
				draws + ORDER_COUNT - 7),
			7));
		for (int i = 0; i < ORDER_COUNT; i++) {
			cr_expect(eq(i64, indices[i], order_own[i]));
			cr_expect(eq(u32, draws[i], epoch));
		}
		cr_expect(eq(u64, order_choose(order, ORDER_COUNT, indices, draws), 0));
	}
	tsshim_order_destroy(order);
}

Test(order, the_newest_that_is_lacking_comes_first)
{
	struct ts_order *order = order_begun(0);

	order_make(order_own[9], 0, 0);
	order_make(order_own[5], 0, 0);
	order_expect_next(order, order_own[5], 0);
	order_make(order_own[20], 0, 0);
	order_expect_next(order, order_own[20], 0);
	order_expect_next(order, order_own[9], 0);
	order_expect_next(order, order_own[0], 0);
	order_make(order_own[0], 0, 0); /* had already */
	order_expect_next(order, order_own[1], 0);
	tsshim_order_destroy(order);
}

Test(order, who_is_behind_draws_as_the_one_in_front)
{
	struct ts_order *order = order_begun(1);

	order_make(order_own[4], 6, 5);
	order_expect_next(order, order_own[4], 6);
	order_expect_next(order, order_own[0], 5);
	/* The next epoch: that draw of own[4] was had, the one after it was not. */
	cr_assert(eq(int, tsshim_order_begin(order, order_own, ORDER_COUNT, 2, ORDER_TAG), 0));
	order_expect_next(order, order_own[0], 6);
	order_make(order_own[1], 5, 5);
	order_expect_next(order, order_own[1], 5);
	order_expect_next(order, order_own[2], 5);
	order_expect_next(order, order_own[3], 5);
	order_expect_next(order, order_own[4], 7);
	tsshim_order_destroy(order);
}

Test(order, every_index_comes_once_whatever_the_journal_says)
{
	struct ts_order *order = order_begun(3);
	int64_t indices[ORDER_COUNT];
	uint32_t draws[ORDER_COUNT];
	bool seen[ORDER_COUNT] = {false};

	for (int i = 0; i < ORDER_COUNT; i += 2) {
		order_make(i, 4, 3);
		order_make(i, 3, 3);
	}
	for (uint32_t i = 0; i < ORDER_COUNT; i++) {
		order_say(ORDER_TAG, i, 9, 3); /* no such record */
		order_say(ORDER_TAG, i, 4, 5); /* nobody makes for an epoch that is over */
		order_say(ORDER_TAG, i + ORDER_COUNT, 3, 3); /* no such index */
		order_say(ORDER_TAG, UINT32_MAX - i, 3, 3);
		order_say(ORDER_TAG, i, UINT32_MAX, 3);
		order_say(ORDER_TAG, i, UINT32_MAX - 1, UINT32_MAX - 1);
		order_say(ORDER_TAG + 1, i, 3, 3); /* of others */
	}
	cr_assert(eq(u64, order_choose(order, ORDER_COUNT, indices, draws), ORDER_COUNT));
	for (int i = 0; i < ORDER_COUNT; i++) {
		cr_assert(indices[i] >= 0 && indices[i] < ORDER_COUNT && !seen[indices[i]]);
		seen[indices[i]] = true;
		cr_expect(eq(u32, draws[i], 3),
			"of the odd ones as of the even ones, the newest");
	}
	cr_expect(eq(u64, order_choose(order, 1, indices, draws), 0));
	tsshim_order_destroy(order);
}

Test(order, a_record_that_is_gone_is_passed_by)
{
	struct ts_order *order = order_begun(0);

	order_make(order_own[30], 0, 0);
	/* A ring of 8 MiB is full of others' by then. */
	for (int64_t i = 0; i < 12000; i++) {
		torch_capture();
		order_make(ORDER_COUNT + i, 0, 0);
	}
	order_expect_next(order, order_own[0], 0);
	tsshim_order_destroy(order);
}

Test(order, an_index_comes_again_as_often_as_its_sampler_gives_it)
{
	struct ts_order *order = order_begun(0);
	const int64_t indices[] = {5, 6, 5, 7, 5};

	cr_assert(eq(int, tsshim_order_begin(order, indices, 5, 2, ORDER_TAG), 0));
	order_make(7, 2, 2);
	order_make(5, 3, 2);
	order_expect_next(order, 5, 3);
	order_expect_next(order, 7, 2);
	order_expect_next(order, 6, 2);
	order_expect_item(order, 5, 1, 2);
	order_expect_item(order, 5, 2, 2);
	order_expect_end(order);
	tsshim_order_destroy(order);
}

Test(order, each_time_of_an_index_is_shared_apart)
{
	struct ts_order *order = order_begun(0);
	const int64_t indices[] = {5, 6, 5, 7, 5}, fewer[] = {5, 5, 8};

	cr_assert(eq(int, tsshim_order_begin(order, indices, 5, 2, ORDER_TAG), 0));
	order_make_again(5, 2, 4, 4); /* by one in front */
	order_make_again(5, 3, 4, 4); /* comes no fourth time here */
	order_make_again(6, 1, 4, 4); /* nor a second */
	order_expect_item(order, 5, 2, 4);
	order_expect_item(order, 5, 0, 4);
	order_expect_item(order, 6, 0, 4);
	order_make_again(5, 1, 3, 3);
	order_expect_item(order, 5, 1, 3);
	order_expect_item(order, 7, 0, 4);
	order_expect_end(order);
	/* Each has draws of its own: the second time's 4 was not had yet, the first one's was.
	 */
	cr_assert(eq(int, tsshim_order_begin(order, fewer, 3, 3, ORDER_TAG), 0));
	order_expect_item(order, 5, 0, 5);
	order_expect_item(order, 5, 1, 4);
	order_expect_item(order, 8, 0, 4);
	order_expect_end(order);
	tsshim_order_destroy(order);
}

Test(order, what_comes_again_often_is_found_again)
{
	static int64_t same[30000];
	struct ts_order *order = order_begun(0);
	bool seen[10000];

	for (uint32_t i = 0; i < TS_ARRAY_SIZE(same); i++)
		same[i] = i % 3;
	for (uint32_t epoch = 0; epoch < 3; epoch++) {
		memset(seen, 0, sizeof(seen));
		cr_assert(eq(int,
			tsshim_order_begin(order, same, TS_ARRAY_SIZE(same), epoch, ORDER_TAG),
			0));
		order_make_again(1, 9876, epoch, epoch);
		order_expect_item(order, 1, 9876, epoch);
		for (uint32_t i = 0; i < TS_ARRAY_SIZE(same); i++) {
			if (i / 3 != 9876 || i % 3 != 1)
				order_expect_item(order, i % 3, i / 3, epoch);
		}
		order_expect_end(order);
	}
	tsshim_order_destroy(order);
}

Test(order, a_note_of_another_tag_is_none_of_any_time)
{
	uint32_t occurrence;

	for (uint32_t i = 0; i < TS_NOTE_OCCURRENCES; i += 113) {
		cr_assert(ts_note_is_of(ts_note_tag(ORDER_TAG, i), ORDER_TAG, &occurrence));
		cr_assert(eq(u32, occurrence, i));
		cr_assert(not(ts_note_is_of(
			ts_note_tag(ORDER_TAG, i), ORDER_TAG + 1 + i, &occurrence)));
	}
	cr_expect(eq(u64, ts_note_tag(ORDER_TAG, TS_NOTE_OCCURRENCES), 0));
	cr_expect(eq(u64, ts_note_tag(0, 3), 0));
}

Test(order, an_epoch_again_is_drawn_again)
{
	struct ts_order *order = order_begun(4);

	order_expect_next(order, order_own[0], 4);
	cr_assert(eq(int, tsshim_order_begin(order, order_own, ORDER_COUNT, 4, ORDER_TAG), 0));
	order_expect_next(order, order_own[0], 4);
	cr_assert(eq(int, tsshim_order_begin(order, order_own, ORDER_COUNT, 1, ORDER_TAG), 0));
	order_expect_next(order, order_own[0], 1);
	tsshim_order_destroy(order);
}

Test(order, indices_that_are_none_are_refused)
{
	struct ts_order *order = order_begun(0);
	const int64_t negative[] = {1, -1}, large[] = {INT64_C(1) << 31};

	cr_expect(eq(int, tsshim_order_begin(order, negative, 2, 1, ORDER_TAG), -ERANGE));
	cr_expect(eq(int, tsshim_order_begin(order, large, 1, 1, ORDER_TAG), -ERANGE));
	order_expect_next(order, order_own[0], 0);
	cr_expect(eq(int, tsshim_order_begin(order, NULL, 0, 1, ORDER_TAG), 0));
	int64_t none[1];
	uint32_t draws[1];
	cr_expect(eq(u64, order_choose(order, 1, none, draws), 0));
	tsshim_order_destroy(order);
}

Test(order, a_recording_comes_before_the_rule)
{
	struct ts_order *order = order_begun(0);
	const int64_t indices[] = {5, 6, 5, 7, 5};

	cr_assert(eq(int, tsshim_order_begin(order, indices, 5, 2, ORDER_TAG), 0));
	cr_expect(eq(int, tsshim_order_had(order, 7, 0, 9), 0));
	cr_expect(eq(int, tsshim_order_had(order, 7, 0, 10), -ENOENT), "it came");
	cr_expect(eq(int, tsshim_order_had(order, 7, 1, 10), -ENOENT), "it comes once");
	cr_expect(eq(int, tsshim_order_had(order, 8, 0, 2), -ENOENT), "nobody's");
	cr_expect(eq(int, tsshim_order_had(order, -1, 0, 2), -ENOENT));
	cr_expect(eq(int, tsshim_order_had(order, INT64_C(1) << 40, 0, 2), -ENOENT));
	cr_expect(eq(int, tsshim_order_had(order, 5, 2, 2), 0));
	cr_expect(eq(int, tsshim_order_had(order, 5, 0, 2), 0), "again");
	order_expect_next(order, 6, 2);
	order_expect_item(order, 5, 1, 2);
	order_expect_end(order);
	/* The draw was had. */
	cr_assert(eq(int, tsshim_order_begin(order, indices, 5, 3, ORDER_TAG), 0));
	cr_expect(eq(int, tsshim_order_had(order, 6, 0, 3), 0));
	order_expect_next(order, 5, 3);
	order_expect_item(order, 5, 1, 3);
	order_expect_next(order, 7, 10);
	tsshim_order_destroy(order);
}

Test(order, what_this_job_made_itself_changes_nothing)
{
	struct ts_order *order = order_begun(0);
	struct ts_note_made note;
	struct ts_journal *journal;

	order_make_noted(order_own[9], 0, 4, 4, true);
	cr_assert(eq(int, ts_journal_attach(fixture_enter()->store, &journal), 0));
	cr_assert(eq(u64, ts_journal_end(journal), 1));
	cr_assert(ts_journal_read(journal, 0, &note));
	cr_expect(note.mine && note.tag == ORDER_TAG && note.index == (uint32_t)order_own[9] &&
		  note.draw == 4 && note.epoch == 4);
	order_expect_next(order, order_own[0], 0);
	tsshim_order_destroy(order);
}

Test(order, nobodys_notes)
{
	struct ts_order *order = order_begun(0);

	order_make(order_own[9], 0, 0);
	cr_assert(eq(int, tsshim_order_begin(order, order_own, ORDER_COUNT, 1, 0), 0));
	order_expect_next(order, order_own[0], 1);
	tsshim_order_destroy(order);
}
