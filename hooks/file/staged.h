/* SPDX-License-Identifier: MIT */
/*
 * Staged files at the border to the program: an open that may be given a copy, and calls on a
 * descriptor that is a copy and must answer as the original.
 *
 *	program's open -> the real open -> ts_staged_open() -> a copy under the same number
 *
 * There is no table of descriptors, which dup, fork, exec and sockets would make wrong: a
 * descriptor is a copy if the inode behind it is one (leader/files/index.h).  So a copy stays
 * one wherever it goes, as long as the program it gets to has us preloaded.
 *
 * Nothing here prints, allocates or changes errno; whatever fails, the program has what its own
 * call gave it.
 */
#ifndef TS_HOOKS_FILE_STAGED_H
#define TS_HOOKS_FILE_STAGED_H

#include "hooks/file/known.h"

#include <stdatomic.h>
#include <sys/stat.h>

/** Whether files are staged in this process. Constant from the constructor on. */
extern _Atomic int ts_staged_on;

/** From the constructor: see what the settings say, and where the stager is. */
void ts_staged_begin(void);

/**
 * The program opened @path with open(2) @flags as @fd, which was @call: put a copy in its place
 * if it is a file to stage.  A file that is none of ours costs a look at it, and its path if it
 * is on the same device, once a second for each directory.  At the first file that is ours,
 * joins the group (leader/group/session.h); making a copy takes as long as reading the file,
 * waiting for another process that makes it up to two seconds.
 *
 * Threads: any.  Not for a signal handler that interrupts itself here.  A vfork child passes.
 */
void ts_staged_open(int fd, const char *path, int flags, const struct ts_known_call *call);

#endif
