/* SPDX-License-Identifier: MIT */
/*
 * The journal of a ring: a log of what was made lately, newest first, for jobs that may choose
 * their next sample.  It knows numbers only; its writers and readers agree on what a tag, an
 * index and a draw are.
 *
 * It is an object of its own ("journal", leader/group/attach.h).  The first job that wants one
 * makes it; its size follows from the ring's, and it goes with the ring.
 *
 * ---- Log entry, or note: four words, certified by the last one ------------------------------
 *
 *   turn t of the lap ──fetch_add──> place t % entries ──four stores, in any order──> READ
 *
 * A writer takes the next turn and stores the three words of its note and a check of them and
 * of the turn into the place of that turn.  A reader of turn t loads the four words and keeps
 * the note if the check is that of t and of what it has loaded.  So nothing is locked, nobody
 * waits, and no order between the stores matters:
 *
 *   a writer that is killed, or stopped, in the middle leaves a place whose check is wrong, and
 *   the note is skipped until the place is used again, a lap later;
 *   a writer that goes on a lap later writes into what is another's place by now: the check of
 *   neither holds until the next lap, or the older note is read as that of its own turn, which
 *   nobody asks for any more;
 *   a reader that is slow finds another turn's check, and skips it.
 *
 * Two notes at most are lost by that.  All notes are hints: a reader asks the directory
 * whether there is such a record, and chooses only what it lacks.  So a forged note costs a
 * miss, never a wrong sample and never a sample twice.
 *
 * J1  The record is READY before its note is written; both are seen or the note is worth
 * nothing, so relaxed stores do: a reader of a note without a record skips it.
 *
 * tests/models/journal.pml says the same to Spin.
 */
#ifndef TS_LEADER_JOURNAL_JOURNAL_H
#define TS_LEADER_JOURNAL_JOURNAL_H

#include "leader/group/store.h"

/** What was made. */
struct ts_note_made {
	uint64_t tag;   /* whose: what the writers of one order have in common */
	uint32_t index; /* which of them */
	uint32_t draw;  /* and which making of it */
	uint32_t epoch; /* how far the job was that made it; no more than @draw */
	bool mine;      /* as it is read: by this job, or by one in some thousand millions */
};

struct ts_journal;

/**
 * The journal of @store, made when there is none.  Ownership: the process's, for good.
 * Threads: one at a time per process.  In the child of a fork it is to be asked for again.
 * Errors: those of ts_dependent_map(); -EINVAL not a member.
 */
int ts_journal_attach(struct ts_store *store, struct ts_journal **ret_journal);

/** Say that @note was made.  Threads, processes: any.  In a child of a fork: nothing. */
void ts_journal_write(struct ts_journal *journal, const struct ts_note_made *note);

/**
 * Turns before ts_journal_end() may be there still, from ts_journal_begin() of that @end on: as
 * many as there are places at most, whatever somebody has written over the number.
 */
uint64_t ts_journal_end(const struct ts_journal *journal);
uint64_t ts_journal_begin(const struct ts_journal *journal, uint64_t end);

/** The note of @turn; false: it is not there (any more), or not whole. */
bool ts_journal_read(
	const struct ts_journal *journal, uint64_t turn, struct ts_note_made *ret_note);

#endif
