/* SPDX-License-Identifier: MIT */
/* What the files of staging at the border to the program share. */
#ifndef TS_HOOKS_FILE_STAGED_PRIVATE_H
#define TS_HOOKS_FILE_STAGED_PRIVATE_H

#include "leader/session.h"
#include "leader/stage.h"

/**
 * The copies of @session's group, joined when they are not yet; NULL while they cannot be
 * (tried again after a second).  Threads: any; one joins while the others get NULL.
 */
struct ts_stage *ts_staged_join(const struct ts_session *session);

/**
 * Whether a file with attributes @copy is a copy, what its original's are, and its path if
 * @ret_path (PATH_MAX bytes) is not NULL.  Looks for the group's index where this process has
 * not joined it.  Changes nothing in a vfork child.  Keeps errno.
 */
bool ts_staged_find(
	const struct stat *copy, struct ts_stage_attributes *ret_attributes, char *ret_path);

/** Whether this process has locked the file with inode @inode, of the directory's device. */
bool ts_staged_is_locked(uint64_t inode);

#endif
