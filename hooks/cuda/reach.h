/* SPDX-License-Identifier: MIT */
/* How programs find the CUDA driver, and reach ours instead.  docs/rooms/cuda.md has the ways.
 */
#ifndef TS_HOOKS_CUDA_REACH_H
#define TS_HOOKS_CUDA_REACH_H

#include "shim/base.h"

/** From our constructor: a few stores where copies are shared, else nothing. */
void ts_cuda_begin(void);

/** At the end of the process, before it leaves the store. */
void ts_cuda_end(void);

/* ---- within the room -------------------------------------------------------------------- */

/** From here on exported calls go by way of ours.  Called once, by our constructor. */
void ts_cuda_calls_begin(void);

/** Whether a program that is linked with the driver finds ours under this name. */
bool ts_cuda_is_exported(const char *name);

/**
 * The answer for a program that has looked up @name from @caller, and found @found: the call of
 * ours that stands in front of it, if @found lies in a driver library and the caller does not;
 * else @found.  For names that are none of the tables a few comparisons.
 *
 * Threads: any; takes the loader's lock for names of the tables, never one of ours.  Neither
 * allocates nor initialises anything lazily: the driver looks names up while it is loaded.
 */
void *ts_cuda_substitute(void *found, const char *name, const void *caller);

/**
 * Address of function @name in the first object behind this library in load order that
 * defines it, or 0.
 *
 * For calls that come in before our constructor has run, or before the loader has relocated
 * this library (other libraries' constructors and IFUNC resolvers, sanitizers that are just
 * setting themselves up).  So nothing here calls another function or reads a pointer that has
 * to be relocated; tables of the kernel and the loader are read in place, by bare system calls.
 * Only while the list of loaded objects does not change: in the loader's own thread.
 * 0 as well where /proc is not mounted, or the loader was run as a program.
 */
uintptr_t ts_early_function(const char *name);

#endif
