/* SPDX-License-Identifier: MIT */
/*
 * The copies of a program that is linked with the driver library, and therefore calls what we
 * export: for each the next definition in load order behind ours.
 */
#ifndef TS_HOOKS_CUDA_REACH_NEXT_H
#define TS_HOOKS_CUDA_REACH_NEXT_H

#include "hooks/cuda/abi.h"

enum ts_cuda_next {
#define TS_X(symbol, kind, which) TS_CUDA_NEXT_##symbol,
	TS_CUDA_EXPORTED(TS_X)
#undef TS_X
		TS_CUDA_NEXT_COUNT
};

/**
 * Where a call of the exported @name goes: to the call of ours in hooks/cuda/reach/calls.h if
 * the next definition is a driver library's and copies are shared, else to that definition.  It
 * may be another preload's, or a trampoline that a library brings along for a driver that it
 * loads itself; those come to us by the way they find the driver.
 *
 * NULL when no loaded object defines it, so that it could not have been called without us.
 * Searches at the first call, and again after any object was unloaded.  Threads: any; takes
 * the loader's lock.
 */
void *ts_cuda_next(enum ts_cuda_next name);

/** From here on our calls are put in between. Called once, by our constructor. */
void ts_cuda_next_begin(void);

#endif
