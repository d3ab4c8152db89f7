/* SPDX-License-Identifier: MIT */
/* The free order: what comes next, of what others made and of one's own. */
#include "hooks/torch/samples_private.h"
#include "leader/journal/journal_private.h"
#include "speeds.h"
#include "fixture.h"
#include "hooks/torch/order.h"

#define ORDER_TAG     UINT64_C(99)
#define ORDER_COUNT   40
#define ORDER_PAYLOAD UINT64_C(1000)

/* The own order of all jobs here. */
static int64_t order_own[ORDER_COUNT];

/* The scope of the samples of @draw. */
static void order_name_scope(uint32_t draw, unsigned char ret_scope[16])
{
	memset(ret_scope, 0, 16);
	memcpy(ret_scope, &draw, sizeof(draw));
	ret_scope[15] = 1;
}

/* An order whose @epoch begins. */
static struct ts_order *order_begun(uint32_t epoch)
{
	struct ts_order *order = tsshim_order_create(NULL);

	cr_assert(order != NULL);
	for (int i = 0; i < ORDER_COUNT; i++)
		order_own[i] = (i * 7 + 3) % ORDER_COUNT;
	cr_assert(eq(
		int, tsshim_order_begin(order, order_own, ORDER_COUNT, epoch, ORDER_TAG), 0));
	return order;
}

static uint32_t order_occurrences[ORDER_COUNT];

/* Choose so many, and say the scopes that are wanted. */
static uint64_t order_choose(
	struct ts_order *order, uint64_t count, int64_t *indices, uint32_t *draws)
{
	uint64_t chosen = 0;
	unsigned char scope[16];
	uint32_t wanted;

	cr_assert(le(u64, count, ORDER_COUNT));
	for (;;) {
		chosen = tsshim_order_choose(
			order, chosen, count, indices, order_occurrences, draws, &wanted);
		if (wanted == TS_ORDER_NO_DRAW)
			return chosen;
		order_name_scope(wanted, scope);
		tsshim_order_scope(order, wanted, scope);
	}
}

/* What comes next; that nothing does. */
static void order_expect_item(
	struct ts_order *order, int64_t index, uint32_t occurrence, uint32_t draw)
{
	int64_t indices[1];
	uint32_t draws[1];

	cr_assert(eq(u64, order_choose(order, 1, indices, draws), 1));
	cr_expect(eq(i64, indices[0], index));
	cr_expect(eq(u32, draws[0], draw));
	cr_expect(eq(u32, order_occurrences[0], occurrence));
}

static void order_expect_next(struct ts_order *order, int64_t index, uint32_t draw)
{
	order_expect_item(order, index, 0, draw);
}

/* Another job says that it made it. */
static void order_say(uint64_t tag, uint32_t index, uint32_t draw, uint32_t epoch)
{
	struct ts_note_made note = {.tag = tag, .index = index, .draw = draw, .epoch = epoch};
	struct ts_journal *journal;

	cr_assert(eq(int, ts_journal_attach(fixture_enter()->store, &journal), 0));
	struct ts_journal others = *journal;
	others.job++;
	ts_journal_write(&others, &note);
}

/* Somebody at @epoch makes @index for @draw; @noted: this job itself, which notes that. */
static void order_make_noted(
	int64_t index, uint32_t occurrence, uint32_t draw, uint32_t epoch, bool noted)
{
	static struct ts_sample *sample;
	unsigned char scope[16], name[9] = {'i'};

	if (!sample)
		sample = torch_sample();
	order_name_scope(draw, scope);
	memcpy(name + 1, &index, sizeof(index));
	tsshim_sample_name(sample, scope, torch_stream, name, sizeof(name), occurrence, 0);
	if (noted)
		tsshim_sample_note(sample, ORDER_TAG, (uint32_t)index, draw, epoch);
	cr_assert(eq(int, tsshim_sample_take(sample, 0), TS_CLAIM));
	torch_publish(sample, ORDER_PAYLOAD, 1);
}

/* Another job makes it and says so. */
static void order_make(int64_t index, uint32_t draw, uint32_t epoch)
{
	order_make_noted(index, 0, draw, epoch, false);
	order_say(ORDER_TAG, (uint32_t)index, draw, epoch);
}

static void order_make_again(int64_t index, uint32_t occurrence, uint32_t draw, uint32_t epoch)
{
	order_make_noted(index, occurrence, draw, epoch, false);
	order_say(ts_note_tag(ORDER_TAG, occurrence), (uint32_t)index, draw, epoch);
}

static void order_expect_end(struct ts_order *order)
{
	int64_t none[1];
	uint32_t draws[1];

	cr_expect(eq(u64, order_choose(order, 1, none, draws), 0));
}

static struct ts_order *order;

static void order_begin_at(uint32_t epoch)
{
	tsshim_order_destroy(order);
	order = order_begun(epoch);
}

static void begin_order(void)
{
	torch_init();
	order = order_begun(0);
}

static void end_order(void)
{
	tsshim_order_destroy(order);
	torch_finish();
}

TestSuite(order, .init = begin_order, .fini = end_order);

Test(order, who_is_alone_has_its_own)
{
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
}

Test(order, the_newest_that_is_lacking_comes_first)
{
	order_make(order_own[9], 0, 0);
	order_make(order_own[5], 0, 0);
	order_expect_next(order, order_own[5], 0);
	order_make(order_own[20], 0, 0);
	order_expect_next(order, order_own[20], 0);
	order_expect_next(order, order_own[9], 0);
	order_expect_next(order, order_own[0], 0);
	order_make(order_own[0], 0, 0); /* had already */
	order_expect_next(order, order_own[1], 0);
}

Test(order, who_is_behind_draws_as_the_one_in_front)
{
	order_begin_at(1);
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
}

Test(order, every_index_comes_once_whatever_the_journal_says)
{
	int64_t indices[ORDER_COUNT];
	uint32_t draws[ORDER_COUNT];
	bool seen[ORDER_COUNT] = {false};

	order_begin_at(3);
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
}

Test(order, a_record_that_is_gone_is_passed_by)
{
	order_make(order_own[30], 0, 0);
	/* A ring of 8 MiB is full of others' by then. */
	for (int64_t i = 0; i < 12000; i++) {
		torch_capture();
		order_make(ORDER_COUNT + i, 0, 0);
	}
	order_expect_next(order, order_own[0], 0);
}

Test(order, an_index_comes_again_as_often_as_its_sampler_gives_it)
{
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
}

Test(order, each_time_of_an_index_is_shared_apart)
{
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
}

Test(order, what_comes_again_often_is_found_again)
{
	static int64_t same[30000];
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
	order_begin_at(4);
	order_expect_next(order, order_own[0], 4);
	cr_assert(eq(int, tsshim_order_begin(order, order_own, ORDER_COUNT, 4, ORDER_TAG), 0));
	order_expect_next(order, order_own[0], 4);
	cr_assert(eq(int, tsshim_order_begin(order, order_own, ORDER_COUNT, 1, ORDER_TAG), 0));
	order_expect_next(order, order_own[0], 1);
}

Test(order, indices_that_are_none_are_refused)
{
	const int64_t negative[] = {1, -1}, large[] = {INT64_C(1) << 31};

	cr_expect(eq(int, tsshim_order_begin(order, negative, 2, 1, ORDER_TAG), -ERANGE));
	cr_expect(eq(int, tsshim_order_begin(order, large, 1, 1, ORDER_TAG), -ERANGE));
	order_expect_next(order, order_own[0], 0);
	cr_expect(eq(int, tsshim_order_begin(order, NULL, 0, 1, ORDER_TAG), 0));
	int64_t none[1];
	uint32_t draws[1];
	cr_expect(eq(u64, order_choose(order, 1, none, draws), 0));
}

Test(order, a_recording_comes_before_the_rule)
{
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
}

Test(order, what_this_job_made_itself_changes_nothing)
{
	struct ts_note_made note;
	struct ts_journal *journal;

	order_make_noted(order_own[9], 0, 4, 4, true);
	cr_assert(eq(int, ts_journal_attach(fixture_enter()->store, &journal), 0));
	cr_assert(eq(u64, ts_journal_end(journal), 1));
	cr_assert(ts_journal_read(journal, 0, &note));
	cr_expect(note.mine && note.tag == ORDER_TAG && note.index == (uint32_t)order_own[9] &&
		  note.draw == 4 && note.epoch == 4);
	order_expect_next(order, order_own[0], 0);
}

Test(order, nobodys_notes)
{
	order_make(order_own[9], 0, 0);
	cr_assert(eq(int, tsshim_order_begin(order, order_own, ORDER_COUNT, 1, 0), 0));
	order_expect_next(order, order_own[0], 1);
}

/* Free orders of one loader beside each other, as iterators that live at a time have them. */

TestSuite(order_beside, .init = torch_init, .fini = torch_finish);

/* An order beside @first whose @epoch begins. */
static struct ts_order *begun_beside(struct ts_order *first, uint32_t epoch)
{
	struct ts_order *other = tsshim_order_create(first);

	cr_assert(other != NULL);
	cr_assert(eq(
		int, tsshim_order_begin(other, order_own, ORDER_COUNT, epoch, ORDER_TAG), 0));
	return other;
}

/* All that is left of an epoch of a lone job is of its own order, with its own draws. */
static void expect_own(struct ts_order *of, int from, uint32_t draw)
{
	for (int i = from; i < ORDER_COUNT; i++)
		order_expect_next(of, order_own[i], draw);
	order_expect_end(of);
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

/*
 * The rule of the free order, by jobs of different speed (tests/unit/torch/speeds.h): how often
 * each sample is made, and whether what each job is given is still a shuffle.
 */

TestSuite(order_rule, .init = torch_init, .fini = torch_finish);

/* Where jobs take turns in front, what making costs slows the first down. */
static const struct {
	const char *what;
	int count;
	double speeds[4], most; /* times that a sample is made */
	unsigned near;
} rules[] = {
	{"two speeds", 2, {1, .5}, 1.03, SPEEDS_NEAR},
	{"nearly one speed", 2, {1, .9}, 1.03, 100},
	{"four speeds", 4, {1, .8, .5, .25}, 1.05, SPEEDS_NEAR},
	{"in step", 4, {1, 1, 1, 1}, 1.03, SPEEDS_NEAR},
};

Test(order_rule, each_sample_is_made_once_and_all_are_given_a_shuffle)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(rules); i++) {
		struct speeds_job *jobs = speeds_begin();
		double made = speeds_run(jobs, rules[i].count, rules[i].speeds);
		cr_expect(made <= rules[i].most, "%s: %f", rules[i].what, made);
		speeds_expect_shuffled(jobs, rules[i].count, rules[i].near);
		speeds_end(jobs);
		torch_finish();
		torch_init();
	}
}
