/* SPDX-License-Identifier: MIT */
/*
 * Paths that the group knows: for --stage-metadata SECONDS nobody asks the storage again where
 * a path of the data set's directory leads and what is there.
 *
 *	program's open -> a known path?  yes: its copy, and the storage hears nothing
 *	                                 no:  the real open, staged_open, and now it is known
 *
 * The user has allowed that a change is seen so much later; this process's own changes are seen
 * at once.  A path is known by its text, and only where it begins with the directory's name: as
 * the user gave it, or without links.  A relative path begins with the working directory's.
 *
 * The name that the index has (leader/files/names.h) is a hash of the text behind the
 * directory, the directory's inode, and what this process may open (shim/rights.h).
 */
#ifndef TS_HOOKS_FILE_KNOWN_H
#define TS_HOOKS_FILE_KNOWN_H

#include "shim/base.h"
#include "shim/hash.h"

#include <stdatomic.h>
#include <sys/stat.h>

/** For how many seconds paths are known, 0: for none. */
extern _Atomic uint32_t ts_known_seconds;

/** One call on a path, from before it was made. */
struct ts_known_call {
	struct ts_hash128 name, across; /* here; on all nodes, where there are others */
	uint64_t asked_ms;
	bool is_named; /* the path is below the directory */
	bool changes;  /* the call may change what is there; only of those: */
	bool is_above; /* the path is the directory's own, or of one that it lies in */
};

/**
 * Before open(2) of @path relative to @directory: a descriptor of its copy, or -1 when the call
 * has to be made.  Then *ret_call is for ts_staged_open().
 *
 * Threads: any.  Keeps errno.
 */
int ts_known_open(int directory, const char *path, int flags, struct ts_known_call *ret_call);

/** The same for a call that has to be made anyway. */
void ts_known_look(int directory, const char *path, struct ts_known_call *ret_call);

/**
 * @call led to the file with @inode, of which there is a copy with inode @copy; @is_made by
 * this process now.
 */
void ts_known_note_copy(
	const struct ts_known_call *call, uint64_t inode, uint64_t copy, bool is_made);

/**
 * The program has opened a file for writing, as @fd, or changed it by that.  From now on
 * nothing is known of this file, whatever path leads to it, and nothing any more of what was
 * known.
 */
void ts_known_written(int fd, bool is_named);

/**
 * Before stat(2) or lstat(2) (@is_link) of @path: whether *ret_stat has the answer.  If not,
 * *ret_call is for ts_known_note_stat() after the call.
 */
bool ts_known_stat(int directory, const char *path, bool is_link, struct stat *ret_stat,
	struct ts_known_call *ret_call);
void ts_known_note_stat(const struct ts_known_call *call, const struct stat *stat);

/**
 * The program has renamed, removed or cut what @path leads to, relative to @directory; or, with
 * no path or an empty one, changed the file with the descriptor @directory.
 */
void ts_known_changed(int directory, const char *path);

/** When this process changed something last, as ts_stage_now_ms(): nothing older counts. */
uint64_t ts_known_changed_ms(void);

/** Paths do not lead where they did: the program has another root or other mounts. */
void ts_known_stop(void);

#endif
