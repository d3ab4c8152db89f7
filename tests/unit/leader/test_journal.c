/* SPDX-License-Identifier: MIT */
/* The journal of a ring: what is read is what was written, whole, or nothing. */
#include "fixture.h"
#include "leader/journal/journal_private.h"
#include "shim/identity.h"
#include "shim/sys.h"
#include "leader/slots/device_private.h"

static struct ts_journal *journal_of(struct ts_store *store)
{
	struct ts_journal *journal = NULL;

	cr_assert(eq(int, ts_journal_attach(store, &journal), 0));
	return journal;
}

static struct ts_note_made note_of(uint64_t number)
{
	return (struct ts_note_made){.tag = number * 3,
		.index = (uint32_t)number * 5,
		.draw = (uint32_t)number + 7,
		.epoch = (uint32_t)number};
}

static bool is_note_of(const struct ts_note_made *note, uint64_t number)
{
	struct ts_note_made wanted = note_of(number);

	return note->tag == wanted.tag && note->index == wanted.index &&
	       note->draw == wanted.draw && note->epoch == wanted.epoch;
}

/* Notes from 0 on, or whatever number the journal's turns have come to. */
static void write_notes(struct ts_journal *journal, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		struct ts_note_made note = note_of(ts_journal_end(journal));
		ts_journal_write(journal, &note);
	}
}

/* How many can be read, all of which must be right. */
static uint64_t readable(const struct ts_journal *journal)
{
	uint64_t found = 0;
	struct ts_note_made note;

	for (uint64_t turn = ts_journal_begin(journal, ts_journal_end(journal));
		turn < ts_journal_end(journal); turn++) {
		if (!ts_journal_read(journal, turn, &note))
			continue;
		cr_expect(is_note_of(&note, turn), "turn %lu", turn);
		found++;
	}
	return found;
}

static struct ts_journal *mine; /* of joined.a */
static struct ts_note_made note;

static void begin(void)
{
	fixture_alone_init();
	mine = journal_of(joined.a);
}

TestSuite(journal, .init = begin, .fini = fixture_finish);

Test(journal, others_read_what_was_written)
{
	struct ts_journal *other = journal_of(fixture_attach(JOB_B));

	cr_expect(eq(u64, ts_journal_end(other), 0));
	cr_expect(not(ts_journal_read(other, 0, &note)), "a new place");
	write_notes(mine, 5);
	cr_assert(ts_journal_read(mine, 4, &note) && note.mine);
	cr_assert(ts_journal_read(other, 4, &note));
	cr_expect(not(note.mine));
	cr_expect(eq(u64, ts_journal_begin(other, ts_journal_end(other)), 0));
	cr_expect(eq(u64, ts_journal_end(other), 5));
	cr_expect(eq(u64, readable(other), 5));
	cr_expect(not(ts_journal_read(other, 5, &note)), "to come");
}

Test(journal, of_more_than_there_is_room_for_the_newest_are_there)
{
	uint64_t count = (uint64_t)mine->entries + 3;

	write_notes(mine, count);
	cr_expect(eq(u64, ts_journal_begin(mine, ts_journal_end(mine)), 3));
	cr_expect(eq(u64, readable(mine), mine->entries));
	cr_expect(not(ts_journal_read(mine, 2, &note)), "overwritten");
}

Test(journal, how_many_there_are_follows_from_the_ring)
{
	cr_expect(eq(u32, ts_journal_entries(0), TS_JOURNAL_MIN));
	cr_expect(eq(u32, ts_journal_entries(UINT64_C(256) << 20), 16384));
	cr_expect(eq(u32, ts_journal_entries((UINT64_C(256) << 20) + 65536), 32768));
	cr_expect(eq(u32, ts_journal_entries(UINT64_C(1) << 40), TS_JOURNAL_MAX));
}

Test(journal, torn_and_foreign_notes_are_skipped)
{
	struct ts_journal_entry *entry = mine->table->entry;
	_Atomic uint64_t *const words[] = {
		&entry[1].tag, &entry[2].which, &entry[3].made, &entry[4].check};

	write_notes(mine, 6);
	for (unsigned i = 0; i < TS_ARRAY_SIZE(words); i++)
		ts_write_relaxed(words[i], ts_load_relaxed(words[i]) ^ 1);
	/* A whole note of another turn. */
	memcpy(&entry[5], &entry[0], sizeof(entry[0]));
	cr_expect(eq(u64, readable(mine), 1));
	cr_expect(ts_journal_read(mine, 0, &note));
}

Test(journal, a_squatter_may_write_what_it_likes)
{
	write_notes(mine, 3);
	for (uint64_t turn = UINT64_MAX; turn > UINT64_MAX - 4; turn--) {
		ts_write_relaxed(&mine->table->next, turn);
		uint64_t end = ts_journal_end(mine);
		cr_expect(eq(u64, end - ts_journal_begin(mine, end), mine->entries));
		cr_expect(not(ts_journal_read(mine, turn - 1, &note)));
	}
	note = note_of(1);
	ts_journal_write(mine, &note);
	ts_journal_write(mine, &note);
}

static int write_as_child(void *unused)
{
	struct ts_journal *own;

	note = note_of(2);
	ts_journal_write(mine, &note); /* the parent's: nothing */
	if (ts_journal_end(mine) != 2 || ts_store_after_fork(joined.a) < 0 ||
		ts_journal_attach(joined.a, &own) < 0 || own == mine)
		return 1;
	ts_journal_write(own, &note);
	return 0;
}

Test(journal, a_child_has_its_own_view)
{
	fixture_detach(joined.a);
	ts_identity_init(); /* it notices forks */
	joined.a = fixture_attach(JOB_A);
	mine = journal_of(joined.a);
	write_notes(mine, 2);
	cr_expect(eq(int, fixture_fork(write_as_child, NULL), 0));
	cr_expect(eq(u64, readable(mine), 3));
}

static int die_at(void *context)
{
	setenv("TSSHIM_TEST_KILL", context, 1);
	write_notes(journal_of(fixture_attach(JOB_B)), 1);
	return 0;
}

Test(journal, whoever_dies_while_it_writes_loses_a_note)
{
	static char points[][16] = {"journal_turn", "journal_tag", "journal_made"};

	for (unsigned i = 0; i < TS_ARRAY_SIZE(points); i++) {
		write_notes(mine, 1);
		cr_assert(fixture_is_killed(die_at, points[i]), "%s", points[i]);
		cr_expect(eq(u64, ts_journal_end(mine), 2 * i + 2));
		cr_expect(eq(u64, readable(mine), i + 1));
	}
	/* A lap later its places are used again. */
	write_notes(mine, mine->entries);
	cr_expect(eq(u64, readable(mine), mine->entries));
}

Test(journal, goes_with_the_ring)
{
	cr_expect(fixture_exists("journal"));
	fixture_detach(joined.a);
	cr_expect(not(fixture_exists("journal") || fixture_exists("ring")));
}

Test(journal, one_of_another_ring_is_replaced)
{
	struct stat before, after;

	write_notes(mine, 2);
	cr_assert(eq(int, stat(fixture_path("journal"), &before), 0));
	cr_assert(eq(int, unlink(fixture_path("ring")), 0));
	struct ts_journal *journal = journal_of(fixture_attach(JOB_B));
	cr_assert(eq(int, stat(fixture_path("journal"), &after), 0));
	cr_expect(ne(u64, before.st_ino, after.st_ino));
	cr_expect(eq(u64, readable(journal), 0));
	cr_expect(eq(u64, readable(mine), 2), "its users keep theirs");
}

/* ---- what lies in the directory --------------------------------------------------------- */

Test(journal, a_peek_sees_what_there_is_and_changes_nothing)
{
	struct ts_store *b = fixture_attach(JOB_B);
	struct ts_key made = fixture_key(1, 1), ghost = fixture_key(2, 2),
		      none = fixture_key(3, 3);

	cr_expect(eq(int, fixture_take(joined.a, ghost).verdict, TS_PASS));
	for (int i = 0; i < 2; i++) {
		cr_expect(eq(int, ts_store_peek(b, &ghost), TS_MADE_ALONE));
		cr_expect(eq(int, ts_store_peek(b, &none), TS_ABSENT));
		cr_expect(eq(int, ts_store_peek(b, &made), TS_ABSENT));
	}
	fixture_capture(joined.a, true);
	fixture_publish(joined.a, made, 1000, 5);
	cr_expect(eq(int, ts_store_peek(b, &made), TS_PRESENT));
	cr_expect(fixture_hits(b, made, 1000, 5));
	/* Until its segment is somebody else's. */
	uint64_t capacity, used;
	fixture_usage(joined.a, &capacity, &used);
	for (uint32_t i = 0; i < 2 * capacity / 200000; i++) {
		fixture_capture(joined.a, true); /* of what nobody takes it is given up */
		fixture_publish(joined.a, fixture_key(10 + i, 10 + i), 200000, 1);
	}
	cr_expect(ne(int, ts_store_peek(b, &made), TS_PRESENT));
}

/* The shared words keep what is put into them, and fields do not touch each other. */

Test(words, of_members_and_entries)
{
	uint64_t process = (UINT64_C(0x3abcdef) << 24) | 4194303;
	uint64_t word = ts_member_pack(TS_MEMBER_CLEANING, 0x3fff, process);

	cr_expect(eq(int, ts_member_state(word), TS_MEMBER_CLEANING));
	cr_expect(eq(u32, ts_member_generation(word), 0x3fff));
	cr_expect(eq(int, ts_member_pid(word), 4194303));
	cr_expect(ts_member_names(word, process));
	cr_expect(not(ts_member_names(word, process + 1)));
	cr_expect(not(ts_member_names(word, process + (1 << 24))));
	cr_expect(eq(u64, ts_member_pack(TS_MEMBER_FREE, 0x4000, 0), 0), "it wraps");

	word = ts_entry_pack(TS_ENTRY_CLAIM, 1023, 0x3ffff, 0xdeadbeef);
	cr_expect(eq(int, ts_entry_state(word), TS_ENTRY_CLAIM));
	cr_expect(eq(u32, ts_entry_owner(word), 1023));
	cr_expect(eq(u32, ts_entry_generation(word), 0x3ffff));
	cr_expect(eq(u32, ts_entry_tag(word), 0xdeadbeef));
	cr_expect(eq(u64, word & TS_ENTRY_WAITED, 0));
	/* The state changes alone, and then nobody waits. */
	word = ts_entry_pack(TS_ENTRY_CLAIM, 7, 9, 11) | TS_ENTRY_WAITED;
	cr_expect(eq(u64, ts_entry_with_state(word, TS_ENTRY_READY),
		ts_entry_pack(TS_ENTRY_READY, 7, 9, 11)));
	/* A sleeper compares the low half only: owner, generation and state must be in it. */
	uint32_t one = (uint32_t)ts_entry_pack(TS_ENTRY_CLAIM, 1, 1, 5);
	cr_expect(ne(u32, one, (uint32_t)ts_entry_pack(TS_ENTRY_CLAIM, 2, 1, 5)));
	cr_expect(ne(u32, one, (uint32_t)ts_entry_pack(TS_ENTRY_CLAIM, 1, 2, 5)));
	cr_expect(ne(u32, one, (uint32_t)ts_entry_pack(TS_ENTRY_READY, 1, 1, 5)));
}

Test(words, of_segments_places_and_leases)
{
	uint64_t where = ts_where_pack(0x3fffff, 4095, 0xffffffff);
	uint64_t word = ts_segment_pack(TS_SEGMENT_DRAIN, 1023, 0xfedcba98);

	cr_expect(eq(u32, ts_where_offset(where), 0x3fffff));
	cr_expect(eq(u32, ts_where_segment(where), 4095));
	cr_expect(ts_where_fits(where, 0xffffffff));
	cr_expect(ts_where_fits(where, 0x3fffffff), "only 30 bits are kept");
	cr_expect(not(ts_where_fits(where, 0xfffffffe)));
	cr_expect(eq(int, ts_segment_state(word), TS_SEGMENT_DRAIN));
	cr_expect(eq(u32, ts_segment_owner(word), 1023));
	cr_expect(eq(u32, ts_segment_generation(word), 0xfedcba98));
	cr_expect(not(ts_segment_readable(word)));
	cr_expect(ts_segment_readable(ts_segment_pack(TS_SEGMENT_OPEN, 0, 0)));
	cr_expect(ts_segment_readable(ts_segment_pack(TS_SEGMENT_SEALED, 0, 0)));
	cr_expect(ne(u64, ts_lease_pack(0, 0), 0), "a pin is never zero");
	cr_expect(ne(u64, ts_lease_pack(1, 0), ts_lease_pack(0, 1)));
}

Test(words, of_device_memory)
{
	const uint64_t turn = (UINT64_C(1) << 36) - 1;
	const uint32_t most = UINT32_MAX;
	uint64_t word = ts_device_ring_pack(TS_RING_CLOSING, 1023, 0x3fff, 0xfedcba98);

	cr_expect(eq(int, ts_device_ring_state(word), TS_RING_CLOSING));
	cr_expect(eq(u32, ts_device_ring_owner(word), 1023));
	cr_expect(eq(u32, ts_device_ring_tenure(word), 0x3fff));
	cr_expect(eq(u32, ts_device_ring_generation(word), 0xfedcba98));
	word = ts_device_ring_pack(TS_RING_EMPTY, 0, 0, 1);
	cr_expect(eq(u32, ts_device_ring_owner(word), 0));
	cr_expect(eq(u32, ts_device_ring_tenure(word), 0));

	word = ts_device_slot_pack(TS_SLOT_LOST, 1023, 0x3fff, turn);
	cr_expect(eq(int, ts_device_slot_state(word), TS_SLOT_LOST));
	cr_expect(eq(u32, ts_device_slot_owner(word), 1023));
	cr_expect(eq(u32, ts_device_slot_tenure(word), 0x3fff));
	cr_expect(eq(u64, ts_device_slot_turn(word), turn));
	cr_expect(eq(u64, word & TS_DEVICE_WAITED, 0));
	word = ts_device_slot_pack(TS_SLOT_WRITING, 7, 9, 11) | TS_DEVICE_WAITED;
	cr_expect(eq(u64, ts_device_slot_with(word, TS_SLOT_READY),
		ts_device_slot_pack(TS_SLOT_READY, 7, 9, 11)));
	cr_expect(eq(u32, ts_device_slot_tenure(word), 9));

	word = ts_device_pin_pack(0x3fff, TS_DEVICE_RINGS - 1, TS_DEVICE_SLOTS - 1, most);
	cr_expect(eq(u32, ts_device_pin_tenure(word), 0x3fff));
	cr_expect(ne(u64, ts_device_pin_pack(0, 0, 0, 0), 0));
	/* No field reaches into another one. */
	cr_expect(eq(u64,
		ts_device_pin_pack(0x3fff, 0, 0, 0) | ts_device_pin_pack(0, 63, 0, 0) |
			ts_device_pin_pack(0, 0, 63, 0) | ts_device_pin_pack(0, 0, 0, most),
		word));
	cr_expect(eq(int, __builtin_popcountll(word), 1 + 14 + 6 + 6 + 32));
}
