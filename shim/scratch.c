/* SPDX-License-Identifier: MIT */
/* Blocks in the place of large frames: shim/scratch.h explains it. */
#include "shim/scratch.h"

#include "shim/atomic.h"
#include "shim/base.h"

#include <string.h>
#include <sys/mman.h>

#define BLOCKS 32u

/* The kernel gives memory for those that were ever used: the first ones, mostly. */
static _Alignas(TS_CACHE_LINE) char blocks[BLOCKS][TS_SCRATCH_BYTES];

/*
 * A bit for each that is in use.  One whose owner never comes back stays so: a handler that
 * jumped out of a call of ours, and threads that a fork child does not have.
 */
static _Atomic uint32_t used;

/* Where all are in use. */
static void *map(void)
{
	int saved = errno;
	void *block = mmap(NULL, TS_SCRATCH_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	errno = saved;
	return block == MAP_FAILED ? NULL : block;
}

void *ts_scratch(void)
{
	uint32_t bits = ts_load_relaxed(&used);
	while (bits != UINT32_MAX) {
		uint32_t free = (uint32_t)__builtin_ctz(~bits);
		/* Pairs with the release below: its last owner is done. */
		if (ts_cas(&used, &bits, bits | UINT32_C(1) << free))
			return blocks[free];
	}
	return map();
}

void ts_scratch_return(void *block)
{
	char *its;
	memcpy(&its, block, sizeof(its));
	if (!its)
		return;
	uintptr_t at = (uintptr_t)its - (uintptr_t)blocks;
	if (at < sizeof(blocks)) {
		ts_and_release(&used, ~(UINT32_C(1) << at / TS_SCRATCH_BYTES));
	} else {
		int saved = errno;
		munmap(its, TS_SCRATCH_BYTES);
		errno = saved;
	}
}
