/* SPDX-License-Identifier: MIT */
/* What the files of staging at the border to the program share. */
#ifndef TS_HOOKS_FILE_STAGED_PRIVATE_H
#define TS_HOOKS_FILE_STAGED_PRIVATE_H

#include "leader/group/session.h"
#include "leader/files/stage.h"

/**
 * The copies of @session's group, joined when they are not yet; NULL while they cannot be
 * (tried again after a second).  Threads: any; one joins while the others get NULL.
 */
struct ts_stage *ts_staged_join(const struct ts_session *session);

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

/** The copies of this process's group, joined if need be; NULL while they cannot be. Any
 * thread.
 */
struct ts_stage *ts_known_stage(void);

/** When this process changed something last, as ts_stage_now_ms(): nothing older counts. */
uint64_t ts_known_changed_ms(void);

/** Attributes of an original as stat(2) tells them. */
void ts_staged_fill(const struct ts_stage_attributes *was, struct stat *ret_stat);

/**
 * What there is to know of a file that may be ours, as fresh as @sync (AT_STATX_*) asks for.
 * Without the time of its last use: where somebody has read it since, FUSE would have to ask
 * the storage for that.  Errors: those of statx(2).  Keeps errno.
 */
int ts_staged_look(int fd, int sync, struct stat *ret_stat);

/** Whether @stat's file was changed so recently that its times cannot tell the next change. */
bool ts_staged_is_young(const struct stat *stat);

/**
 * Whether this process has set an fcntl(2) lock on the file with inode @inode, of the
 * directory's device, or on one beside @path, which is its path.  Threads: any.
 */
bool ts_staged_is_locked(uint64_t inode, const char *path);

/** Whether it has locked any. */
bool ts_staged_has_locks(void);

/**
 * A copy was given out; and: whether this process has given back most of those it got.  HDF5
 * locks each file that it opens: to copy it first would be to read it twice.  Threads: any.
 */
void ts_staged_note_given(void);
bool ts_staged_is_unwanted(void);

#endif
