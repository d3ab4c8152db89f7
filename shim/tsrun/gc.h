/* SPDX-License-Identifier: MIT */
/* Removing shared memory that nobody alive uses. */
#ifndef TS_TSRUN_GC_H
#define TS_TSRUN_GC_H

#include "shim/base.h"

/**
 * Remove the dead objects of @group, or of all groups of this user when it is NULL, and
 * print each on stdout; @dry_run only prints.  What is alive, of another user or of another
 * PID namespace is left alone.
 *
 * Returns 0, or TS_EXIT_FAILED after a message where something could not be looked at.
 */
int ts_gc_collect(const char *group, bool dry_run);

/** Remove the ring of @group if nobody alive uses it; keeps the counters. Never says anything.
 */
void ts_gc_sweep(const char *group);

#endif
