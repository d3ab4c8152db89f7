/* SPDX-License-Identifier: MIT */
/* Opening the copy of a file whose name the group knows, without asking the file's storage. */
#ifndef TS_LEADER_FILES_KNOWN_H
#define TS_LEADER_FILES_KNOWN_H

#include "leader/files/stage.h"
#include "leader/files/names.h"

/**
 * Open the copy that @name leads to, as ts_stage_name_find() finds it, with those of the
 * open(2) @flags that matter.  Returns a descriptor with exactly the caller's flags, and the
 * file's size.
 *
 * Also a copy that nobody has confirmed yet (leader/files/stage.h): who allows that a change is
 * seen
 * @seconds late allows that one which came while the copy was made is seen in part for so long.
 *
 * Threads: any.  Keeps errno, allocates nothing, is no cancellation point.
 * Errors: -ENOENT nothing is known, or there is no copy; others: it cannot be had.
 */
int ts_stage_open_known(struct ts_stage *stage, struct ts_hash128 name, uint64_t after_ms,
	uint64_t seconds, int flags, uint64_t *ret_bytes);

#endif
