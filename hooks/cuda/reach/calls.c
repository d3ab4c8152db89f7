/* SPDX-License-Identifier: MIT */
/* The calls of ours that stand in front of the driver's. */
#include "hooks/cuda/reach/calls.h"

#include "hooks/cuda/copy/batch.h"
#include "hooks/cuda/copy/copy.h"
#include "hooks/cuda/gpu/gpu.h"
#include "hooks/cuda/gpu/places.h"
#include "hooks/cuda/gpu/sizes.h"
#include "hooks/cuda/library.h"

#define DRIVER(symbol) TS_CUDA_DRIVER(symbol)

/* ---- copies ----------------------------------------------------------------------------- */

/* Nothing to be done: too small to be shared, and not of the hand-over pool's memory. */
static inline bool is_small(ts_cu_pointer to, ts_cu_pointer from, size_t bytes)
{
	return TS_LIKELY(bytes < TS_COPY_BYTES_MIN) && TS_LIKELY(!ts_place_near(from, bytes)) &&
	       TS_LIKELY(!ts_place_near(to, bytes));
}

#define CALL_htod(symbol, which)                                                        \
	ts_cu_result ts_cuda_##symbol(ts_cu_pointer to, const void *from, size_t bytes) \
	{                                                                               \
		if (is_small(to, (ts_cu_pointer)(uintptr_t)from, bytes)) {              \
			ts_copy_count_small();                                          \
			return DRIVER(symbol)(to, from, bytes);                         \
		}                                                                       \
		struct ts_copy copy = {.to = to,                                        \
			.from = (ts_cu_pointer)(uintptr_t)from,                         \
			.bytes = bytes,                                                 \
			.per_thread = TS_COPY_##which,                                  \
			.real.htod = DRIVER(symbol)};                                   \
		return ts_copy(&copy);                                                  \
	}

#define CALL_htod_async(symbol, which)                                                 \
	ts_cu_result ts_cuda_##symbol(                                                 \
		ts_cu_pointer to, const void *from, size_t bytes, ts_cu_stream stream) \
	{                                                                              \
		if (is_small(to, (ts_cu_pointer)(uintptr_t)from, bytes)) {             \
			ts_copy_count_small();                                         \
			return DRIVER(symbol)(to, from, bytes, stream);                \
		}                                                                      \
		struct ts_copy copy = {.to = to,                                       \
			.from = (ts_cu_pointer)(uintptr_t)from,                        \
			.bytes = bytes,                                                \
			.stream = stream,                                              \
			.per_thread = TS_COPY_##which,                                 \
			.async = true,                                                 \
			.real.htod_async = DRIVER(symbol)};                            \
		return ts_copy(&copy);                                                 \
	}

#define CALL_any(symbol, which)                                                           \
	ts_cu_result ts_cuda_##symbol(ts_cu_pointer to, ts_cu_pointer from, size_t bytes) \
	{                                                                                 \
		if (is_small(to, from, bytes)) {                                          \
			ts_copy_count_small();                                            \
			return DRIVER(symbol)(to, from, bytes);                           \
		}                                                                         \
		struct ts_copy copy = {.to = to,                                          \
			.from = from,                                                     \
			.bytes = bytes,                                                   \
			.per_thread = TS_COPY_##which,                                    \
			.untyped = true,                                                  \
			.real.any = DRIVER(symbol)};                                      \
		return ts_copy(&copy);                                                    \
	}

#define CALL_any_async(symbol, which)                                                    \
	ts_cu_result ts_cuda_##symbol(                                                   \
		ts_cu_pointer to, ts_cu_pointer from, size_t bytes, ts_cu_stream stream) \
	{                                                                                \
		if (is_small(to, from, bytes)) {                                         \
			ts_copy_count_small();                                           \
			return DRIVER(symbol)(to, from, bytes, stream);                  \
		}                                                                        \
		struct ts_copy copy = {.to = to,                                         \
			.from = from,                                                    \
			.bytes = bytes,                                                  \
			.stream = stream,                                                \
			.per_thread = TS_COPY_##which,                                   \
			.async = true,                                                   \
			.untyped = true,                                                 \
			.real.any_async = DRIVER(symbol)};                               \
		return ts_copy(&copy);                                                   \
	}

#define CALL_batch(symbol, which)                                                             \
	ts_cu_result ts_cuda_##symbol(ts_cu_pointer *to, ts_cu_pointer *from, size_t *bytes,  \
		size_t count, struct ts_cu_copy_attributes *attributes, size_t *attribute_at, \
		size_t attribute_count, size_t *ret_failed, ts_cu_stream stream)              \
	{                                                                                     \
		const struct ts_batch batch = {.to = to,                                      \
			.from = from,                                                         \
			.bytes = bytes,                                                       \
			.count = count,                                                       \
			.attributes = attributes,                                             \
			.attribute_at = attribute_at,                                         \
			.attribute_count = attribute_count,                                   \
			.stream = stream,                                                     \
			.per_thread = TS_COPY_##which,                                        \
			.ret_failed = ret_failed,                                             \
			.real = DRIVER(symbol)};                                              \
		return ts_batch(&batch);                                                      \
	}

#define CALL_batch_v2(symbol, which)                                                          \
	ts_cu_result ts_cuda_##symbol(ts_cu_pointer *to, ts_cu_pointer *from, size_t *bytes,  \
		size_t count, struct ts_cu_copy_attributes *attributes, size_t *attribute_at, \
		size_t attribute_count, ts_cu_stream stream)                                  \
	{                                                                                     \
		const struct ts_batch batch = {.to = to,                                      \
			.from = from,                                                         \
			.bytes = bytes,                                                       \
			.count = count,                                                       \
			.attributes = attributes,                                             \
			.attribute_at = attribute_at,                                         \
			.attribute_count = attribute_count,                                   \
			.stream = stream,                                                     \
			.per_thread = TS_COPY_##which,                                        \
			.real_v2 = DRIVER(symbol)};                                           \
		return ts_batch(&batch);                                                      \
	}

/* Copies back are looked at only where they write to the pool's memory. */
#define CALL_dtoh(symbol, which)                                                    \
	ts_cu_result ts_cuda_##symbol(void *to, ts_cu_pointer from, size_t bytes)   \
	{                                                                           \
		if (TS_LIKELY(!ts_place_near((ts_cu_pointer)(uintptr_t)to, bytes))) \
			return DRIVER(symbol)(to, from, bytes);                     \
		struct ts_copy copy = {.to = (ts_cu_pointer)(uintptr_t)to,          \
			.from = from,                                               \
			.bytes = bytes,                                             \
			.per_thread = TS_COPY_##which,                              \
			.back = true,                                               \
			.real.dtoh = DRIVER(symbol)};                               \
		return ts_copy(&copy);                                              \
	}

#define CALL_dtoh_async(symbol, which)                                              \
	ts_cu_result ts_cuda_##symbol(                                              \
		void *to, ts_cu_pointer from, size_t bytes, ts_cu_stream stream)    \
	{                                                                           \
		if (TS_LIKELY(!ts_place_near((ts_cu_pointer)(uintptr_t)to, bytes))) \
			return DRIVER(symbol)(to, from, bytes, stream);             \
		struct ts_copy copy = {.to = (ts_cu_pointer)(uintptr_t)to,          \
			.from = from,                                               \
			.bytes = bytes,                                             \
			.stream = stream,                                           \
			.per_thread = TS_COPY_##which,                              \
			.async = true,                                              \
			.back = true,                                               \
			.real.dtoh_async = DRIVER(symbol)};                         \
		return ts_copy(&copy);                                              \
	}

#define TS_X(symbol, kind, which) CALL_##kind(symbol, which)
TS_CUDA_COPIES(TS_X)
TS_CUDA_BACK(TS_X)
#undef TS_X

/* ---- ends ------------------------------------------------------------------------------- */

#define CALL_LEAVING(symbol, resets)                       \
	ts_cu_result ts_cuda_##symbol(ts_cu_device device) \
	{                                                  \
		ts_gpu_leave(device, resets);              \
		return DRIVER(symbol)(device);             \
	}
#define CALL_end(symbol)   CALL_LEAVING(symbol, false)
#define CALL_reset(symbol) CALL_LEAVING(symbol, true)

#define TS_X(symbol, kind, which) CALL_##kind(symbol)
TS_CUDA_ENDS(TS_X)
#undef TS_X
