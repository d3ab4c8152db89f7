/* SPDX-License-Identifier: MIT */
/*
 * A batch of copies (cuMemcpyBatchAsync): which of them are shared, and the rest.
 *
 * The copies of a batch have no order among each other, and all of them follow what was in the
 * stream before.  So those that can be shared are taken out of it, one by one, as if each had
 * been asked for alone; the driver's call brings what is left, whole batches as they are.  What
 * others have is copied from there; what they shall have from here, or what is to be measured,
 * is brought by a batch of one, so that the program gets of each copy what it asked for.  Also
 * taken out is what reads from or writes to the hand-over pool, which wants an event behind it;
 * not what has to be read before the call returns, after which no event is needed.
 *
 * When the driver reads the source of a copy is part of what the program asks for: before the
 * call returns, when the stream comes to it, or whenever it likes.  A copy that is shared reads
 * pageable memory before the call returns.  That was asked for in the first case, is the
 * driver's choice in the last, where it is made only if nothing is queued before
 * (hooks/cuda/copy/share.c), and is wrong in the second: whatever the stream waits for may
 * write to it until then.
 */
#ifndef TS_HOOKS_CUDA_COPY_BATCH_H
#define TS_HOOKS_CUDA_COPY_BATCH_H

#include "hooks/cuda/abi.h"

/* Larger batches are the driver's: of many small copies, as of a cache of keys and values. */
#define TS_BATCH_MOST 64u

/* What a program asked for; see cuMemcpyBatchAsync in the CUDA driver API. */
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

#endif
