/* SPDX-License-Identifier: MIT */
/* A copy that a program asked its driver for, and the driver's own call for it. */
#include "hooks/cuda/copy/request.h"

#include "hooks/cuda/library.h"

#define DRIVER(symbol) TS_CUDA_DRIVER(symbol)

ts_cu_result ts_copy_real(const struct ts_copy *copy)
{
	const void *from = (const void *)(uintptr_t)copy->from;
	void *to = (void *)(uintptr_t)copy->to;
	if (copy->part)
		return copy->part->bring(copy->part, copy);
	if (copy->back && copy->async)
		return copy->real.dtoh_async(to, copy->from, copy->bytes, copy->stream);
	if (copy->back)
		return copy->real.dtoh(to, copy->from, copy->bytes);
	if (copy->untyped && copy->async)
		return copy->real.any_async(copy->to, copy->from, copy->bytes, copy->stream);
	if (copy->untyped)
		return copy->real.any(copy->to, copy->from, copy->bytes);
	if (copy->async)
		return copy->real.htod_async(copy->to, from, copy->bytes, copy->stream);
	return copy->real.htod(copy->to, from, copy->bytes);
}

/* An error is no "no". */
bool ts_copy_may_be_captured(const struct ts_copy *copy)
{
	int status = -1;
	ts_cu_result result = copy->per_thread
				      ? DRIVER(cuStreamIsCapturing_ptsz)(copy->stream, &status)
				      : DRIVER(cuStreamIsCapturing)(copy->stream, &status);
	return result != TS_CU_SUCCESS || status != TS_CU_CAPTURE_NONE;
}
