/* SPDX-License-Identifier: MIT */
/*
 * Allocations of the program.  What the driver would have given without us it gets with us as
 * well: where there is no room, rings of ours go, and the call is made once more.
 */
#include "hooks/cuda/gpu/gpu.h"
#include "hooks/cuda/library.h"
#include "hooks/cuda/reach/calls.h"

#define DRIVER(symbol) TS_CUDA_DRIVER(symbol)

static bool is_worth_another(ts_cu_result result)
{
	return TS_UNLIKELY(result == TS_CU_OUT_OF_MEMORY) && ts_gpu_make_room();
}

/* A call that failed has had no effect, so it can be made again as it was. */
#define CALL(symbol, parameters, arguments)                                          \
	ts_cu_result ts_cuda_##symbol parameters                                     \
	{                                                                            \
		ts_cu_result result = DRIVER(symbol) arguments;                      \
		return is_worth_another(result) ? DRIVER(symbol) arguments : result; \
	}

#define CALL_alloc(symbol) \
	CALL(symbol, (ts_cu_pointer * ret_memory, size_t bytes), (ret_memory, bytes))

#define CALL_alloc_rows(symbol)                                                               \
	CALL(symbol,                                                                          \
		(ts_cu_pointer * ret_memory, size_t * ret_pitch, size_t width, size_t height, \
			unsigned element),                                                    \
		(ret_memory, ret_pitch, width, height, element))

#define CALL_alloc_async(symbol)                                                      \
	CALL(symbol, (ts_cu_pointer * ret_memory, size_t bytes, ts_cu_stream stream), \
		(ret_memory, bytes, stream))

#define CALL_alloc_pool(symbol)                                                              \
	CALL(symbol,                                                                         \
		(ts_cu_pointer * ret_memory, size_t bytes, void *pool, ts_cu_stream stream), \
		(ret_memory, bytes, pool, stream))

#define CALL_create(symbol)                                                            \
	CALL(symbol,                                                                   \
		(unsigned long long *ret_handle, size_t bytes, const void *properties, \
			uint64_t flags),                                               \
		(ret_handle, bytes, properties, flags))

#define TS_X(symbol, kind, which) CALL_##kind(symbol)
TS_CUDA_ALLOCATES(TS_X)
#undef TS_X
