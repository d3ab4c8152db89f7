/* SPDX-License-Identifier: MIT */
/*
 * What a copy from pinned memory brings, without a look at all of it.
 *
 * The GPU reads a place (hooks/cuda/gpu/pinned.h) later than it is asked to, so what it will
 * bring is known only where nobody writes to the source meanwhile.  The pool may say by which
 * name the contents of a place are known, before the program gets its address: equal names,
 * equal bytes.  From then on the kernel notices who writes there (shim/written.h), and copies
 * back from the GPU are met:
 *
 *   nameless ──pool: protected, named──> NAMED ──taken anew, copied to, in doubt, a fork──>
 *
 * A name holds for a copy if it was not lost, and nothing was written, when the copy is done.
 * tests/models/known.pml says the same to Spin.
 *
 * A program that writes to its batches pays a fault for each page; when it has done so a few
 * times nothing is named any more.  What kernels of the GPU write to host memory nobody
 * notices, so both ends of what is copied are part of what it is called by.
 *
 * Threads: any.  Fork: a child can write to what it shares with its parent, so all names that
 * were given before are lost.  A crash leaves nothing.
 */
#ifndef TS_HOOKS_CUDA_GPU_KNOWN_H
#define TS_HOOKS_CUDA_GPU_KNOWN_H

#include "hooks/cuda/abi.h"

struct ts_place;

/** What a copy reads from a place, where that is known by a name. */
struct ts_known {
	struct ts_place *place;
	uint64_t name[2];
	uintptr_t from;
	uint64_t bytes, offset; /* from the beginning of the place */
	uint32_t naming, forks; /* of the process, when it was named */
	bool at_once;           /* nothing was queued before the copy; share.c says so */
};

/**
 * What @place holds is known by the 16 bytes of @name from now on.  @guarded: what is written
 * there is noticed.  Errors: those of tsshim_pinned_name().
 */
int ts_known_name(struct ts_place *place, const void *name, bool guarded);

/** Whether these bytes are only what is known. Says nothing of what was written since. */
bool ts_known_of(ts_cu_pointer from, size_t bytes, struct ts_known *ret_known);

/**
 * Whether the source holds what it is known for, still: with what an event behind the copy
 * says, that this is what was copied.  Some 2 us per MiB.  Threads: any.
 */
bool ts_known_holds(const struct ts_known *known);

/** Its bytes came from elsewhere: the program has used it all the same. */
void ts_known_was_used(const struct ts_known *known);

#endif
