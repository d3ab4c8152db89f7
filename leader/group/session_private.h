/* SPDX-License-Identifier: MIT */
/*
 * What the parts of a session have in common: session.c joins and counts,
 * leader/line/at_exit.c leaves.  Nobody else's.
 */
#ifndef TS_LEADER_GROUP_SESSION_PRIVATE_H
#define TS_LEADER_GROUP_SESSION_PRIVATE_H

#include "leader/group/ledger.h"
#include "leader/group/session.h"
#include "shim/atomic.h"

/** This process's session; complete before it is shown. */
extern struct ts_session ts_session_own;

/** &ts_session_own while it may be used, else NULL: written with release, read with acquire. */
extern struct ts_session *_Atomic ts_session_shown;

/** What cannot be counted in the ledger yet.  Threads: any add, one at a time takes out. */
extern struct ts_job_row ts_session_waiting;

/**
 * Join the store of our group and find our rows; nothing is shown yet.
 * Threads: one at a time.  Errors: of ts_store_attach(), with its *ret_reason.
 */
int ts_session_attach(enum ts_reason *ret_reason);

/**
 * Let a ledger, if there is one, have what waits for it, and let a job that ends here end
 * there, too: it may be there without a ring, for `tsrun stats` and the line of the process
 * that has started this one.
 */
void ts_session_leave_counts(void);

/** Find the rows in @ledger of our data set and our job, or take free ones.  Threads: one. */
void ts_session_find_rows(struct ts_ledger *ledger);

/**
 * Count in our rows of @ledger what waits; what other threads add meanwhile goes on waiting.
 * Threads: one at a time.
 */
void ts_session_flush(struct ts_ledger *ledger);

/**
 * This process has joined the group of @ledger, for the job in row @job: start a recorder if
 * that is wanted and there is none, which waits as long as ts_helper_start() does.  Of the room
 * above (leader/events/recorder.c).
 *
 * Threads: one at a time.  Not for a vfork child or a signal handler.  Keeps errno.
 */
void ts_recorder_begin(struct ts_ledger *ledger, uint32_t job);

#endif
