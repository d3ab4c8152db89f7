/* SPDX-License-Identifier: MIT */
/*
 * A look at an original: what its storage says of a file that may be staged, whether that can
 * be relied on, and the same as the group's index keeps it.
 */
#ifndef TS_HOOKS_FILE_LOOK_H
#define TS_HOOKS_FILE_LOOK_H

#include "leader/files/index.h"

#include <sys/stat.h>

/**
 * Whether @stat's file, or directory, which lies on a file system of @type
 * (ts_sys_file_system()), was changed so recently that its times may not tell the next change:
 * leader/inputs/age.h.
 */
bool ts_look_is_young(const struct stat *stat, uint64_t type);

/** Put what the index says of an original into @stat, whose other fields stay. */
void ts_look_fill(const struct ts_stage_attributes *was, struct stat *stat);

/** The other way: @stat for the index.  Every byte is set, for they are compared as a whole. */
void ts_look_attributes(const struct stat *stat, struct ts_stage_attributes *ret_attributes);

#endif
