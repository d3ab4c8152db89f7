/* SPDX-License-Identifier: MIT */
/* What the two ways of making a copy share: at once (fetch.c), in the background. */
#ifndef TS_LEADER_FILES_STAGE_PRIVATE_H
#define TS_LEADER_FILES_STAGE_PRIVATE_H

#include "leader/files/stage.h"

/* Longest path of a copy, or of its .part. */
#define TS_STAGE_PATH (TS_STAGE_STEM + 32 + 8)

/* ---- leader/files/stage.c ---- */

/** Path of the complete copy of @source. */
void ts_stage_path_of(const struct ts_stage *stage, const struct ts_stage_source *source,
	char ret_path[TS_STAGE_PATH]);

/* ---- leader/files/part.c --------------------------------------------------------------- */

/** Whether @path leads to the file with attributes @st. */
bool ts_stage_is_named(const char *path, const struct stat *st);

/**
 * Open and lock the file @part_path, making it when it is not there; *ret_part is the caller's,
 * to be ended with ts_stage_release_part().  Errors: -EBUSY somebody has it; -EAGAIN look
 * again; -EPERM no file of ours; others of open(2).
 */
int ts_stage_lock_part(const char *part_path, int *ret_part);

/**
 * The same for the .part of the copy @path, which is not there yet.  Errors: as above; -EAGAIN
 * also where the copy has come meanwhile.
 */
int ts_stage_take_part(const char *part_path, const char *path, int *ret_part);

/**
 * Lock the open file @part, unless it is locked, and see that it is what @part_path means.
 * Errors: -EBUSY; -EAGAIN another one has that name; -EPERM a file that is none of ours.
 */
int ts_stage_hold_part(int part, const char *part_path, struct stat *ret_stat);

/** Unlock and close it. */
void ts_stage_release_part(int part);

/* ---- leader/files/sweep.c -------------------------------------------------------------- */

/**
 * Take room for @bytes as ts_stage_index_admit() does; where there is none, what dead makers of
 * copies have left is removed first, at most every few seconds.  The caller may hold the lock
 * of a .part, which is not looked at.  Errors: -ENOSPC.
 */
int ts_stage_admit(struct ts_stage *stage, uint64_t bytes);

/* ---- leader/files/fetch.c -------------------------------------------------------------- */

/** All attributes of @source, if it is what it was. Errors: -ESTALE; those of statx(2). */
int ts_stage_look(const struct ts_stage_source *source, int sync, struct statx *ret_attributes);

/** Whether the path still leads to it: users go back to the original by its path.
 * Errors: -ESTALE; those of stat(2). */
int ts_stage_check_path(const struct ts_stage_source *source);

/**
 * Give the .part, whose bytes are all there, mode and times of a copy, and note it in the
 * index.  Errors: those of the system calls and of ts_stage_index_add().
 */
int ts_stage_finish(struct ts_stage *stage, const struct ts_stage_source *source, int part,
	const struct statx *attributes);

#endif
