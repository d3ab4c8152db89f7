/* SPDX-License-Identifier: MIT */
/* Libraries that are bound past us: loaded with RTLD_DEEPBIND. */
#ifndef TS_HOOKS_CUDA_REACH_GOT_H
#define TS_HOOKS_CUDA_REACH_GOT_H

/**
 * Find the dlsym behind which such libraries look, and note what is loaded already: that was
 * bound with us in front of it.  Called once, by our constructor.
 */
void ts_got_begin(void);

/**
 * Look at what was loaded since the last time, and put ours where a library has bound the C
 * library's dlsym or a driver's copy.  Called before every lookup through a handle: who loads a
 * library looks up its entry next, and only that one's code looks for a driver.
 *
 * Some 0.1 us when nothing was loaded, up to a millisecond when a library is changed.  Threads:
 * any; takes the loader's lock.  Allocates nothing; keeps errno.
 */
void ts_got_look(void);

#endif
