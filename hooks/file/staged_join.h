/* SPDX-License-Identifier: MIT */
/* This process's way to its group's copies of files: joining, and finding what is a copy. */
#ifndef TS_HOOKS_FILE_STAGED_JOIN_H
#define TS_HOOKS_FILE_STAGED_JOIN_H

#include "leader/group/session.h"
#include "leader/files/stage.h"

/**
 * The copies of @session's group, joined when they are not yet; NULL while they cannot be
 * (tried again after a second).  Threads: any; one joins while the others get NULL.
 */
struct ts_stage *ts_staged_join(const struct ts_session *session);

/** The same for this process's group, entered if need be.  A vfork child enters none. */
struct ts_stage *ts_staged_enter(void);

/** The same where this process, which may be a fork child, has joined; else NULL. Any thread.
 */
struct ts_stage *ts_staged_joined(void);

/**
 * The index of the group, of which this process need not be a member, to tell it of a change
 * at once; NULL where there is none.  Not for a vfork child.  Threads: any.
 */
struct ts_stage *ts_staged_for_changes(void);

/**
 * Whether a file with attributes @copy is a copy, what its original's are, and its path if
 * @ret_path (PATH_MAX bytes) is not NULL.  Looks for the group's index where this process has
 * not joined it.  Changes nothing in a vfork child.  Keeps errno.
 */
bool ts_staged_find(
	const struct stat *copy, struct ts_stage_attributes *ret_attributes, char *ret_path);

#endif
