/* SPDX-License-Identifier: MIT */
/*
 * Paths that the group knows: for --stage-metadata SECONDS nobody asks the storage again where
 * a path of the data set's directory leads and what is there.
 *
 *	program's open -> a known path?  yes: its copy, and the storage hears nothing
 *	                                 no:  the real open, staged_open, and now it is known
 *
 * The user promises that no job changes what lies below the directory while jobs run; a change
 * by others is seen so much later.  A job that opens a file there for writing has broken the
 * promise: from then on it asks the storage for everything (leader/files/names.h).
 *
 * A path is known by its text, and only where it begins with the directory's name: as the user
 * gave it, or without links.  A relative path begins with the working directory's.  The name
 * that the index has is a hash of the text behind the directory, the directory's inode, and
 * what this process may open (shim/rights.h).
 */
#ifndef TS_HOOKS_FILE_KNOWN_H
#define TS_HOOKS_FILE_KNOWN_H

#include "hooks/file/staged.h"
#include "shim/hash.h"

/** For how many seconds paths are known, 0: for none. */
extern _Atomic uint32_t ts_known_seconds;

static inline bool ts_known_is_on(void)
{
	return TS_UNLIKELY(ts_load_relaxed(&ts_known_seconds));
}

/** From the constructor, behind ts_staged_begin(): see what the settings say. */
void ts_known_begin(void);

/** One call on a path, from before it was made. */
struct ts_known_call {
	struct ts_hash128 name, across; /* here; on all nodes, where there are others */
	uint64_t asked_ms;
	bool is_named; /* the path is below the directory */
};

/**
 * Before open(2) of @path relative to @directory: a descriptor of its copy, or -1 when the call
 * has to be made.  Then *ret_call is for the two below.
 *
 * Threads: any.  Keeps errno.
 */
int ts_known_open(int directory, const char *path, int flags, struct ts_known_call *ret_call);

/** The same for a call that has to be made anyway. */
void ts_known_look(int directory, const char *path, struct ts_known_call *ret_call);

/** @call led to the file of which this process was @given a copy. */
void ts_known_note_copy(const struct ts_known_call *call, const struct ts_staged_given *given);

/**
 * The program has opened a file for writing, as @fd, by @call.  Where that lies below the
 * directory nothing is known to this job any more; it is counted with a reason.  Threads: any.
 * Keeps errno.
 */
void ts_known_written(const struct ts_known_call *call, int fd);

/**
 * Before stat(2) or lstat(2) (@is_link) of @path: whether *ret_stat has the answer.  If not,
 * *ret_call is for ts_known_note_stat() after the call.
 */
bool ts_known_stat(int directory, const char *path, bool is_link, struct stat *ret_stat,
	struct ts_known_call *ret_call);
void ts_known_note_stat(const struct ts_known_call *call, const struct stat *stat);

/**
 * What the group knows, where this process's job may make use of it; else NULL.  Joins the
 * group if need be.  Threads: any.  A vfork child joins none.
 */
struct ts_stage *ts_known_table(void);

#endif
