/* SPDX-License-Identifier: MIT */
/* The driver's copies, and ends of contexts, as programs linked with it see them. Trampolines
 * only. */
#include "hooks/cuda/reach/next.h"

/* Nobody can have called cuInit where no library defines these. */
#define NEXT(symbol, kind, arguments)                                       \
	ts_cu_##kind##_call *next =                                         \
		(ts_cu_##kind##_call *)ts_cuda_next(TS_CUDA_NEXT_##symbol); \
	return next ? next arguments : TS_CU_NOT_INITIALIZED

#define CALL_htod(symbol)                                                     \
	TS_EXPORT ts_cu_htod_call symbol;                                     \
	ts_cu_result symbol(ts_cu_pointer to, const void *from, size_t bytes) \
	{                                                                     \
		NEXT(symbol, htod, (to, from, bytes));                        \
	}

#define CALL_htod_async(symbol)                                                        \
	TS_EXPORT ts_cu_htod_async_call symbol;                                        \
	ts_cu_result symbol(                                                           \
		ts_cu_pointer to, const void *from, size_t bytes, ts_cu_stream stream) \
	{                                                                              \
		NEXT(symbol, htod_async, (to, from, bytes, stream));                   \
	}

#define CALL_any(symbol)                                                        \
	TS_EXPORT ts_cu_any_call symbol;                                        \
	ts_cu_result symbol(ts_cu_pointer to, ts_cu_pointer from, size_t bytes) \
	{                                                                       \
		NEXT(symbol, any, (to, from, bytes));                           \
	}

#define CALL_any_async(symbol)                                                           \
	TS_EXPORT ts_cu_any_async_call symbol;                                           \
	ts_cu_result symbol(                                                             \
		ts_cu_pointer to, ts_cu_pointer from, size_t bytes, ts_cu_stream stream) \
	{                                                                                \
		NEXT(symbol, any_async, (to, from, bytes, stream));                      \
	}

#define CALL_batch(symbol)                                                                    \
	TS_EXPORT ts_cu_batch_call symbol;                                                    \
	ts_cu_result symbol(ts_cu_pointer *to, ts_cu_pointer *from, size_t *bytes,            \
		size_t count, struct ts_cu_copy_attributes *attributes, size_t *attribute_at, \
		size_t attribute_count, size_t *ret_failed, ts_cu_stream stream)              \
	{                                                                                     \
		NEXT(symbol, batch,                                                           \
			(to, from, bytes, count, attributes, attribute_at, attribute_count,   \
				ret_failed, stream));                                         \
	}

#define CALL_batch_v2(symbol)                                                                 \
	TS_EXPORT ts_cu_batch_v2_call symbol;                                                 \
	ts_cu_result symbol(ts_cu_pointer *to, ts_cu_pointer *from, size_t *bytes,            \
		size_t count, struct ts_cu_copy_attributes *attributes, size_t *attribute_at, \
		size_t attribute_count, ts_cu_stream stream)                                  \
	{                                                                                     \
		NEXT(symbol, batch_v2,                                                        \
			(to, from, bytes, count, attributes, attribute_at, attribute_count,   \
				stream));                                                     \
	}

#define CALL_end(symbol)                         \
	TS_EXPORT ts_cu_end_call symbol;         \
	ts_cu_result symbol(ts_cu_device device) \
	{                                        \
		NEXT(symbol, end, (device));     \
	}

#define CALL_reset(symbol) CALL_end(symbol)

#define TS_X(symbol, kind, which) CALL_##kind(symbol)
TS_CUDA_EXPORTED(TS_X)
#undef TS_X
