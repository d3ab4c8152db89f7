/* SPDX-License-Identifier: MIT */
/*
 * Room for what is too large for the stack of a thread of the host's.  That may be 16 KiB in
 * all, of a coroutine or a signal handler, and its owner has reckoned without us: so a call
 * uses 4 KiB of it at most (tests/abi/stack.py), and a path or a buffer lies here.
 */
#ifndef TS_SHIM_SCRATCH_H
#define TS_SHIM_SCRATCH_H

/** What each block holds: a path and what is hashed with it, or two pages of the kernel's. */
#define TS_SCRATCH_BYTES 8192u

/** Of a pointer to a block: it is given back where the pointer's scope ends. */
#define TS_SCRATCH __attribute__((cleanup(ts_scratch_return)))

/**
 * A block of TS_SCRATCH_BYTES, aligned for anything, whose bytes are whatever they were; NULL
 * where there is no memory.  A thread may have several.  Any thread, also a fork child's and a
 * signal handler's; errno stays.  No system call while few blocks are in use.
 */
void *ts_scratch(void);

/** Give the block back to which the pointer at @block leads, if any: for TS_SCRATCH. */
void ts_scratch_return(void *block);

#endif
