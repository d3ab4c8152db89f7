/* SPDX-License-Identifier: MIT */
/*
 * A batch of samples taken in one call: what samples.h does one by one, for the common case
 * of whole-number indices and samples that all look alike.
 *
 * The glue says what a record must look like (its meta begins with @head, its payload has
 * @payload_bytes) and where its leaves go.  Such records are copied there and counted; at
 * the first sample that wants more than a copy the call returns, with whatever
 * tsshim_sample_take() would have left in the struct for it: the claim of one to be made,
 * the lease of one that looks different or is to be verified.
 *
 * Threads and forks as in samples.h.  The arrays are the caller's, and unchanged by others
 * while a call runs.  Errors: none of its own; what cannot be taken is reported per sample.
 */
#ifndef TS_HOOKS_TORCH_BATCHES_H
#define TS_HOOKS_TORCH_BATCHES_H

#include "hooks/torch/numbers.h"
#include "hooks/torch/samples.h"

/** What became of a sample; the first four are what tsshim_sample_take() answers. */
enum ts_sample_state {
	TS_SAMPLE_TAKEN,   /* copied, counted */
	TS_SAMPLE_CLAIMED, /* held: to be made here */
	TS_SAMPLE_BUSY,    /* in the making elsewhere */
	TS_SAMPLE_PASSED,  /* not to be had, counted; to be made for this job alone */
	TS_SAMPLE_ODD,     /* held: there, but not for a mere copy */
	TS_SAMPLE_UNSEEN   /* not looked at yet */
};

/** Where a leaf goes: @bytes from @offset in the payload to @base + position * @bytes. */
struct ts_sample_leaf {
	uint64_t offset;
	uint64_t bytes;
	unsigned char *base;
};

/**
 * Copy @bytes, one of the things that make up @all bytes that are read one after the other:
 * past the caches where they would not hold all of it (shim/stream.h).
 */
TS_EXPORT void tsshim_sample_copy(void *to, const void *from, uint64_t bytes, uint64_t all);

/** Its order is the ABI between batches.c and batches.py. */
struct ts_sample_batch {
	const void *scope, *stream; /* as in tsshim_sample_name(), one behind the other... */
	const uint8_t *which;       /* ...which of them each one has; NULL: all the first */
	const uint32_t *draws;      /* for each scope, as in tsshim_sample_note() */
	uint64_t tag;               /* 0: nothing is noted */
	uint32_t epoch, reserved;
	const int64_t *indices;      /* named as ts_sample_index() */
	const uint32_t *occurrences; /* NULL: all 0 */
	uint64_t count;
	uint8_t *states; /* enum ts_sample_state of each */
	const void *head;
	uint64_t head_bytes;
	uint64_t payload_bytes;
	const struct ts_sample_leaf *leaves;
	uint64_t leaf_count;
	unsigned char *metas; /* of those taken, @meta_room bytes for each */
	uint32_t *meta_bytes;
	uint64_t meta_room;
	uint64_t (*origins)[2]; /* those of struct ts_sample_view of those taken; NULL: not
				   asked */
};

/**
 * Take from position @from on those that are UNSEEN or BUSY.  Returns the position of the first
 * that is CLAIMED, PASSED or ODD, with @patient == 0 also of the first that is BUSY; @count
 * when there is none.
 */
TS_EXPORT uint64_t tsshim_sample_take_batch(struct ts_sample *sample,
	const struct ts_sample_batch *batch, uint64_t from, int patient);

/**
 * For a batch that is not this one's turn yet: the first position from @from on whose right to
 * make it was got, as after tsshim_sample_take(); @count when there is none, or when samples
 * pass.  Only the names of @batch are used.
 */
TS_EXPORT uint64_t tsshim_sample_claim_batch(
	struct ts_sample *sample, const struct ts_sample_batch *batch, uint64_t from);

/* ---- items that go to nobody else ---------------------------------------------------- */

/*
 * Items that go to nobody but this job: those of data sets whose items cost next to nothing,
 * and those of a job that is alone.
 *
 * They are not asked for, not written into the ring, and have no key; only their seeds are the
 * sample's.  Whatever is done for such an item costs this job, so it is one call for each, and
 * one more at both ends of a stretch of them:
 *
 *	begin -> next, compute the item -> next, compute the item -> ... -> end
 */

/** Its order is the ABI between batches.c and native.py. */
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
