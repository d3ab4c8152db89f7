/* SPDX-License-Identifier: MIT */
/*
 * Two nodes over one server, for tests of notes (leader/peer/notes.h): on a virtual clock, and
 * with one journal, in whose lap OWN the jobs of one write, and in whose lap TOLD is what the
 * other hears.
 */
#ifndef TS_TESTS_UNIT_PEER_NOTES_H
#define TS_TESTS_UNIT_PEER_NOTES_H

#include "node.h"

#include "leader/journal/journal.h"
#include "leader/peer/notes.h"

#define NOTES_MANY 400

struct notes_scene {
	struct node node;
	struct ts_store *store;
	struct ts_journal *journal;
	struct ts_notes *here, *there; /* who makes, and who is told; or NULL */
	struct ts_notes *third;        /* NULL at first */
	struct ts_cluster_nodes nodes; /* a, which is .here, and b, which has no notes */
};
extern struct notes_scene notes;

void notes_begin(void);
void notes_end(void);

/** Those of another helper, in the place of @at's; @own UINT32_MAX: of no server of the list.
 */
void notes_begin_anew(struct ts_notes **at, const char *group, uint32_t own);
void notes_leave(struct ts_notes **at);

/** All turns of the loop that there are in so much time. */
void notes_pass(uint64_t ns);

/** A job here makes sample @number, and hands it over if it is @shared; so many from @from on.
 */
void notes_make(uint32_t number, bool shared);
void notes_make_all(uint32_t from, uint32_t count);

/** How many notes are in the journal that others have told of, of numbers from @from on. */
uint32_t notes_heard(uint32_t from);

/** How many were written there, ever. */
uint64_t notes_written(void);

/** Where in notes.node.values the first notes lie; -1: nowhere.  How many are there. */
int notes_value(void);
uint32_t notes_values(void);

/** Have the server say that these are what it has there. */
void notes_plant(int at, const void *bytes, size_t count);

#endif
