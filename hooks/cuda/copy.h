/* SPDX-License-Identifier: MIT */
/* A copy that a program asked its driver for: the driver's own call for it, and its stream. */
#ifndef TS_HOOKS_CUDA_COPY_H
#define TS_HOOKS_CUDA_COPY_H

#include "hooks/cuda/cuda_driver.h"
#include "hooks/cuda/places.h"

/* Values of ts_copy.per_thread, by the tables of hooks/cuda/cuda_driver.h. */
#define TS_COPY_LEGACY false
#define TS_COPY_THREAD true

struct ts_copy;

/* Of a copy that is one of several that a program asked for by one call (batch.c). */
struct ts_part {
	/* The driver's own call, for @copy alone, whatever it says of that. */
	ts_cu_result (*bring)(const struct ts_part *part, const struct ts_copy *copy);
	int order;           /* in which its source may be read: TS_CU_ORDER_* */
	bool may_be_left;    /* for the call that brings all that is left */
	bool left;           /* and was: nothing is done */
	uint64_t *waited_ns; /* for others, in all of that call */
};

struct ts_copy {
	ts_cu_pointer to, from;
	size_t bytes;
	ts_cu_stream stream; /* as the caller gave it; 0 where the call takes none */
	bool per_thread;     /* 0 means the thread's stream: the calls _ptds and _ptsz */
	bool async;          /* the call takes a stream */
	bool back;           /* from the device */
	bool alone;          /* is brought by a call of its own, also where it may be left */
	union {
		ts_cu_result(*copy) TS_CU_TAKES_copy;
		ts_cu_result(*copy_async) TS_CU_TAKES_copy_async;
	} real;                 /* by @async */
	bool pinned;            /* a place (pinned.h) is at either end: it is followed */
	struct ts_known *known; /* the name of such a source, if it has one; or NULL */
	struct ts_part *part;   /* by which it is brought in the place of @real; or NULL */
};

/** Whether what @copy reads is known by a name. */
static inline bool ts_copy_is_named(const struct ts_copy *copy)
{
	return copy->known != NULL;
}

/**
 * Do @copy, or have it done, and return what the driver's own call says.  Counts what was not
 * shared.  Where the bytes are in the ring of its GPU, they come from there, in the same
 * stream, and the call is done when the driver's would be.
 *
 * Equal are copies of equal length and equal XXH3-128 of all of the source, or of a source that
 * is known by the same name (places.h).  The producer hashes the source again behind the
 * driver's own copy, or checks the name when the GPU has read it: a thread that writes to the
 * source meanwhile publishes nothing under a wrong name.
 *
 * Threads: any.  Waits for another process no longer than a copy of that size takes here.
 */
ts_cu_result ts_copy(const struct ts_copy *copy);

/* ---- a batch (cuMemcpyBatchAsync) ------------------------------------------------------- */

/* The parameters of a program's call; see cuMemcpyBatchAsync in the CUDA driver API. */
struct ts_batch {
	ts_cu_pointer *to, *from;
	size_t *bytes;
	size_t count;
	struct ts_cu_copy_attributes *attributes;
	size_t *attribute_at; /* number of the first copy that an attribute is of */
	size_t attribute_count;
	ts_cu_stream stream;
	bool per_thread;
	/* One of the two; with CUDA 13.0 the parameter went away that tells what is wrong. */
	ts_cu_result(*real) TS_CU_TAKES_batch;
	ts_cu_result(*real_v2) TS_CU_TAKES_batch_v2;
	size_t *ret_failed;
};

/**
 * Do what @batch asks for, or have it done, and return what the driver's own call says.
 * Counts what was not shared.  Threads: any.
 */
ts_cu_result ts_batch(const struct ts_batch *batch);

/* ---- having the driver bring it.  Threads: any ------------------------------------------ */

/** The driver's own call, with what the program gave it. */
ts_cu_result ts_copy_real(const struct ts_copy *copy);

/** Whether @copy reads from a place (pinned.h) or writes to one. */
bool ts_bring_is_pooled(const struct ts_copy *copy);

/** Whether @copy reads only what is known. Says nothing of what was written since. */
bool ts_bring_known(const struct ts_copy *copy, struct ts_known *ret_known);

/** Whether ts_bring() leaves @copy for the call that it is a part of. */
bool ts_bring_may_leave(const struct ts_copy *copy);

/**
 * Have @copy brought as the program asked for it, or left; and return what the driver's own
 * call says.
 */
ts_cu_result ts_bring(const struct ts_copy *copy);

/**
 * Do a copy from or to a place, as the driver would, and remember it.  @captured: it may become
 * a graph's.
 */
ts_cu_result ts_bring_followed(const struct ts_copy *copy, bool captured);

/* ---- the driver, in the stream of a copy.  Threads: any --------------------------------- */

/** The driver's call of that name for the stream of @copy. */
#define TS_COPY_DRIVER(copy, symbol) TS_CUDA_DRIVER_OF((copy)->per_thread, symbol)

/** Whether it may be captured: then nothing is asked of it, nor added. */
bool ts_copy_may_be_captured(const struct ts_copy *copy);

#endif
