/* SPDX-License-Identifier: MIT */
/* What only the original can do: giving it back to the program, and when to give no copy. */
#ifndef TS_HOOKS_FILE_STAGED_RESTORE_H
#define TS_HOOKS_FILE_STAGED_RESTORE_H

#include "shim/base.h"

/**
 * Make @fd the original's, at the same position, if it is a copy, for a call that a copy cannot
 * answer or must not suffer.  A dup(2) of @fd stays a copy, with a position of its own from
 * then on.  True: the call may be made.  False, with errno: the original cannot be had, and the
 * call must not reach the copy.  Threads: any.
 */
bool ts_staged_give_back(int fd);

/** The same before these calls, which a copy can answer in part. */
bool ts_staged_before_fcntl(int fd, int command, const void *argument);
bool ts_staged_before_ioctl(int fd, unsigned long request);
bool ts_staged_before_lockf(int fd);

/**
 * A descriptor of the original of @fd to ask in its place, the caller's to close; @fd stays
 * what it is.  Errors: -ENOENT @fd is no copy; others: the original cannot be had.  Keeps
 * errno.
 */
int ts_staged_ask_original(int fd);

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
