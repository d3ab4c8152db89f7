/* SPDX-License-Identifier: MIT */
/* The driver, in the stream of a copy. */
#include "hooks/cuda/copy/stream.h"

#include "hooks/cuda/library.h"

#define DRIVER(symbol) TS_CUDA_DRIVER(symbol)

ts_cu_result ts_copy_within(const struct ts_copy *copy, ts_cu_pointer to, ts_cu_pointer from)
{
	return copy->per_thread
		       ? DRIVER(cuMemcpyDtoDAsync_v2_ptsz)(to, from, copy->bytes, copy->stream)
		       : DRIVER(cuMemcpyDtoDAsync_v2)(to, from, copy->bytes, copy->stream);
}

ts_cu_result ts_copy_record(const struct ts_copy *copy, ts_cu_event event)
{
	return copy->per_thread ? DRIVER(cuEventRecord_ptsz)(event, copy->stream)
				: DRIVER(cuEventRecord)(event, copy->stream);
}

ts_cu_result ts_copy_synchronize(const struct ts_copy *copy)
{
	return copy->per_thread ? DRIVER(cuStreamSynchronize_ptsz)(copy->stream)
				: DRIVER(cuStreamSynchronize)(copy->stream);
}

/* Asking is forbidden while others capture, and would end their capture; in this mode of the
 * thread it is not. */
bool ts_copy_is_idle(const struct ts_copy *copy)
{
	int mode = TS_CU_CAPTURE_MODE_RELAXED;
	if (DRIVER(cuThreadExchangeStreamCaptureMode)(&mode) != TS_CU_SUCCESS)
		return false;
	ts_cu_result result = copy->per_thread ? DRIVER(cuStreamQuery_ptsz)(copy->stream)
					       : DRIVER(cuStreamQuery)(copy->stream);
	(void)DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
	return result == TS_CU_SUCCESS;
}

bool ts_copy_is_all_idle(const struct ts_copy *copy)
{
	const struct ts_copy legacy = {.stream = TS_CU_STREAM_LEGACY};
	return ts_copy_is_idle(copy) && !ts_copy_may_be_captured(&legacy) &&
	       ts_copy_is_idle(&legacy);
}
