/* SPDX-License-Identifier: MIT */
/* Notes between nodes, with a server that lies, or is silent. */
#include "notes.h"

#include "shim/sys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(notes_hostile, .init = notes_begin, .fini = notes_end);

static uint64_t counted(enum ts_mail_counter counter)
{
	return node_counter(&notes.node, counter);
}

/* Three notes are at the server, which nobody has read.  Returns where. */
static int tell_three(void)
{
	notes_leave(&notes.there);
	notes_make_all(0, 3);
	notes_pass(SECOND);
	notes_leave(&notes.here);
	cr_assert(ge(int, notes_value(), 0));
	return notes_value();
}

/* ---- what was sealed -------------------------------------------------------------------- */

/* Only who has the secret can: another version of this library, or a fault. */
static void seal(int at, struct ts_notes_value *value, uint64_t bytes)
{
	static unsigned char made[sizeof(struct ts_value_head) + 2 * sizeof(*value)];
	struct ts_value_head head;
	char key[80];

	snprintf(key, sizeof(key), "%s", notes.node.values[at].key);
	*strrchr(key, ':') = '\0';
	const struct ts_value_place place = {
		.key = key, .key_bytes = strlen(key), .total = bytes, .generation = 1};
	cr_assert(eq(int,
		ts_value_seal(ts_transfers_sealer(notes.node.transfers), &place, value, &head),
		0));
	memcpy(made, &head, sizeof(head));
	memcpy(made + sizeof(head), value, bytes);
	notes_plant(at, made, sizeof(head) + bytes);
}

/* clang-format off */
#define FORGERIES(X) \
	X(another_version, value->version++) \
	X(no_life, value->life = 0) \
	X(more_than_there_are, value->count++) \
	X(fewer_than_there_are, value->count--) \
	X(far_too_many, value->count = UINT32_MAX) \
	X(numbers_that_overflow, value->first = UINT64_MAX) \
	X(no_tag, value->notes[1].tag = 0) \
	X(no_index, value->notes[1].index = UINT32_C(1) << 31) \
	X(no_draw, value->notes[1].draw = TS_NOTES_DRAWS) \
	X(an_epoch_to_come, value->notes[1].epoch = value->notes[1].draw + 1) \
	X(something_more, value->notes[1].zero = 1) \
	X(bytes_behind_it, *bytes += 8) \
	X(no_bytes, *bytes = 0) \
	X(half_a_head, *bytes = 12) \
	X(more_than_any, *bytes = sizeof(*value) + 8)
/* clang-format on */

#define TS_X(name, what)                                                        \
	static void forge_##name(struct ts_notes_value *value, uint64_t *bytes) \
	{                                                                       \
		what;                                                           \
	}
FORGERIES(TS_X)
#undef TS_X

Test(notes_hostile, what_was_sealed_and_makes_no_sense_is_not_taken)
{
	static const struct {
		const char *name;
		void (*forge)(struct ts_notes_value *value, uint64_t *bytes);
	} forgeries[] = {
#define TS_X(name, what) {#name, forge_##name},
		FORGERIES(TS_X)
#undef TS_X
	};
	static struct ts_notes_value good, values[2]; /* what is sealed may be longer */
	int at = tell_three();
	uint64_t bytes = notes.node.values[at].count - sizeof(struct ts_value_head);

	memcpy(&good, notes.node.values[at].bytes + sizeof(struct ts_value_head), bytes);
	cr_assert(eq(int, ts_notes_check(&good, bytes), 0));
	for (unsigned i = 0; i < TS_ARRAY_SIZE(forgeries); i++) {
		uint64_t forged = bytes;
		values[0] = good;
		forgeries[i].forge(&values[0], &forged);
		seal(at, values, forged);
		notes_begin_anew(&notes.there, "g", UINT32_MAX);
		uint64_t failed = counted(TS_MAIL_COUNT_FAILED);
		notes_pass(0);
		cr_expect(eq(u64, notes_written(), 0), "%s", forgeries[i].name);
		cr_expect(eq(u64, counted(TS_MAIL_COUNT_FAILED), failed + 1), "%s",
			forgeries[i].name);
	}
	seal(at, &good, bytes);
	notes_pass(2 * TS_NOTES_SLOW_NS);
	cr_expect(eq(u32, notes_heard(0), 3));
}

/* ---- what was not ----------------------------------------------------------------------- */

Test(notes_hostile, what_nobody_has_sealed_is_not_taken)
{
	int at = tell_three();
	size_t whole = notes.node.values[at].count;
	unsigned char *bytes = malloc(whole);
	unsigned read = 0;

	memcpy(bytes, notes.node.values[at].bytes, whole);
	for (size_t i = 0; i < whole; i += 5, read++) {
		notes_begin_anew(&notes.there, "g", UINT32_MAX);
		notes.node.values[at].bytes[i] ^= 4;
		notes_pass(0);
		notes.node.values[at].bytes[i] ^= 4;
		cr_expect(eq(u64, notes_written(), 0), "%zu", i);
	}
	for (size_t count = 0; count < whole; count += 7, read++) {
		notes_begin_anew(&notes.there, "g", UINT32_MAX);
		notes_plant(at, bytes, count);
		notes_pass(0);
		cr_expect(eq(u64, notes_written(), 0), "%zu", count);
	}
	cr_expect(eq(u64, counted(TS_MAIL_COUNT_REFUSED), read));
	notes_begin_anew(&notes.there, "g", UINT32_MAX);
	notes_plant(at, bytes, whole);
	notes_pass(0);
	cr_expect(eq(u32, notes_heard(0), 3));
	free(bytes);
}

/* A server may give what another node, or another group, has told. */
Test(notes_hostile, what_was_sealed_for_another_key_is_not_taken)
{
	int at = tell_three(), other = 0;

	notes_begin_anew(&notes.here, "h", 0);
	notes_pass(0);
	notes_make_all(3, 1);
	notes_pass(2 * TS_NOTES_PERIOD_NS);
	while (other == at || strncmp(notes.node.values[other].key, "j1:", 3) != 0)
		other++;
	notes_plant(at, notes.node.values[other].bytes, notes.node.values[other].count);
	notes_leave(&notes.here);
	notes_begin_anew(&notes.there, "g", UINT32_MAX);
	notes_pass(0);
	cr_expect(eq(u64, notes_written(), 0));
	cr_expect(eq(u64, counted(TS_MAIL_COUNT_REFUSED), 1));
	/* Where it belongs it is taken. */
	notes_begin_anew(&notes.there, "h", UINT32_MAX);
	notes_pass(0);
	cr_expect(eq(u32, notes_heard(3), 1));
}

Test(notes_hostile, with_another_secret_it_is_not_taken)
{
	struct ts_secrets secrets;

	(void)tell_three();
	cr_assert(eq(int, ts_secrets_parse(SECRET_B, strlen(SECRET_B), &secrets), 0));
	cr_assert(eq(int, ts_transfers_set_secrets(notes.node.transfers, &secrets), 0));
	notes_begin_anew(&notes.there, "g", UINT32_MAX);
	notes_pass(0);
	cr_expect(eq(u64, notes_written(), 0));
	cr_expect(eq(u64, counted(TS_MAIL_COUNT_REFUSED), 1));
	ts_secrets_finish(&secrets);
}

Test(notes_hostile, a_server_that_is_silent_costs_nothing_but_notes)
{
	notes.node.is_silent = true;
	notes_make_all(0, 2);
	notes_pass(30 * SECOND);
	cr_expect(eq(u64, notes_written(), 0));
	cr_expect(ge(u64, counted(TS_MAIL_COUNT_FAILED), 3));
	/* What its breaker forbids was not asked for. */
	cr_expect(eq(u64, counted(TS_MAIL_COUNT_CLOSED), 0));
	notes.node.is_silent = false;
	notes_pass(60 * SECOND);
	notes_make_all(10, 2);
	notes_pass(10 * SECOND);
	cr_expect(eq(u32, notes_heard(10), 2));
}
