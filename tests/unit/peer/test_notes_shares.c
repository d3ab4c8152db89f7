/* SPDX-License-Identifier: MIT */
/* Notes of several helpers of a group that have one server of their own. */
#include "notes.h"

#include "tests/unit/clock.h"
#include "tests/unit/leader/fixture.h"

TestSuite(notes_shares, .init = notes_begin, .fini = notes_end);

/* Long enough for all to hear of all, and too short for a value to end. */
#define LONG (2 * TS_NOTES_SLOW_NS)

/* What the server has there has ended. */
static void lose(int at)
{
	cr_assert(ge(int, at, 0));
	notes.node.values[at].key[0] = '\0';
}

/* All helpers read one journal, so each tells all that is made. */
static void make(uint32_t from, uint32_t count)
{
	notes_make_all(from, count);
	notes_pass(LONG);
}

static void begin_two(void)
{
	notes_begin_anew(&notes.there, "g", 0);
	notes_begin_anew(&notes.third, "g", UINT32_MAX);
	notes_pass(LONG);
}

Test(notes_shares, two_of_one_server_are_both_heard_by_all)
{
	begin_two();
	make(0, 3);
	cr_expect(eq(u32, notes_values(), 2));
	/* The third hears of both. */
	cr_expect(eq(u64, notes_written(), 2 * 3));
	make(3, 2);
	/* They of one another as well, but for what was there when they began to hear. */
	cr_expect(eq(u64, notes_written(), 2 * 3 + 4 * 2));
	notes_pass(LONG);
	cr_expect(eq(u64, notes_written(), 2 * 3 + 4 * 2), "each is written once");
	cr_expect(eq(u32, notes_values(), 2));
}

Test(notes_shares, who_comes_later_hears_all_shares)
{
	begin_two();
	make(0, 3);
	uint64_t before = notes_written();
	notes_begin_anew(&notes.third, "g", UINT32_MAX);
	notes_pass(LONG);
	cr_expect(eq(u64, notes_written(), before + 2 * 3));
}

Test(notes_shares, so_many_tell_and_no_more)
{
	for (uint32_t i = 0; i < TS_NOTES_SHARES + 1; i++) {
		notes_begin_anew(&notes.here, "g", 0);
		notes_pass(TS_NOTES_PERIOD_NS);
		make(10 * i, 1);
		cr_expect(eq(u32, notes_values(), i < TS_NOTES_SHARES ? i + 1 : i));
	}
	notes_pass(2 * LONG);
	cr_expect(eq(u64, notes_written(), TS_NOTES_SHARES));
}

/* Readers begin in front. */
Test(notes_shares, who_finds_a_share_free_in_front_takes_it)
{
	make(0, 2);
	notes_begin_anew(&notes.here, "g", 0);
	notes_pass(TS_NOTES_PERIOD_NS);
	make(2, 2);
	cr_assert(eq(u32, notes_values(), 2));
	uint64_t before = notes_written();
	lose(notes_value()); /* that of the one that was killed */
	notes_pass(LONG);
	make(4, 1);
	cr_expect(eq(u64, notes_written(), before + 1), "nothing is told again");
	notes_begin_anew(&notes.there, "g", UINT32_MAX);
	notes_pass(LONG);
	cr_expect(eq(u64, notes_written(), before + 1 + 3), "and all is heard there");
}

Test(notes_shares, what_a_server_has_lost_is_not_fought_for)
{
	begin_two();
	notes_leave(&notes.there);
	make(0, 1);
	lose(notes_value());
	/* The next one has share 0 before the first one tells again. */
	struct ts_notes *first = notes.here;
	notes.here = NULL;
	notes_begin_anew(&notes.there, "g", 0);
	notes_pass(TS_NOTES_PERIOD_NS);
	make(1, 1);
	cr_assert(eq(u32, notes_values(), 1));
	notes.here = first;
	make(2, 1); /* both store it there */
	make(3, 1);
	cr_expect(eq(u32, notes_values(), 2));
	uint64_t before = notes_written();
	make(4, 1);
	cr_expect(eq(u64, notes_written(), before + 4));
	notes_pass(LONG);
	cr_expect(eq(u64, notes_written(), before + 4));
}

Test(notes_shares, who_ends_takes_away_what_is_its_own)
{
	begin_two();
	make(0, 1);
	cr_assert(eq(u32, notes_values(), 2));
	cr_assert(ts_notes_clear(notes.there));
	notes_pass(0);
	cr_expect(eq(u32, notes_values(), 1));
	/* One that has none for now leaves what others have. */
	notes_begin_anew(&notes.there, "g", 0);
	notes_pass(TS_NOTES_PERIOD_NS);
	notes_make_all(1, 1);
	ts_notes_step(notes.there);
	notes_pass(0);
	cr_expect(not(ts_notes_clear(notes.there)));
	cr_expect(eq(u32, notes_values(), 1));
}

Test(notes_shares, what_may_have_ended_is_not_stored_over)
{
	make(0, 1);
	unsigned stored = notes.node.stored;
	notes_pass((TS_NOTES_TTL - 5) * SECOND);
	make(1, 1);
	notes_pass(0);
	cr_expect(
		eq(uint, notes.node.stored, stored + 1), "as it ended, and another's is there");
	cr_expect(eq(u32, notes_values(), 2));
}
