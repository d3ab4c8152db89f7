/* SPDX-License-Identifier: MIT */
/* The free order: what comes next, of what others made and of one's own. */
#include "fixture.h"

#include "hooks/torch/order.h"
#include "hooks/torch/samples_private.h"
#include "leader/journal/journal_private.h"

#include <stdlib.h>
#include <string.h>

#define TAG     UINT64_C(99)
#define COUNT   40
#define PAYLOAD UINT64_C(1000)

TestSuite(order, .init = torch_init, .fini = fixture_finish);

static int64_t own[COUNT]; /* the own order of all jobs here */

/* The scope of the samples of @draw. */
static void name_scope(uint32_t draw, unsigned char ret_scope[16])
{
	memset(ret_scope, 0, 16);
	memcpy(ret_scope, &draw, sizeof(draw));
	ret_scope[15] = 1;
}

static struct ts_order *begun(uint32_t epoch)
{
	struct ts_order *order = tsshim_order_create();

	cr_assert(order != NULL);
	for (int i = 0; i < COUNT; i++)
		own[i] = (i * 7 + 3) % COUNT;
	cr_assert(eq(int, tsshim_order_begin(order, own, COUNT, epoch, TAG), 0));
	return order;
}

static uint32_t occurrences[COUNT]; /* of what was chosen last */

/* Choose so many, and say the scopes that are wanted. */
static uint64_t choose(
	struct ts_order *order, uint64_t count, int64_t *indices, uint32_t *draws)
{
	uint64_t chosen = 0;
	unsigned char scope[16];
	uint32_t wanted;

	cr_assert(le(u64, count, COUNT));
	for (;;) {
		chosen = tsshim_order_choose(
			order, chosen, count, indices, occurrences, draws, &wanted);
		if (wanted == TS_ORDER_NO_DRAW)
			return chosen;
		name_scope(wanted, scope);
		tsshim_order_scope(order, wanted, scope);
	}
}

static void expect_item(
	struct ts_order *order, int64_t index, uint32_t occurrence, uint32_t draw)
{
	int64_t indices[1];
	uint32_t draws[1];

	cr_assert(eq(u64, choose(order, 1, indices, draws), 1));
	cr_expect(eq(i64, indices[0], index));
	cr_expect(eq(u32, draws[0], draw));
	cr_expect(eq(u32, occurrences[0], occurrence));
}

static void expect_next(struct ts_order *order, int64_t index, uint32_t draw)
{
	expect_item(order, index, 0, draw);
}

/* Another job says that it made it. */
static void say(uint64_t tag, uint32_t index, uint32_t draw, uint32_t epoch)
{
	struct ts_note_made note = {.tag = tag, .index = index, .draw = draw, .epoch = epoch};
	struct ts_journal *journal;

	cr_assert(eq(int, ts_journal_attach(fixture_enter()->store, &journal), 0));
	struct ts_journal others = *journal;
	others.job++;
	ts_journal_write(&others, &note);
}

/* Somebody at @epoch makes @index for @draw; @noted: this job itself, which notes that. */
static void make_noted(
	int64_t index, uint32_t occurrence, uint32_t draw, uint32_t epoch, bool noted)
{
	static struct ts_sample *sample;
	unsigned char scope[16], name[9] = {'i'};

	if (!sample)
		sample = torch_sample();
	name_scope(draw, scope);
	memcpy(name + 1, &index, sizeof(index));
	tsshim_sample_name(sample, scope, torch_stream, name, sizeof(name), occurrence, 0);
	if (noted)
		tsshim_sample_note(sample, TAG, (uint32_t)index, draw, epoch);
	cr_assert(eq(int, tsshim_sample_take(sample, 0), TS_CLAIM));
	torch_publish(sample, PAYLOAD, 1);
}

static void make(int64_t index, uint32_t draw, uint32_t epoch)
{
	make_noted(index, 0, draw, epoch, false);
	say(TAG, (uint32_t)index, draw, epoch);
}

static void make_again(int64_t index, uint32_t occurrence, uint32_t draw, uint32_t epoch)
{
	make_noted(index, occurrence, draw, epoch, false);
	say(ts_note_tag(TAG, occurrence), (uint32_t)index, draw, epoch);
}

Test(order, who_is_alone_has_its_own)
{
	struct ts_order *order = begun(0);
	int64_t indices[COUNT];
	uint32_t draws[COUNT];

	for (uint32_t epoch = 0; epoch < 3; epoch++) {
		cr_assert(eq(int, tsshim_order_begin(order, own, COUNT, epoch, TAG), 0));
		cr_assert(eq(u64, choose(order, COUNT - 7, indices, draws), COUNT - 7));
		cr_assert(eq(
			u64, choose(order, COUNT, indices + COUNT - 7, draws + COUNT - 7), 7));
		for (int i = 0; i < COUNT; i++) {
			cr_expect(eq(i64, indices[i], own[i]));
			cr_expect(eq(u32, draws[i], epoch));
		}
		cr_expect(eq(u64, choose(order, COUNT, indices, draws), 0));
	}
	tsshim_order_destroy(order);
}

Test(order, the_newest_that_is_lacking_comes_first)
{
	struct ts_order *order = begun(0);

	make(own[9], 0, 0);
	make(own[5], 0, 0);
	expect_next(order, own[5], 0);
	make(own[20], 0, 0);
	expect_next(order, own[20], 0);
	expect_next(order, own[9], 0);
	expect_next(order, own[0], 0);
	make(own[0], 0, 0); /* had already */
	expect_next(order, own[1], 0);
	tsshim_order_destroy(order);
}

Test(order, who_is_behind_draws_as_the_one_in_front)
{
	struct ts_order *order = begun(1);

	make(own[4], 6, 5);
	expect_next(order, own[4], 6);
	expect_next(order, own[0], 5);
	/* The next epoch: that draw of own[4] was had, the one after it was not. */
	cr_assert(eq(int, tsshim_order_begin(order, own, COUNT, 2, TAG), 0));
	expect_next(order, own[0], 6);
	make(own[1], 5, 5);
	expect_next(order, own[1], 5);
	expect_next(order, own[2], 5);
	expect_next(order, own[3], 5);
	expect_next(order, own[4], 7);
	tsshim_order_destroy(order);
}

Test(order, every_index_comes_once_whatever_the_journal_says)
{
	struct ts_order *order = begun(3);
	int64_t indices[COUNT];
	uint32_t draws[COUNT];
	bool seen[COUNT] = {false};

	for (int i = 0; i < COUNT; i += 2) {
		make(i, 4, 3);
		make(i, 3, 3);
	}
	for (uint32_t i = 0; i < COUNT; i++) {
		say(TAG, i, 9, 3);         /* no such record */
		say(TAG, i, 4, 5);         /* nobody makes for an epoch that is over */
		say(TAG, i + COUNT, 3, 3); /* no such index */
		say(TAG, UINT32_MAX - i, 3, 3);
		say(TAG, i, UINT32_MAX, 3);
		say(TAG, i, UINT32_MAX - 1, UINT32_MAX - 1);
		say(TAG + 1, i, 3, 3); /* of others */
	}
	cr_assert(eq(u64, choose(order, COUNT, indices, draws), COUNT));
	for (int i = 0; i < COUNT; i++) {
		cr_assert(indices[i] >= 0 && indices[i] < COUNT && !seen[indices[i]]);
		seen[indices[i]] = true;
		cr_expect(eq(u32, draws[i], 3),
			"of the odd ones as of the even ones, the newest");
	}
	cr_expect(eq(u64, choose(order, 1, indices, draws), 0));
	tsshim_order_destroy(order);
}

Test(order, a_record_that_is_gone_is_passed_by)
{
	struct ts_order *order = begun(0);

	make(own[30], 0, 0);
	/* A ring of 8 MiB is full of others' by then. */
	for (int64_t i = 0; i < 12000; i++) {
		torch_capture();
		make(COUNT + i, 0, 0);
	}
	expect_next(order, own[0], 0);
	tsshim_order_destroy(order);
}

static void expect_end(struct ts_order *order)
{
	int64_t none[1];
	uint32_t draws[1];

	cr_expect(eq(u64, choose(order, 1, none, draws), 0));
}

Test(order, an_index_comes_again_as_often_as_its_sampler_gives_it)
{
	struct ts_order *order = begun(0);
	const int64_t indices[] = {5, 6, 5, 7, 5};

	cr_assert(eq(int, tsshim_order_begin(order, indices, 5, 2, TAG), 0));
	make(7, 2, 2);
	make(5, 3, 2);
	expect_next(order, 5, 3);
	expect_next(order, 7, 2);
	expect_next(order, 6, 2);
	expect_item(order, 5, 1, 2);
	expect_item(order, 5, 2, 2);
	expect_end(order);
	tsshim_order_destroy(order);
}

Test(order, each_time_of_an_index_is_shared_apart)
{
	struct ts_order *order = begun(0);
	const int64_t indices[] = {5, 6, 5, 7, 5}, fewer[] = {5, 5, 8};

	cr_assert(eq(int, tsshim_order_begin(order, indices, 5, 2, TAG), 0));
	make_again(5, 2, 4, 4); /* by one in front */
	make_again(5, 3, 4, 4); /* comes no fourth time here */
	make_again(6, 1, 4, 4); /* nor a second */
	expect_item(order, 5, 2, 4);
	expect_item(order, 5, 0, 4);
	expect_item(order, 6, 0, 4);
	make_again(5, 1, 3, 3);
	expect_item(order, 5, 1, 3);
	expect_item(order, 7, 0, 4);
	expect_end(order);
	/* Each has draws of its own: the second time's 4 was not had yet, the first one's was.
	 */
	cr_assert(eq(int, tsshim_order_begin(order, fewer, 3, 3, TAG), 0));
	expect_item(order, 5, 0, 5);
	expect_item(order, 5, 1, 4);
	expect_item(order, 8, 0, 4);
	expect_end(order);
	tsshim_order_destroy(order);
}

Test(order, what_comes_again_often_is_found_again)
{
	static int64_t same[30000];
	struct ts_order *order = begun(0);
	bool seen[10000];

	for (uint32_t i = 0; i < TS_ARRAY_SIZE(same); i++)
		same[i] = i % 3;
	for (uint32_t epoch = 0; epoch < 3; epoch++) {
		memset(seen, 0, sizeof(seen));
		cr_assert(eq(int,
			tsshim_order_begin(order, same, TS_ARRAY_SIZE(same), epoch, TAG), 0));
		make_again(1, 9876, epoch, epoch);
		expect_item(order, 1, 9876, epoch);
		for (uint32_t i = 0; i < TS_ARRAY_SIZE(same); i++) {
			if (i / 3 != 9876 || i % 3 != 1)
				expect_item(order, i % 3, i / 3, epoch);
		}
		expect_end(order);
	}
	tsshim_order_destroy(order);
}

Test(order, a_note_of_another_tag_is_none_of_any_time)
{
	uint32_t occurrence;

	for (uint32_t i = 0; i < TS_NOTE_OCCURRENCES; i += 113) {
		cr_assert(ts_note_is_of(ts_note_tag(TAG, i), TAG, &occurrence));
		cr_assert(eq(u32, occurrence, i));
		cr_assert(not(ts_note_is_of(ts_note_tag(TAG, i), TAG + 1 + i, &occurrence)));
	}
	cr_expect(eq(u64, ts_note_tag(TAG, TS_NOTE_OCCURRENCES), 0));
	cr_expect(eq(u64, ts_note_tag(0, 3), 0));
}

Test(order, an_epoch_again_is_drawn_again)
{
	struct ts_order *order = begun(4);

	expect_next(order, own[0], 4);
	cr_assert(eq(int, tsshim_order_begin(order, own, COUNT, 4, TAG), 0));
	expect_next(order, own[0], 4);
	cr_assert(eq(int, tsshim_order_begin(order, own, COUNT, 1, TAG), 0));
	expect_next(order, own[0], 1);
	tsshim_order_destroy(order);
}

Test(order, indices_that_are_none_are_refused)
{
	struct ts_order *order = begun(0);
	const int64_t negative[] = {1, -1}, large[] = {INT64_C(1) << 31};

	cr_expect(eq(int, tsshim_order_begin(order, negative, 2, 1, TAG), -ERANGE));
	cr_expect(eq(int, tsshim_order_begin(order, large, 1, 1, TAG), -ERANGE));
	expect_next(order, own[0], 0);
	cr_expect(eq(int, tsshim_order_begin(order, NULL, 0, 1, TAG), 0));
	int64_t none[1];
	uint32_t draws[1];
	cr_expect(eq(u64, choose(order, 1, none, draws), 0));
	tsshim_order_destroy(order);
}

Test(order, a_recording_comes_before_the_rule)
{
	struct ts_order *order = begun(0);
	const int64_t indices[] = {5, 6, 5, 7, 5};

	cr_assert(eq(int, tsshim_order_begin(order, indices, 5, 2, TAG), 0));
	cr_expect(eq(int, tsshim_order_had(order, 7, 0, 9), 0));
	cr_expect(eq(int, tsshim_order_had(order, 7, 0, 10), -ENOENT), "it came");
	cr_expect(eq(int, tsshim_order_had(order, 7, 1, 10), -ENOENT), "it comes once");
	cr_expect(eq(int, tsshim_order_had(order, 8, 0, 2), -ENOENT), "nobody's");
	cr_expect(eq(int, tsshim_order_had(order, -1, 0, 2), -ENOENT));
	cr_expect(eq(int, tsshim_order_had(order, INT64_C(1) << 40, 0, 2), -ENOENT));
	cr_expect(eq(int, tsshim_order_had(order, 5, 2, 2), 0));
	cr_expect(eq(int, tsshim_order_had(order, 5, 0, 2), 0), "again");
	expect_next(order, 6, 2);
	expect_item(order, 5, 1, 2);
	expect_end(order);
	/* The draw was had. */
	cr_assert(eq(int, tsshim_order_begin(order, indices, 5, 3, TAG), 0));
	cr_expect(eq(int, tsshim_order_had(order, 6, 0, 3), 0));
	expect_next(order, 5, 3);
	expect_item(order, 5, 1, 3);
	expect_next(order, 7, 10);
	tsshim_order_destroy(order);
}

Test(order, what_this_job_made_itself_changes_nothing)
{
	struct ts_order *order = begun(0);
	struct ts_note_made note;
	struct ts_journal *journal;

	make_noted(own[9], 0, 4, 4, true);
	cr_assert(eq(int, ts_journal_attach(fixture_enter()->store, &journal), 0));
	cr_assert(eq(u64, ts_journal_end(journal, TS_JOURNAL_OWN), 1));
	cr_assert(ts_journal_read(journal, TS_JOURNAL_OWN, 0, &note));
	cr_expect(note.mine && note.tag == TAG && note.index == (uint32_t)own[9] &&
		  note.draw == 4 && note.epoch == 4);
	expect_next(order, own[0], 0);
	tsshim_order_destroy(order);
}

Test(order, nobodys_notes)
{
	struct ts_order *order = begun(0);

	make(own[9], 0, 0);
	cr_assert(eq(int, tsshim_order_begin(order, own, COUNT, 1, 0), 0));
	expect_next(order, own[0], 1);
	tsshim_order_destroy(order);
}
