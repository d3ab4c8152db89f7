/* SPDX-License-Identifier: MIT */
/*
 * Staged files at the border to the program: an open that may be given a copy, and calls on a
 * descriptor that is a copy and must answer as the original.
 *
 *	program's open -> the real open -> ts_staged_open() -> a copy under the same number
 *
 * An open may be given a copy if it is for plain reading, of a regular file that is old enough
 * and lies under the directory (hooks/file/staged_root.h).  A call that needs the original
 * gets it back under the same number, at the same position: ts_staged_give_back().
 *
 * There is no table of descriptors, which dup, fork, exec and sockets would make wrong: a
 * descriptor is a copy if the inode behind it is one (leader/files/index.h).  So a copy stays
 * one wherever it goes, as long as the program it gets to has us preloaded.
 *
 * Nothing here prints, allocates or changes errno; whatever fails, the program has what its
 * own call gave it.
 */
#ifndef TS_HOOKS_FILE_STAGED_H
#define TS_HOOKS_FILE_STAGED_H

#include "shim/atomic.h"
#include "shim/base.h"

#include <sys/stat.h>

struct ts_stage;
struct ts_stage_attributes;

/** Whether files are staged in this process. Constant from the constructor on. */
extern _Atomic int ts_staged_on;

static inline bool ts_staged_is_on(void)
{
	return TS_UNLIKELY(ts_load_relaxed(&ts_staged_on));
}

/** From the constructor: see what the settings say, and where the stager is. */
void ts_staged_begin(void);

/* ---- opening ----------------------------------------------------------------------------- */

/** A copy that the program was given. */
struct ts_staged_given {
	uint64_t copy; /* its inode */
	bool is_made;  /* by this process now */
};

/**
 * The program opened @path with open(2) @flags as @fd: put a copy in its place if it is a file
 * to stage; whether that was done.  A file that is none of ours costs a look at it, and its
 * path if it is on the same device, once a second for each directory.  At the first file that
 * is ours, joins the group (leader/group/session.h); making a copy takes as long as reading the
 * file, waiting for another process that makes it up to two seconds.
 *
 * Threads: any.  Not for a signal handler that interrupts itself here.  A vfork child passes.
 */
bool ts_staged_open(int fd, const char *path, int flags, struct ts_staged_given *ret_given);

/**
 * Whether this process may be given copies: not while it has locked a file of the directory,
 * nor when it has given back most of those it got.  And: a copy of @bytes, which another
 * process has made, was given to it.  Threads: any.
 */
bool ts_staged_wants_copies(void);
void ts_staged_count_shared(uint64_t bytes);

/* ---- this process's way to the copies of its group --------------------------------------- */

/** The copies of the group, entered if need be; NULL while they cannot be had, which is tried
 * again after a second.  Threads: any; one joins while the others get NULL.  A vfork child
 * enters none. */
struct ts_stage *ts_staged_enter(void);

/** The same where this process, which may be a fork child, has joined; else NULL. Any thread.
 */
struct ts_stage *ts_staged_joined(void);

/**
 * The index of the group, of which this process need not be a member, to tell it something at
 * once; NULL where there is none.  A vfork child gets it only where its parent had joined.
 * Threads: any.
 */
struct ts_stage *ts_staged_index(void);

/* ---- answering for originals ------------------------------------------------------------- */

/** Put what the index says of an original into @stat, whose other fields stay. */
void ts_staged_fill(const struct ts_stage_attributes *was, struct stat *stat);

/** If @stat tells of a copy, let it tell of the original. Async-signal-safe once joined. */
void ts_staged_answer(struct stat *stat);

/** The same for statx(2) of @fd, if @path is NULL or empty. */
void ts_staged_answer_x(int fd, const char *path, struct statx *stat);

/**
 * readlinkat(2) of @path gave @length bytes in @buffer: if they name a copy, let them name the
 * original.  Returns the length then.
 */
int64_t ts_staged_answer_name(
	int directory, const char *path, char *buffer, size_t bytes, int64_t length);

/* ---- what only the original can do ------------------------------------------------------- */

/**
 * Make @fd the original's, at the same position, if it is a copy, for a call that a copy cannot
 * answer or must not suffer.  A dup(2) of @fd stays a copy, with a position of its own from
 * then on.  True: the call may be made.  False, with errno: the original cannot be had, and the
 * call must not reach the copy.  Threads: any.
 */
bool ts_staged_give_back(int fd);

/** The same before these calls, which a copy can answer in part. */
bool ts_staged_before_fcntl(int fd, int command, const void *argument);
bool ts_staged_before_ioctl(int fd, unsigned long request, const void *argument);
bool ts_staged_before_lockf(int fd);

/**
 * A descriptor of the original of @fd to ask in its place, the caller's to close; @fd stays
 * what it is.  Errors: -ENOENT @fd is no copy; others: the original cannot be had.  Keeps
 * errno.
 */
int ts_staged_ask_original(int fd);

/**
 * Before a call that depends on where what @path leads to lies, relative to @directory.  The
 * path may be empty, with AT_EMPTY_PATH in @flags, or that of an open file of this process in
 * /proc or /dev: a copy becomes the original then, as ts_staged_give_back() does.  False, with
 * errno: the call must not reach the copy.  Threads: any.
 */
bool ts_staged_before_path(int directory, const char *path, int flags);

/**
 * Whether @address lies on the first page or the last one, as NULL, 1 and -1 do: then the
 * kernel shall say so.  Only a system call could tell whether any other leads nowhere.
 */
static inline bool ts_staged_is_nowhere(const void *address)
{
	const uintptr_t page = 4096;
	return (uintptr_t)address + page < 2 * page;
}

/** Whether the call is about @directory itself: the path is empty, and that is allowed. */
bool ts_staged_is_itself(const char *path, int flags);

/**
 * Before @to gets the bytes of @from within the kernel.  Where they lie on one file system, or
 * seem to, @from becomes the original if it can; where they do not, the kernel refuses a copy
 * as it would the original, and the program reads the copy.  Keeps errno.  Threads: any.
 */
void ts_staged_before_clone(int from, int to);

#endif
