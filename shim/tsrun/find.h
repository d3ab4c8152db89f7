/* SPDX-License-Identifier: MIT */
/* Where things lie on this machine: libraries as ld.so finds them, and parts of GPUs. */
#ifndef TS_TSRUN_FIND_H
#define TS_TSRUN_FIND_H

#include "shim/base.h"

#include <limits.h>

/**
 * Find the library called @name without loading it: in the directories of @search (as
 * LD_LIBRARY_PATH, or NULL), in ld.so's cache @cache, in the standard directories.
 * Writes the path of a file that is there into @ret_path; returns whether there is one.
 */
bool ts_find_library(
	const char *name, const char *cache, const char *search, char ret_path[PATH_MAX]);

/**
 * How many instances (MIG) the GPUs below @place, /proc/driver/nvidia but for tests, are
 * divided into.  Errors: -ENOENT no driver; others of opendir(3).
 */
int ts_find_mig(const char *place);

#endif
