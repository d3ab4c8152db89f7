/* SPDX-License-Identifier: MIT */
/* Which call of ours a program gets in the place of one of the driver's. */
#ifndef TS_HOOKS_CUDA_REACH_SUBSTITUTE_H
#define TS_HOOKS_CUDA_REACH_SUBSTITUTE_H

/**
 * What to give a program that has just looked up @name and found @found, called from @caller:
 * the call of ours that stands in front of it where @found lies in a driver library and the
 * caller does not, else @found.  For names that are none of the tables a few comparisons.
 *
 * Threads: any; takes the loader's lock for names of the tables, never one of ours.  Neither
 * allocates nor initialises anything lazily: the driver looks names up while it is loaded.
 */
void *ts_cuda_substitute(void *found, const char *name, const void *caller);

#endif
