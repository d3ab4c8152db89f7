/* SPDX-License-Identifier: MIT */
/* A copy that a program asked its driver for, the driver's own call for it, and its stream. */
#include "hooks/cuda/copy/request.h"

#include "hooks/cuda/library.h"

/* The driver's call of that name for the stream of @copy. */
#define DRIVER_OF(copy, symbol) TS_CUDA_DRIVER_OF((copy)->per_thread, symbol)

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

/* ---- in its stream ---------------------------------------------------------------------- */

/* An error is no "no". */
bool ts_copy_may_be_captured(const struct ts_copy *copy)
{
	int status = -1;
	ts_cu_result result = DRIVER_OF(copy, cuStreamIsCapturing)(copy->stream, &status);
	return result != TS_CU_SUCCESS || status != TS_CU_CAPTURE_NONE;
}

ts_cu_result ts_copy_within(const struct ts_copy *copy, ts_cu_pointer to, ts_cu_pointer from)
{
	return DRIVER_OF(copy, cuMemcpyDtoDAsync_v2)(to, from, copy->bytes, copy->stream);
}

ts_cu_result ts_copy_record(const struct ts_copy *copy, ts_cu_event event)
{
	return DRIVER_OF(copy, cuEventRecord)(event, copy->stream);
}

ts_cu_result ts_copy_synchronize(const struct ts_copy *copy)
{
	return DRIVER_OF(copy, cuStreamSynchronize)(copy->stream);
}

/* Asking is forbidden while others capture, and would end their capture; in this mode of the
 * thread it is not. */
bool ts_copy_is_idle(const struct ts_copy *copy)
{
	int mode = TS_CU_CAPTURE_MODE_RELAXED;
	if (TS_CUDA_DRIVER(cuThreadExchangeStreamCaptureMode)(&mode) != TS_CU_SUCCESS)
		return false;
	ts_cu_result result = DRIVER_OF(copy, cuStreamQuery)(copy->stream);
	(void)TS_CUDA_DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
	return result == TS_CU_SUCCESS;
}

bool ts_copy_is_all_idle(const struct ts_copy *copy)
{
	const struct ts_copy legacy = {.stream = TS_CU_STREAM_LEGACY};
	return ts_copy_is_idle(copy) && !ts_copy_may_be_captured(&legacy) &&
	       ts_copy_is_idle(&legacy);
}
