/* SPDX-License-Identifier: MIT */
/* One copy that a program asked its driver for, and what becomes of it. */
#ifndef TS_HOOKS_CUDA_COPY_H
#define TS_HOOKS_CUDA_COPY_H

#include "hooks/cuda/abi.h"

/* Below this, asking costs more than a copy saves. */
#define TS_COPY_BYTES_MIN ((size_t)256 << 10)

/* Values of ts_copy.per_thread, by the tables of hooks/cuda/abi.h. */
#define TS_COPY_LEGACY false
#define TS_COPY_THREAD true

struct ts_known;

struct ts_batch;

struct ts_copy {
	ts_cu_pointer to, from;
	size_t bytes;
	ts_cu_stream stream; /* as the caller gave it; 0 where the call takes none */
	bool per_thread;     /* 0 means the thread's stream: the calls _ptds and _ptsz */
	bool async;          /* the call takes a stream */
	bool untyped;        /* cuMemcpy, which may be a copy of any direction */
	bool back;           /* from the device */
	union {
		ts_cu_htod_call *htod;
		ts_cu_htod_async_call *htod_async;
		ts_cu_any_call *any;
		ts_cu_any_async_call *any_async;
		ts_cu_dtoh_call *dtoh;
		ts_cu_dtoh_async_call *dtoh_async;
	} real;                 /* by @async, @untyped and @back */
	struct ts_known *known; /* what is read, where that is known (pinned.h); or NULL */
	/* The rest is of a copy that is one of a batch (batch.h); else NULL. */
	const struct ts_batch *batch; /* by whose call it is made, of this copy alone */
	size_t number;                /* in there */
	int order; /* in which its source may be read: TS_CU_ORDER_*; else 0 */
	/* Set, and nothing done, where the call for all that is left shall bring it; or NULL.
	 */
	bool *ret_left;
	uint64_t *waited_ns; /* for others, in this batch */
};

/**
 * Do @copy, or have it done, and return what the driver's own call says.  Counts what was
 * not shared.  Threads: any.
 */
ts_cu_result ts_copy(const struct ts_copy *copy);

/** The driver's own call, with what the program gave it. */
ts_cu_result ts_copy_real(const struct ts_copy *copy);

/** The same, remembered where it reads from a buffer of the hand-over pool; or left. */
ts_cu_result ts_copy_bring(const struct ts_copy *copy);

/** Count a copy of less than TS_COPY_BYTES_MIN. */
void ts_copy_count_small(void);

/** Whether the stream of @copy may be captured: then nothing is asked of it, nor added. */
bool ts_copy_may_be_captured(const struct ts_copy *copy);

#endif
