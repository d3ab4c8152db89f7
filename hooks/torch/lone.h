/* SPDX-License-Identifier: MIT */
/*
 * Items that go to nobody but this job: those of data sets whose items cost next to nothing,
 * and those of a job that is alone.
 *
 * They are not asked for, not written into the ring, and have no key; only their seeds are the
 * sample's.  Whatever is done for such an item costs this job, so it is one call for each, and
 * one more at both ends of a stretch of them:
 *
 *	begin -> next, compute the item -> next, compute the item -> ... -> end
 *
 * Threads and forks as in samples.h.  Errors: none.
 */
#ifndef TS_HOOKS_TORCH_LONE_H
#define TS_HOOKS_TORCH_LONE_H

#include "hooks/torch/batches.h"
#include "hooks/torch/numbers.h"

/** Its order is the ABI between lone.c and native.py. */
struct ts_sample_lone {
	struct ts_sample *sample;
	/* Its indices, occurrences and streams, and what a note of each says; no scopes. */
	const struct ts_sample_batch *batch;
	const struct ts_generator *globals; /* as in tsshim_sample_seed_globals() */
	uint64_t position;                  /* in the batch, of the item that comes next */
};

/** A stretch of items begins: what they open is looked at as that of others. */
TS_EXPORT void tsshim_sample_lone_begin(struct ts_sample_lone *lone);

/**
 * The item before, if any, was made; the next one is about to be: seed the global generators
 * for it, and let the view of the sample have its seeds.
 */
TS_EXPORT void tsshim_sample_lone_next(struct ts_sample_lone *lone);

/**
 * The stretch is over, in which @count items were begun; the last of them @raised an exception
 * or not.  They are counted, as having been passed for @reason, an id of shim/reasons.def.
 */
TS_EXPORT void tsshim_sample_lone_end(
	struct ts_sample_lone *lone, uint64_t count, int raised, const char *reason);

#endif
