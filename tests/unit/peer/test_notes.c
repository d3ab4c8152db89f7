/* SPDX-License-Identifier: MIT */
/* Notes between nodes: what is told, what is written, and how often somebody is asked. */
#include "notes.h"

#include "leader/mail/samples.h"
#include "shim/atomic.h"
#include "shim/sys.h"
#include "tests/unit/clock.h"
#include "tests/unit/leader/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(notes, .init = notes_begin, .fini = notes_end);

static uint64_t counted(enum ts_mail_counter counter)
{
	return node_counter(&notes.node, counter);
}

/* ---- what works ------------------------------------------------------------------------- */

Test(notes, what_was_handed_over_is_told)
{
	struct ts_mail_use *use = &notes.node.mail.table->use;

	notes_make(1, true);
	notes_make(2, false);
	notes_make(3, true);
	notes_pass(4 * TS_NOTES_PERIOD_NS);
	cr_expect(eq(u32, notes_heard(0), 2));
	cr_expect(eq(u32, notes_heard(2), 1));
	cr_expect(eq(u64, ts_load_relaxed(&use->notes_told), 2));
	cr_expect(eq(u64, ts_load_relaxed(&use->notes_heard), 2));
}

Test(notes, each_is_written_once)
{
	notes_make_all(0, 3);
	notes_pass(SECOND);
	notes_make_all(3, 2);
	notes_pass(20 * TS_NOTES_SLOW_NS);
	cr_expect(eq(u32, notes_heard(0), 5));
	cr_expect(eq(u64, notes_written(), 5));
}

Test(notes, of_many_the_newest_are_told)
{
	notes_make_all(0, TS_NOTES_MOST + 5);
	notes_pass(SECOND);
	cr_expect(eq(u32, notes_heard(0), TS_NOTES_MOST));
	cr_expect(eq(u32, notes_heard(5), TS_NOTES_MOST));
}

/* What it has told stays with the server for a while. */
Test(notes, a_helper_that_begins_anew_counts_anew)
{
	notes_make_all(0, 30);
	notes_pass(SECOND);
	cr_assert(eq(u32, notes_heard(0), 30));
	notes_begin_anew(&notes.here, "g", 0);
	notes_pass(TS_NOTES_SLOW_NS);
	cr_expect(eq(u32, notes_heard(0), 30), "nothing is told again");
	notes_make_all(100, 2);
	notes_pass(2 * TS_NOTES_SLOW_NS);
	cr_expect(eq(u32, notes_heard(100), 2));
	cr_expect(eq(u64, notes_written(), 32));
}

Test(notes, an_older_value_says_nothing)
{
	notes_make_all(0, 2);
	notes_pass(SECOND);
	int at = notes_value();
	cr_assert(ge(int, at, 0));
	size_t bytes = notes.node.values[at].count;
	unsigned char *old = malloc(bytes);
	memcpy(old, notes.node.values[at].bytes, bytes);
	notes_make_all(2, 2);
	notes_pass(2 * TS_NOTES_SLOW_NS);
	cr_assert(eq(u64, notes_written(), 4));
	notes_plant(at, old, bytes);
	notes_pass(5 * TS_NOTES_SLOW_NS);
	cr_expect(eq(u64, notes_written(), 4));
	free(old);
}

Test(notes, what_is_too_old_is_not_told)
{
	notes.node.room = 1; /* for nothing */
	notes_make_all(0, 4);
	notes_pass(TS_NOTES_TELL_NS + SECOND);
	cr_expect(ge(u64, counted(TS_MAIL_COUNT_FULL), 3));
	notes.node.room = 0;
	notes_make_all(10, 2);
	notes_pass(2 * TS_NOTES_SLOW_NS);
	cr_expect(eq(u64, notes_written(), 2));
	cr_expect(eq(u32, notes_heard(10), 2));
}

/* As long as one period may pass before it is read. */
Test(notes, what_was_made_before_the_journal_was_read_is_as_old_as_that)
{
	notes.node.room = 1;
	notes_make_all(0, 1);
	notes_pass(TS_NOTES_SLOW_NS);
	notes_leave(&notes.there);
	clock_pass(TS_NOTES_TELL_NS);
	notes_make_all(1, 1);
	notes_pass(0);
	notes.node.room = 0;
	notes_make_all(2, 1);
	notes_begin_anew(&notes.there, "g", UINT32_MAX);
	notes_pass(3 * TS_NOTES_SLOW_NS);
	cr_expect(eq(u64, notes_written(), 1));
	cr_expect(eq(u32, notes_heard(2), 1));
}

static bool is_tried(void)
{
	struct ts_mail *mail = &notes.node.mail;
	bool is_used = ts_mail_is_used(mail);

	ts_write_relaxed(&mail->table->use.unused_until, UINT64_MAX);
	return is_used;
}

static void make_heard(uint32_t number)
{
	uint64_t before = notes_written();

	notes_make(number, true);
	for (unsigned i = 0; i < 1000 && notes_written() == before; i++)
		notes_pass(0);
	cr_assert(eq(u64, notes_written(), before + 1));
}

Test(notes, who_begins_to_tell_is_listened_to)
{
	(void)is_tried();
	for (uint32_t i = 0; i < 2; i++) {
		notes_pass(4 * TS_NOTES_SLOW_NS);
		cr_expect(not(is_tried()));
		make_heard(2 * i);
		cr_expect(is_tried());
		/* It only goes on. */
		make_heard(2 * i + 1);
		cr_expect(not(is_tried()));
	}
}

Test(notes, who_has_only_old_notes_to_tell_is_not_listened_to)
{
	(void)is_tried();
	notes.node.room = 1;
	notes_make(0, true);
	notes_pass(TS_NOTES_TELL_NS + SECOND);
	notes.node.room = 0;
	notes_pass(2 * TS_NOTES_SLOW_NS);
	cr_expect(eq(u32, notes_values(), 1));
	cr_expect(eq(u64, notes_written(), 0));
	cr_expect(not(is_tried()));
}

Test(notes, who_ends_takes_its_notes_away)
{
	cr_expect(not(ts_notes_clear(notes.here)), "there are none");
	notes_make_all(0, 2);
	notes_pass(SECOND);
	cr_assert(ge(int, notes_value(), 0));
	cr_assert(ts_notes_clear(notes.here));
	while (node_turn(&notes.node))
		;
	cr_expect(not(ts_notes_clear(notes.here)));
	cr_expect(eq(int, notes_value(), -1));
	/* Another job has come after all. */
	notes_make_all(2, 1);
	notes_pass(2 * TS_NOTES_SLOW_NS);
	cr_expect(eq(u64, notes_written(), 3));
}

Test(notes, who_is_no_server_of_the_list_hears_and_tells_nothing)
{
	notes_begin_anew(&notes.here, "g", UINT32_MAX);
	notes_pass(TS_NOTES_PERIOD_NS);
	notes_make_all(0, 2);
	notes_pass(SECOND);
	cr_expect(eq(uint, notes.node.stored, 0));
	ts_notes_tell_as(notes.here, 0);
	notes_pass(2 * TS_NOTES_SLOW_NS);
	cr_expect(eq(u64, notes_written(), 2));
}

Test(notes, nobody_hears_itself)
{
	notes_leave(&notes.there);
	notes_make_all(0, 2);
	notes_pass(2 * TS_NOTES_SLOW_NS);
	cr_assert(ge(int, notes_value(), 0));
	cr_expect(eq(u64, notes_written(), 0));
}

Test(notes, groups_keep_theirs)
{
	notes_begin_anew(&notes.there, "h", UINT32_MAX);
	notes_make_all(0, 2);
	notes_pass(2 * TS_NOTES_SLOW_NS);
	cr_assert(ge(int, notes_value(), 0));
	cr_expect(eq(u64, notes_written(), 0));
}

/* ---- when nothing is done --------------------------------------------------------------- */

Test(notes, nothing_while_nobody_asks_other_nodes)
{
	unsigned before = notes.node.asked;

	ts_write_relaxed(&notes.node.mail.table->samples.asked, 0);
	notes_make_all(0, 2);
	notes_pass(2 * TS_NOTES_SLOW_NS);
	cr_expect(eq(uint, notes.node.asked - before + notes.node.stored, 0));
	ts_write_relaxed(&notes.node.mail.table->samples.asked, 1);
	notes_pass(2 * TS_NOTES_SLOW_NS);
	cr_expect(eq(u64, notes_written(), 2));
}

Test(notes, nothing_without_a_journal_and_none_is_made)
{
	struct ts_attach_options options = {.ring_bytes = RING_BYTES, .job = JOB_B};
	char path[TS_PATH_BYTES], ledger[TS_PATH_BYTES];
	struct ts_store *other, *mine = notes.store;
	enum ts_reason reason;

	snprintf(options.group, sizeof(options.group), "%s.other", fixture_group());
	cr_assert(eq(int, ts_store_attach(&options, &other, &reason), 0));
	cr_assert(eq(int, ts_object_path(path, sizeof(path), options.group, "journal"), 0));
	cr_assert(eq(int, ts_object_path(ledger, sizeof(ledger), options.group, "ledger"), 0));
	notes.store = other;
	notes_begin_anew(&notes.there, "g", UINT32_MAX);
	notes.store = mine;
	notes_make_all(0, 2);
	notes_pass(2 * TS_NOTES_SLOW_NS);
	cr_expect(eq(int, access(path, F_OK), -1));
	/* From when a job makes one on. */
	cr_assert(eq(int, ts_journal_attach(other, &notes.journal), 0));
	notes_pass(2 * TS_NOTES_SLOW_NS);
	cr_expect(eq(u64, notes_written(), 2));
	notes_leave(&notes.there);
	ts_store_detach(other);
	unlink(ledger);
}

/* ---- how often -------------------------------------------------------------------------- */

Test(notes, what_stays_as_it_is_is_asked_for_seldom)
{
	/* Node b has no notes: it is asked for after 0, .5, 1.5, 3.5, 5.5, 7.5 and 9.5 s; and
	 * so is our own server, where another helper may tell. */
	notes_leave(&notes.there);
	notes.node.asked = 0;
	notes_begin_anew(&notes.here, "g", 0);
	notes_pass(10 * SECOND);
	cr_expect(eq(uint, notes.node.asked, 2 * 7));
	cr_expect(eq(uint, notes.node.stored, 0));
}

Test(notes, what_is_new_is_told_once_in_a_period)
{
	for (uint32_t i = 0; i < 40; i++) {
		notes_make(i, true);
		notes_pass(TS_NOTES_PERIOD_NS / 10 - 10 * MS);
	}
	notes_pass(TS_NOTES_SLOW_NS);
	cr_expect(eq(u64, notes_written(), 40));
	cr_expect(eq(uint, notes.node.stored, 4), "in a second");
}

static void name_many(void)
{
	notes.nodes.count = NOTES_MANY;
	notes_leave(&notes.here);
	notes_begin_anew(&notes.there, "g", UINT32_MAX);
	notes.node.asked = 0;
}

Test(notes, many_nodes_are_asked_one_after_the_other)
{
	name_many();
	for (unsigned second = 1; second <= 4; second++) {
		notes_pass(SECOND - 10 * MS);
		cr_expect(le(uint, notes.node.asked, 200 * second));
	}
	cr_expect(ge(uint, notes.node.asked, NOTES_MANY));
}

static unsigned most;

static bool says_nothing(struct node *node, const struct command *command)
{
	most += strcmp(command->word, "mg") == 0;
	return true;
}

Test(notes, so_many_are_on_their_way_at_most)
{
	name_many();
	notes.node.lies = says_nothing;
	notes_pass(TS_TRANSFER_ANSWER_NS - 50 * MS);
	cr_expect(eq(uint, most, TS_NOTES_HEARINGS));
	/* And nobody turns round and round meanwhile. */
	cr_expect(gt(u64, ts_notes_deadline(notes.there), ts_now_ns()));
}
