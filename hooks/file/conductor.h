/* SPDX-License-Identifier: MIT */
/*
 * What happens around a call that we export, and in which order: the exports know this and the
 * next definitions, and the rooms behind it know nothing of each other's turn.
 *
 *	open   known path? its copy, listed : the real open -> listed -> a copy put in its place
 *	stat   known path? what is known    : the real stat -> now it is known
 *	       by descriptor                : the real stat -> a copy answers as its original
 *	deed   the original is given back -> the real call -> the group forgets it
 *
 * The questions are inline, and where nothing is on each is one load.  What a real call does
 * not have to be made for has the answer in errno as well; else errno is the real call's.
 */
#ifndef TS_HOOKS_FILE_CONDUCTOR_H
#define TS_HOOKS_FILE_CONDUCTOR_H

#include "hooks/file/known.h"
#include "hooks/file/opens.h"
#include "hooks/file/staged.h"
#include "hooks/file/staged_answer.h"
#include "hooks/file/staged_restore.h"
#include "hooks/file/staged_through.h"
#include "shim/atomic.h"

#include <fcntl.h>
#include <stdio.h>

/* ---- what is on ------------------------------------------------------------------------- */

/** Whether files are staged, and whether paths are known. */
static inline bool ts_file_is_staging(void)
{
	return TS_UNLIKELY(ts_load_relaxed(&ts_staged_on));
}

static inline bool ts_file_knows_paths(void)
{
	return TS_UNLIKELY(ts_load_relaxed(&ts_known_seconds));
}

/** Whether somebody wants to hear of what this thread opens. */
static inline bool ts_file_is_watched(void)
{
	return TS_UNLIKELY(ts_opens_armed || ts_load_relaxed(&ts_staged_on));
}

/* ---- opening, while it is watched ------------------------------------------------------- */

/** One call on a path, from before it is made. */
struct ts_file_call {
	int directory, flags;
	const char *path;
	struct ts_known_call known;
};

/** Of ts_before_open() where paths are known. */
int ts_before_open_known(struct ts_file_call *call);

static inline void ts_file_call_set(
	struct ts_file_call *call, int directory, const char *path, int flags)
{
	call->directory = directory;
	call->path = path;
	call->flags = flags;
	call->known.is_named = false;
}

/**
 * Before a call on @path, relative to @directory, that must not reach a copy.  False, with
 * errno: it must not be made.
 */
static inline bool ts_before_path(int directory, const char *path, int flags)
{
	return !ts_file_is_staging() || ts_staged_before_path(directory, path, flags);
}

/** The same before an open with open(2) @flags: which a copy cannot take by a name in /proc. */
static inline bool ts_before_opening(int directory, const char *path, int flags)
{
	const int other = O_ACCMODE | O_TRUNC | O_APPEND | O_DIRECT | O_PATH;
	return TS_LIKELY((flags & other) == O_RDONLY) || ts_before_path(directory, path, 0);
}

/** A descriptor of the copy where the path is known, else -1: make the call, and tell. */
static inline int ts_before_open(
	struct ts_file_call *call, int directory, const char *path, int flags)
{
	ts_file_call_set(call, directory, path, flags);
	return ts_file_knows_paths() ? ts_before_open_known(call) : -1;
}

/** The call gave @fd, or -1 with errno.  Returns it: the number stays, the file may not. */
int ts_after_open(const struct ts_file_call *call, int fd);

/** ts_before_opening() of fopen(3). */
bool ts_before_fopening(const char *path, const char *mode);

/** The same of fopen(3): a stream of the copy, or NULL; and after it, and after freopen(3). */
FILE *ts_before_fopen(struct ts_file_call *call, const char *path, const char *mode);
FILE *ts_after_fopen(const struct ts_file_call *call, FILE *stream);

/** Before freopen(3), which no copy can answer.  False, with errno: it must not be made. */
bool ts_before_freopen(
	struct ts_file_call *call, const char *path, const char *mode, FILE *stream);

/* ---- attributes ------------------------------------------------------------------------- */

/** Where paths are known, before stat(2) or lstat(2): whether *ret_stat has the answer. */
static inline bool ts_before_stat(struct ts_file_call *call, int directory, const char *path,
	bool is_link, struct stat *ret_stat)
{
	return ts_known_stat(directory, path, is_link, ret_stat, &call->known);
}

/** The call gave @r, and @stat where that is 0.  Returns it. */
static inline int ts_after_stat(const struct ts_file_call *call, int r, const struct stat *stat)
{
	if (r == 0)
		ts_known_note_stat(&call->known, stat);
	return r;
}

/** The same of a call by descriptor. */
static inline int ts_after_fstat(int r, struct stat *stat)
{
	if (ts_file_is_staging() && r == 0)
		ts_staged_answer(stat);
	return r;
}

/** The same of a call that is by descriptor where @flags have AT_EMPTY_PATH. */
static inline int ts_after_fstatat(int r, int flags, struct stat *stat)
{
	return (flags & AT_EMPTY_PATH) != 0 ? ts_after_fstat(r, stat) : r;
}

/** The original to ask in the place of @fd, the caller's to close, or negative: ask @fd. */
static inline int ts_before_asking(int fd)
{
	return ts_file_is_staging() ? ts_staged_ask_original(fd) : -1;
}

/** The same where @fd is asked about only with AT_EMPTY_PATH in @flags and no @path. */
static inline int ts_before_asking_at(int fd, const char *path, int flags)
{
	return ts_file_is_staging() && ts_staged_is_itself(path, flags)
		       ? ts_staged_ask_original(fd)
		       : -1;
}

/** Before statx(2): the same, where @mask has more than the index of copies knows. */
static inline int ts_before_statx(int fd, const char *path, int flags, unsigned mask)
{
	return (mask & ~(STATX_BASIC_STATS | STATX_BTIME)) != 0
		       ? ts_before_asking_at(fd, path, flags)
		       : -1;
}

/** After statx(2), as after fstatat(2). */
static inline int ts_after_statx(
	int r, int directory, const char *path, int flags, struct statx *stat)
{
	if (ts_file_is_staging() && r == 0 && (flags & AT_EMPTY_PATH) != 0)
		ts_staged_answer_x(directory, path, stat);
	return r;
}

/** A call of the readlink family gave @length.  Returns the length of the original's name. */
static inline ssize_t ts_after_readlink(
	int directory, const char *path, char *buffer, size_t bytes, ssize_t length)
{
	return ts_file_is_staging()
		       ? ts_staged_answer_name(directory, path, buffer, bytes, length)
		       : length;
}

/* ---- deeds ------------------------------------------------------------------------------ */

/** Before a call on @fd that must not reach a copy.  False, with errno: it must not be made. */
static inline bool ts_before_deed(int fd)
{
	return !ts_file_is_staging() || ts_staged_give_back(fd);
}

/** The same before calls of which some are harmless. */
static inline bool ts_before_fcntl(int fd, int command, const void *argument)
{
	return !ts_file_is_staging() || ts_staged_before_fcntl(fd, command, argument);
}

static inline bool ts_before_ioctl(int fd, unsigned long request, const void *argument)
{
	if (TS_LIKELY(!ts_file_is_staging()))
		return true;
	ts_staged_before_argument(fd, request, argument);
	return ts_staged_before_ioctl(fd, request);
}

static inline bool ts_before_lockf(int fd)
{
	return !ts_file_is_staging() || ts_staged_before_lockf(fd);
}

/** Before bytes go from one file to another within the kernel. */
static inline void ts_before_clone(int from, int to)
{
	if (ts_file_is_staging())
		ts_staged_before_clone(from, to);
}

/** A call may have changed the file @fd.  Returns @r. */
static inline int ts_after_deed(int r, int fd)
{
	if (ts_file_is_staging())
		ts_known_written(fd, false);
	return r;
}

/**
 * A call gave @r and may have changed what @path leads to, relative to @directory.  Also one
 * that failed: some change a part of what they are asked to.  But not where the kernel could
 * not read the path, for we could not either.
 */
static inline void ts_after_change(int r, int directory, const char *path)
{
	if (ts_file_knows_paths() && (r >= 0 || errno != EFAULT))
		ts_known_changed(directory, path);
}

/** Behind a call paths lead elsewhere. */
static inline void ts_before_root(void)
{
	if (ts_file_knows_paths())
		ts_known_stop();
}

#endif
