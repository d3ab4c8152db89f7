/* SPDX-License-Identifier: MIT */
/*
 * The sizes of the newest copies to a GPU, and which of them recur: a ring is shaped for
 * these.  What is brought once, as parameters are, is one of many here, and soon forgotten.
 */
#ifndef TS_HOOKS_CUDA_GPU_SIZES_H
#define TS_HOOKS_CUDA_GPU_SIZES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Below this, asking costs more than a copy saves. */
#define TS_COPY_BYTES_MIN ((size_t)256 << 10)

/* So many copies are remembered: some seconds of a training job, whose steps bring few. */
#define TS_SIZES 128u

/* A size recurs that is met so often among them. */
#define TS_SIZES_TIMES_MAX 4u

struct ts_sizes {
	_Atomic uint32_t met; /* so far; wraps */
	_Atomic uint64_t newest[TS_SIZES];
};

/** A copy of @bytes. Threads: any. */
void ts_sizes_note(struct ts_sizes *sizes, uint64_t bytes);

/** How many copies there were so far; wraps. */
uint32_t ts_sizes_met(const struct ts_sizes *sizes);

/**
 * The largest size up to @most that @times (TS_SIZES_TIMES_MAX at most) of the newest copies
 * have, or exceed without exceeding @most; 0 where there are not so many.  Threads: any.
 */
uint64_t ts_sizes_recurring(const struct ts_sizes *sizes, uint64_t most, unsigned times);

#endif
