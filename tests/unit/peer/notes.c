/* SPDX-License-Identifier: MIT */
/* Two nodes with notes: tests/unit/peer/notes.h explains them. */
#include "notes.h"

#include "shim/atomic.h"
#include "shim/sys.h"
#include "tests/unit/clock.h"
#include "tests/unit/leader/fixture.h"

#include <stdlib.h>
#include <string.h>

#define TAG UINT64_C(77)

struct notes_scene notes;

static struct ts_ketama_server servers[NOTES_MANY];

void notes_begin_anew(struct ts_notes **at, const char *group, uint32_t own)
{
	notes_leave(at);
	cr_assert(eq(int,
		ts_notes_create(&notes.node.mail, notes.node.pool, notes.node.transfers,
			notes.store, group, &notes.nodes, at),
		0));
	if (own != UINT32_MAX)
		ts_notes_tell_as(*at, own);
}

void notes_leave(struct ts_notes **at)
{
	ts_notes_destroy(*at);
	*at = NULL;
}

void notes_begin(void)
{
	fixture_init();
	notes = (struct notes_scene){.store = fixture_attach(JOB_A)};
	for (uint32_t i = 0; i < NOTES_MANY; i++)
		servers[i] = (struct ts_ketama_server){
			.host = i == 1 ? "b" : "a", .port = (uint16_t)(i + 1), .weight = 1};
	notes.nodes = (struct ts_cluster_nodes){.count = 2, .servers = servers};
	node_begin(&notes.node, SECRET_A, 1);
	cr_assert(eq(int, ts_journal_attach(notes.store, &notes.journal), 0));
	ts_write_relaxed(&notes.node.mail.table->samples.asked, 1);
	notes_begin_anew(&notes.here, "g", 0);
	notes_begin_anew(&notes.there, "g", UINT32_MAX);
	/* From here on what is made is told. */
	notes_pass(TS_NOTES_PERIOD_NS);
}

void notes_end(void)
{
	node_end(&notes.node);
	notes_leave(&notes.here);
	notes_leave(&notes.there);
	notes_leave(&notes.third);
	ts_store_detach(notes.store);
	fixture_finish();
}

void notes_pass(uint64_t ns)
{
	for (uint64_t passed = 0; passed <= ns; passed += 10 * MS) {
		do {
			if (notes.here)
				ts_notes_step(notes.here);
			if (notes.there)
				ts_notes_step(notes.there);
			if (notes.third)
				ts_notes_step(notes.third);
		} while (node_turn(&notes.node));
		clock_pass(10 * MS);
	}
}

static struct ts_note_made note_of(uint32_t number)
{
	return (struct ts_note_made){
		.tag = TAG, .index = number, .draw = number + 3, .epoch = number + 1};
}

void notes_make(uint32_t number, bool shared)
{
	struct ts_note_made note = note_of(number);

	note.is_shared = shared;
	ts_journal_write(notes.journal, &note);
}

void notes_make_all(uint32_t from, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		notes_make(from + i, true);
}

uint32_t notes_heard(uint32_t from)
{
	uint64_t at = ts_journal_begin(
		notes.journal, TS_JOURNAL_TOLD, ts_journal_end(notes.journal, TS_JOURNAL_TOLD));
	struct ts_note_made note;
	uint32_t count = 0;

	for (; at < notes_written(); at++) {
		cr_assert(ts_journal_read(notes.journal, TS_JOURNAL_TOLD, at, &note));
		struct ts_note_made wanted = note_of(note.index);
		cr_expect(note.tag == wanted.tag && note.draw == wanted.draw &&
			  note.epoch == wanted.epoch && !note.mine && !note.is_shared);
		count += note.index >= from;
	}
	return count;
}

uint64_t notes_written(void)
{
	return ts_journal_end(notes.journal, TS_JOURNAL_TOLD);
}

int notes_value(void)
{
	for (int i = 0; i < NODE_VALUES; i++)
		if (strncmp(notes.node.values[i].key, "j1:", 3) == 0)
			return i;
	return -1;
}

uint32_t notes_values(void)
{
	uint32_t count = 0;

	for (int i = 0; i < NODE_VALUES; i++)
		count += strncmp(notes.node.values[i].key, "j1:", 3) == 0;
	return count;
}

void notes_plant(int at, const void *bytes, size_t count)
{
	free(notes.node.values[at].bytes);
	notes.node.values[at].bytes = malloc(count + 1);
	memcpy(notes.node.values[at].bytes, bytes, count);
	notes.node.values[at].count = count;
}
