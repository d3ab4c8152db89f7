/* SPDX-License-Identifier: MIT */
/* When looking for a copy pays, by what was measured. */
#include "../clock.h"
#include "hooks/cuda/cost.h"
#include "shim/atomic.h"
#include "shim/sys.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#define BYTES     (UINT64_C(16) << 20)
#define ANSWERS   6400 /* a hundred times the number of which one is looked for in any case */
#define MINUTE_NS UINT64_C(60000000000)
#define NOW_NS    (12345 * MINUTE_NS)
#define FEW       4 /* that say nothing yet */

/* Parts of the copies that are found: none, three of four, all. */
#define NONE  0
#define THREE (TS_COST_PARTS / 4 * 3)
#define ALL   TS_COST_PARTS

static struct ts_dataset_row row;
static unsigned char source[8 * BYTES];

static const void *batch(unsigned number)
{
	memcpy(source, &number, sizeof(number));
	return source;
}

/* To so many batches, each another one. */
static unsigned answers(uint32_t parts, uint64_t bytes)
{
	unsigned yes = 0;
	for (unsigned i = 0; i < ANSWERS; i++)
		yes += ts_cost_pays(parts, batch(i), bytes, false, NOW_NS);
	return yes;
}

/* About one in 64. */
static bool are_probes(unsigned yes)
{
	return yes > ANSWERS / 64 / 2 && yes < ANSWERS / 64 * 2;
}

static void measure(uint64_t own, uint64_t hash, uint64_t taken)
{
	for (unsigned i = 0; i < 100; i++) {
		ts_cost_learn(TS_COST_OWN, BYTES, own);
		ts_cost_learn(TS_COST_HASH, BYTES, hash);
		ts_cost_learn(TS_COST_TAKEN, BYTES, taken);
	}
}

TestSuite(cost);

Test(cost, what_is_unknown_is_looked_for)
{
	cr_expect(eq(u32, answers(NONE, BYTES), ANSWERS));
	ts_cost_learn(TS_COST_OWN, BYTES, 1000);
	cr_expect(eq(u32, answers(NONE, BYTES), ANSWERS));
}

Test(cost, four_jobs_in_step)
{
	measure(1700000, 1000000, 1000);
	cr_expect(eq(u32, answers(THREE, BYTES), ANSWERS), "5/3 of a hash is enough");
	measure(1600000, 1000000, 1000);
	cr_expect(are_probes(answers(THREE, BYTES)), "less is not, but for probes");
}

static void measure_taken(uint64_t taken, uint64_t waited)
{
	for (unsigned i = 0; i < 100; i++)
		ts_cost_learn_taken(BYTES, false, taken, waited);
}

Test(cost, a_wait_that_is_no_longer_than_a_copy_is_not_lost)
{
	measure(4000000, 100000, 1000);
	measure_taken(4100000, 4000000);
	cr_expect(eq(u32, answers(THREE, BYTES), ANSWERS), "others have the link meanwhile");
	cr_expect(are_probes(answers(TS_COST_PARTS / 64, BYTES)), "the hash has to pay");
	measure_taken(4890000, 4790000);
	cr_expect(
		eq(u32, answers(THREE, BYTES), ANSWERS), "with the hash just a quarter longer");
	measure_taken(4950000, 4850000);
	cr_expect(are_probes(answers(ALL, BYTES)), "more");
	measure_taken(3000000, 2900000);
	cr_expect(eq(u32, answers(THREE, BYTES), ANSWERS));
	measure_taken(4100000, 0);
	cr_expect(are_probes(answers(ALL, BYTES)), "nobody was waited for");
}

Test(cost, who_is_held_up_once_does_not_give_up)
{
	measure(4000000, 100000, 1000);
	measure_taken(4000000, 3900000);
	ts_cost_learn_taken(BYTES, false, 80000000, 79000000);
	cr_expect(eq(u32, answers(ALL, BYTES), ANSWERS));
	ts_cost_learn_taken(BYTES, false, 80000000, 79000000);
	cr_expect(are_probes(answers(ALL, BYTES)), "twice in a row");
}

/* In vain: then bringing it comes on top. */
Test(cost, who_waits_in_vain_too_often_gives_up)
{
	measure(4000000, 1000000, 1000);
	for (unsigned i = 0; i < 400; i++)
		ts_cost_learn_taken(BYTES, false, i % 4 == 3 ? 8000000 : 1000000, 0);
	cr_expect(are_probes(answers(THREE, BYTES)));
	measure_taken(1000000, 0);
	cr_expect(eq(u32, answers(THREE, BYTES), ANSWERS));
}

Test(cost, half_of_the_waits_are_long)
{
	measure(260000, 10000, 1000);
	for (unsigned i = 0; i < 400; i++)
		ts_cost_learn_taken(
			BYTES, false, i % 4 < 2 ? 2500000 : 30000, i % 4 < 2 ? 2400000 : 0);
	cr_expect(are_probes(answers(ALL, BYTES)));
}

Test(cost, a_process_that_was_stopped_goes_on_as_before)
{
	measure(4000000, 1000000, 1000);
	ts_cost_learn(TS_COST_HASH, BYTES, UINT64_C(10000000000));
	cr_expect(eq(u32, answers(ALL, BYTES), ANSWERS));
	ts_cost_learn(TS_COST_OWN, BYTES, UINT64_C(10000000000));
	cr_expect(lt(u64, ts_cost_of(TS_COST_OWN, BYTES), 6000000));
	for (unsigned i = 0; i < 30; i++)
		ts_cost_learn(TS_COST_OWN, BYTES, 40000000);
	cr_expect(gt(u64, ts_cost_of(TS_COST_OWN, BYTES), 35000000), "what stays is believed");
}

/* Their calls do not wait where nothing is shared. */
Test(cost, a_wait_for_a_known_source_is_lost)
{
	for (unsigned i = 0; i < 100; i++) {
		ts_cost_learn_known(BYTES, 4000000);
		ts_cost_learn(TS_COST_KNOWN + TS_COST_HASH, BYTES, 100000);
		ts_cost_learn_taken(BYTES, true, 4100000, 4000000);
	}
	unsigned yes = 0;
	for (unsigned i = 0; i < ANSWERS; i++)
		yes += ts_cost_pays(ALL, batch(i), BYTES, true, NOW_NS);
	cr_expect(are_probes(yes));
	for (unsigned i = 0; i < 100; i++)
		ts_cost_learn_taken(BYTES, true, 100000, 0);
	cr_expect(ts_cost_pays(THREE, batch(1), BYTES, true, NOW_NS));
}

/* Two millisecond and twice a copy is what we allow. */
Test(cost, every_other_wait_is_long)
{
	measure(100000, 5000, 1000);
	for (unsigned i = 0; i < 400; i++)
		ts_cost_learn_taken(BYTES, false, i % 2 ? 2000000 : 20000, i % 2 ? 1980000 : 0);
	cr_expect(are_probes(answers(ALL, BYTES)));
}

Test(cost, one_of_ten_waits_in_vain)
{
	measure(50000, 2000, 1000);
	for (unsigned i = 0; i < 400; i++)
		ts_cost_learn_taken(BYTES, false, i % 10 ? 10000 : 2000000, 0);
	cr_expect(are_probes(answers(THREE, BYTES)));
}

Test(cost, a_hash_that_is_slower_than_the_copy_never_pays)
{
	measure(1000000, 1100000, 1000);
	cr_expect(are_probes(answers(ALL, BYTES)));
	cr_expect(
		eq(u32, answers(ALL, 8 * BYTES), ANSWERS), "another size is another question");
}

Test(cost, nobody_brings_the_same_any_more)
{
	measure(10000000, 1000000, 1000);
	cr_expect(eq(u32, answers(ALL, BYTES), ANSWERS));
	cr_expect(are_probes(answers(NONE, BYTES)));
}

Test(cost, one_in_so_many_is_chosen_and_each_in_its_minute)
{
	unsigned chosen = 0;
	for (unsigned i = 0; i < ANSWERS; i++)
		chosen += ts_cost_is_chosen(batch(i), BYTES, NOW_NS, 8);
	cr_expect(gt(u32, chosen, ANSWERS / 8 / 2));
	cr_expect(lt(u32, chosen, ANSWERS / 8 * 2));
	for (unsigned i = 0; i < 100; i++) {
		unsigned yes = 0;
		for (unsigned minute = 0; minute < 8; minute++) {
			uint64_t then = NOW_NS + minute * MINUTE_NS;
			bool first = ts_cost_is_chosen(batch(i), BYTES, then, 8);
			bool again =
				ts_cost_is_chosen(batch(i), BYTES, then + MINUTE_NS / 2, 8);
			cr_expect(eq(int, first, again));
			yes += first;
		}
		cr_expect(eq(u32, yes, 1));
	}
}

Test(cost, all_jobs_look_for_the_same_ones_and_each_is_looked_for)
{
	measure(1000000, 1100000, 1000);
	for (unsigned i = 0; i < 100; i++) {
		unsigned yes = 0;
		for (unsigned minute = 0; minute < 64; minute++) {
			uint64_t then = NOW_NS + minute * MINUTE_NS;
			bool first = ts_cost_pays(NONE, batch(i), BYTES, false, then);
			(void)ts_cost_pays(NONE, batch(i + 1), BYTES, false, then);
			bool later = ts_cost_pays(
				NONE, batch(i), BYTES, false, then + MINUTE_NS / 2);
			cr_assert(eq(i32, first, later), "whatever was asked between");
			yes += first;
		}
		cr_assert(eq(u32, yes, 1), "batch %u", i);
	}
}

Test(cost, what_is_found_is_what_was_looked_for_in_this_ring)
{
	struct ts_cost_found state = {0};
	cr_expect(eq(u32, ts_cost_found(&state, 0, 10000, 0), 512), "nothing of this ring");
	cr_expect(eq(u32, ts_cost_found(&state, 0, 10063, 0), 512), "too little");
	cr_expect(eq(u32, ts_cost_found(&state, 0, 10064, 0), 0));
	cr_expect(eq(u32, ts_cost_found(&state, 0, 10128, 48), 768));
	cr_expect(eq(u32, ts_cost_found(&state, 0, 10120, 40), 768), "read before the window");
	cr_expect(eq(u32, ts_cost_found(&state, 0, 10192, 200), 1024), "nonsense");
	cr_expect(eq(u32, ts_cost_found(&state, 1, 10192, 200), 512), "another ring");
	cr_expect(eq(u32, ts_cost_found(&state, 1, 10320, 200), 0));
	cr_expect(le(u32, ts_cost_found(&state, 1, INT64_MAX, INT64_MAX / 2), TS_COST_PARTS));
}

#define SECOND_NS UINT64_C(1000000000)

/* No's for so many seconds, one a second. */
static void say_no(unsigned seconds)
{
	for (unsigned i = 0; i < seconds; i++) {
		clock_pass(SECOND_NS);
		(void)ts_cost_pays(ALL, batch(0), BYTES, false, ts_now_ns());
	}
}

Test(cost, what_never_pays_has_not_for_long, .init = clock_begin, .fini = clock_end)
{
	measure(1000000, 1100000, 1000);
	cr_expect(not(ts_cost_never_pays()), "nobody has asked");
	say_no(60);
	cr_expect(not(ts_cost_never_pays()), "a second less than a minute");
	clock_pass(59 * SECOND_NS);
	say_no(1);
	cr_expect(not(ts_cost_never_pays()), "a pause of a minute is no answer");
	say_no(59);
	cr_expect(not(ts_cost_never_pays()), "nor is it forgotten that there was one");
	say_no(1);
	cr_expect(ts_cost_never_pays());
	clock_pass(600 * SECOND_NS - 1);
	cr_expect(ts_cost_never_pays());
	clock_pass(1);
	cr_expect(not(ts_cost_never_pays()), "after ten minutes there is another ring");
	say_no(1);
	cr_expect(not(ts_cost_never_pays()), "of which nothing is known yet");
	say_no(60);
	cr_expect(ts_cost_never_pays());
	measure(10000000, 1000000, 1000);
	say_no(1);
	cr_expect(not(ts_cost_never_pays()), "that was a yes");
}

Test(cost, averages_follow)
{
	for (unsigned i = 0; i < FEW; i++)
		ts_cost_learn(TS_COST_OWN, BYTES, i == 2 ? 800 : 2000);
	cr_expect(eq(u64, ts_cost_of(TS_COST_OWN, BYTES), 800));
	ts_cost_learn(TS_COST_OWN, BYTES, 1600);
	cr_expect(eq(u64, ts_cost_of(TS_COST_OWN, BYTES), 900));
	cr_expect(eq(u64, ts_cost_of(TS_COST_OWN, 4 * BYTES), 0));
}

Test(cost, a_slow_beginning_is_not_what_it_costs)
{
	for (unsigned i = 0; i < 100; i++)
		ts_cost_learn(TS_COST_OWN, BYTES, 5000);
	for (unsigned i = 0; i < FEW; i++) {
		cr_expect(eq(u32, answers(ALL, BYTES), ANSWERS), "after %u", i);
		ts_cost_learn(TS_COST_HASH, BYTES, i == 3 ? 50 : 90000);
		ts_cost_learn(TS_COST_TAKEN, BYTES, i == 2 ? 100 : 90000);
	}
	cr_expect(eq(u32, answers(ALL, BYTES), ANSWERS), "with the quickest of them");
}

Test(cost, others_are_waited_for_as_long_as_a_slow_copy_takes)
{
	cr_expect(eq(u64, ts_cost_of_bringing(&row, BYTES), 0), "nobody knows");
	ts_write_relaxed(&row.cost_ns_per_kib[TS_KIND_DEVICE], 100);
	cr_expect(eq(u64, ts_cost_of_bringing(&row, BYTES), 2 * 100 * (BYTES >> 10)));
	ts_cost_brought(BYTES, 800, true);
	cr_expect(eq(u64, ts_cost_of_bringing(&row, BYTES), 800), "not the group's any more");
	ts_cost_brought(BYTES, 1600, true);
	cr_expect(eq(u64, ts_cost_of_bringing(&row, BYTES), 1600), "slow ones count at once");
	ts_cost_brought(BYTES, 1000000, true);
	cr_expect(eq(u64, ts_cost_of_bringing(&row, BYTES), 6400), "but no stop does");
	for (int i = 0; i < 2000; i++)
		ts_cost_brought(BYTES, 1000, true);
	cr_expect(lt(u64, ts_cost_of_bringing(&row, BYTES), 1300), "and they are forgotten");
}

Test(cost, what_was_queued_before_a_copy_is_no_part_of_it)
{
	cr_expect(eq(u64, ts_cost_of_transfer(&row, BYTES), 0), "nobody knows");
	ts_cost_brought(BYTES, 1000000, true);
	cr_expect(eq(u64, ts_cost_of_transfer(&row, BYTES), 1000000));
	cr_expect(ts_cost_is_late(BYTES), "for all that is known");
	ts_cost_brought(BYTES, 3900000, false);
	cr_expect(not(ts_cost_is_late(BYTES)));
	for (int i = 0; i < 100; i++)
		ts_cost_brought(BYTES, 50000000, false);
	cr_expect(eq(u64, ts_cost_of_transfer(&row, BYTES), 1000000));
	cr_expect(eq(u64, ts_cost_of_bringing(&row, BYTES), 50000000), "it comes that late");
	cr_expect(ts_cost_is_late(BYTES));
	ts_cost_brought(BYTES, 4000000, true);
	ts_cost_brought(BYTES, 16000000, true);
	ts_cost_brought(BYTES, 64000000, true);
	cr_expect(lt(u64, ts_cost_of_transfer(&row, BYTES), 8000000), "they do not add up");
}

Test(cost, a_copy_that_was_held_up_costs_what_one_does_that_was_not)
{
	ts_cost_learn_own(BYTES, 50000, false);
	cr_expect(eq(u64, ts_cost_of(TS_COST_OWN, BYTES), 50000), "no more than that");
	ts_cost_learn_own(BYTES, 60000, false);
	cr_expect(eq(u64, ts_cost_of(TS_COST_OWN, BYTES), 50000));
	ts_cost_learn_own(BYTES, 1000, true);
	cr_expect(eq(u64, ts_cost_of(TS_COST_OWN, BYTES), 1000));
	ts_cost_learn_own(BYTES, 50000, false);
	cr_expect(eq(u64, ts_cost_of(TS_COST_OWN, BYTES), 1000));
}

Test(cost, who_finds_everything_measures_its_own_now_and_then)
{
	unsigned due = 0;
	ts_cost_learn_own(BYTES, 1000, true);
	for (unsigned i = 0; i < 4096; i++) {
		if (!ts_cost_own_is_due(BYTES, false))
			continue;
		due++;
		ts_cost_learn_own(BYTES, 1000, true);
	}
	cr_expect(eq(u32, due, 3));
	cr_expect(not(ts_cost_own_is_due(8 * BYTES, false)));
}

/* Whether @known copies are looked for when all are found. */
static bool is_worth_it(bool known)
{
	unsigned yes = 0;
	for (unsigned i = 0; i < ANSWERS; i++)
		yes += ts_cost_pays(ALL, batch(i), BYTES, known, NOW_NS);
	return yes == ANSWERS;
}

Test(cost, what_is_known_by_a_name_is_judged_for_itself)
{
	/* A hash takes longer than the copy; a look does not. */
	measure(3000, 15000, 100);
	cr_expect(not(is_worth_it(false)));
	cr_expect(is_worth_it(true), "nothing is known of such copies yet");
	for (unsigned i = 0; i < 100; i++) {
		ts_cost_learn_known(BYTES, 3000);
		ts_cost_learn(TS_COST_KNOWN + TS_COST_HASH, BYTES, 200);
		ts_cost_learn_taken(BYTES, true, 400, 0);
	}
	cr_expect(is_worth_it(true));
	cr_expect(not(is_worth_it(false)));
	for (unsigned i = 0; i < 300; i++)
		ts_cost_learn_taken(BYTES, true, 2900, 0);
	cr_expect(not(is_worth_it(true)));
}

Test(cost, of_what_is_seen_late_the_quick_ones_count)
{
	for (unsigned i = 0; i < 200; i++)
		ts_cost_learn_known(BYTES, i % 8 == 5 ? 1000 : 20000 + 1000 * (i % 5));
	uint64_t own = ts_cost_of(TS_COST_KNOWN + TS_COST_OWN, BYTES);
	cr_expect(ge(u64, own, 1000));
	cr_expect(lt(u64, own, 2500));
	for (unsigned i = 0; i < 400; i++)
		ts_cost_learn_known(BYTES, 4000);
	own = ts_cost_of(TS_COST_KNOWN + TS_COST_OWN, BYTES);
	cr_expect(
		own > 3500 && own <= 4000, "a slower link is noticed: %lu", (unsigned long)own);
}

Test(cost, where_nothing_is_found_the_unknown_is_not_looked_for)
{
	for (unsigned i = 0; i < FEW; i++)
		ts_cost_learn(TS_COST_KNOWN + TS_COST_HASH, BYTES, 10);
	cr_expect(is_worth_it(true));
	unsigned yes = 0;
	for (unsigned i = 0; i < ANSWERS; i++)
		yes += ts_cost_pays(NONE, batch(i), BYTES, true, NOW_NS);
	cr_expect(are_probes(yes), "%u", yes);
}

Test(cost, its_own_is_measured_now_and_then_as_well)
{
	unsigned due = 0;
	for (unsigned i = 0; i < 2048; i++)
		due += ts_cost_own_is_due(BYTES, true);
	cr_expect(eq(u32, due, 1024));
	cr_expect(not(ts_cost_own_is_due(BYTES, false)), "others are another matter");
	ts_cost_learn_known(BYTES, 1000);
	cr_expect(not(ts_cost_own_is_due(BYTES, true)));
	cr_expect(eq(u64, ts_cost_of(TS_COST_KNOWN + TS_COST_OWN, BYTES), 0), "too few");
	for (unsigned i = 0; i < 15; i++)
		ts_cost_learn_known(BYTES, 1000);
	cr_expect(eq(u64, ts_cost_of(TS_COST_KNOWN + TS_COST_OWN, BYTES), 1000));
	cr_expect(eq(u64, ts_cost_of(TS_COST_OWN, BYTES), 0));
}

Test(cost, a_group_that_says_nonsense_is_no_overflow)
{
	ts_write_relaxed(&row.cost_ns_per_kib[TS_KIND_DEVICE], UINT64_MAX);
	cr_expect(gt(u64, ts_cost_of_bringing(&row, UINT64_MAX), UINT64_C(1) << 50));
}

/* What recurs among the sizes of copies. */

#define LARGE (UINT64_C(1000) << 20)
#define BATCH (UINT64_C(40) << 20)

static struct ts_sizes sizes;

static void meet(unsigned times, uint64_t bytes)
{
	for (unsigned i = 0; i < times; i++)
		ts_sizes_note(&sizes, bytes);
}

TestSuite(sizes);

Test(sizes, nothing_recurs_that_was_met_less_often)
{
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, UINT64_MAX, 1), 0));
	meet(2, LARGE);
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, UINT64_MAX, 3), 0));
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, UINT64_MAX, 2), LARGE));
	cr_expect(eq(u32, ts_sizes_met(&sizes), 2));
}

Test(sizes, what_is_larger_counts_for_what_is_smaller)
{
	meet(1, LARGE);
	meet(1, LARGE / 2);
	meet(TS_SIZES / 2, BATCH);
	meet(1, LARGE / 4);
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, UINT64_MAX, 1), LARGE));
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, UINT64_MAX, 2), LARGE / 2));
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, UINT64_MAX, 3), LARGE / 4));
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, UINT64_MAX, 4), BATCH));
}

Test(sizes, what_is_too_large_does_not_count_at_all)
{
	meet(TS_SIZES / 2, LARGE);
	meet(2, BATCH);
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, LARGE - 1, 3), 0));
	meet(1, BATCH);
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, LARGE - 1, 3), BATCH));
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, LARGE, 3), LARGE));
}

Test(sizes, what_was_brought_once_is_forgotten)
{
	meet(TS_SIZES, LARGE);
	meet(TS_SIZES - 3, BATCH);
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, UINT64_MAX, 3), LARGE));
	meet(1, BATCH);
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, UINT64_MAX, 3), BATCH));
	sizes.met = UINT32_MAX;
	meet(TS_SIZES, 1);
	cr_expect(eq(u64, ts_sizes_recurring(&sizes, UINT64_MAX, 1), 1), "the count wraps");
}
