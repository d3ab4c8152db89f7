/* SPDX-License-Identifier: MIT */
/* The calls of ours that stand in front of the driver's. */
#include "hooks/cuda/reach/calls.h"

#include "hooks/cuda/copy/batch.h"
#include "hooks/cuda/copy/copy.h"
#include "hooks/cuda/gpu/gpu.h"
#include "hooks/cuda/gpu/places.h"
#include "hooks/cuda/gpu/sizes.h"
#include "hooks/cuda/library.h"
#include "leader/group/session.h"

#define DRIVER(symbol) TS_CUDA_DRIVER(symbol)

/* ---- copies ----------------------------------------------------------------------------- */

/* Too small to be shared, and not of the hand-over pool's memory: counted, and the driver's. */
static inline bool pass_small(ts_cu_pointer to, ts_cu_pointer from, size_t bytes)
{
	if (TS_UNLIKELY(bytes >= TS_COPY_BYTES_MIN) ||
		TS_UNLIKELY(ts_place_near(from, bytes)) ||
		TS_UNLIKELY(ts_place_near(to, bytes)))
		return false;
	ts_session_count_pass(TS_REASON_COPY_SMALL);
	return true;
}

/* Copies back are looked at only where they write to the pool's memory. */
static inline bool pass_back(ts_cu_pointer to, ts_cu_pointer from, size_t bytes)
{
	return TS_LIKELY(!ts_place_near(to, bytes));
}

#define ADDRESS(pointer) ((ts_cu_pointer)(uintptr_t)(pointer))

/* What @pass says is the driver's at once; else what follows is what only this kind has. */
#define CALL_COPY(symbol, kind, which, pass, ...)                  \
	ts_cu_result ts_cuda_##symbol TS_CU_TAKES_##kind           \
	{                                                          \
		if (pass(ADDRESS(to), ADDRESS(from), bytes))       \
			return DRIVER(symbol) TS_CU_PASSES_##kind; \
		struct ts_copy copy = {.to = ADDRESS(to),          \
			.from = ADDRESS(from),                     \
			.bytes = bytes,                            \
			.per_thread = TS_COPY_##which,             \
			.real.kind = DRIVER(symbol),               \
			__VA_ARGS__};                              \
		return ts_copy(&copy);                             \
	}

#define CALL_htod(symbol, which) CALL_COPY(symbol, htod, which, pass_small, .async = false)
#define CALL_htod_async(symbol, which) \
	CALL_COPY(symbol, htod_async, which, pass_small, .async = true, .stream = stream)
#define CALL_any(symbol, which) CALL_COPY(symbol, any, which, pass_small, .untyped = true)
#define CALL_any_async(symbol, which)                                                   \
	CALL_COPY(symbol, any_async, which, pass_small, .untyped = true, .async = true, \
		.stream = stream)
#define CALL_dtoh(symbol, which) CALL_COPY(symbol, dtoh, which, pass_back, .back = true)
#define CALL_dtoh_async(symbol, which)                                               \
	CALL_COPY(symbol, dtoh_async, which, pass_back, .back = true, .async = true, \
		.stream = stream)

#define CALL_BATCH(symbol, kind, which, ...)                \
	ts_cu_result ts_cuda_##symbol TS_CU_TAKES_##kind    \
	{                                                   \
		const struct ts_batch batch = {.to = to,    \
			.from = from,                       \
			.bytes = bytes,                     \
			.count = count,                     \
			.attributes = attributes,           \
			.attribute_at = attribute_at,       \
			.attribute_count = attribute_count, \
			.stream = stream,                   \
			.per_thread = TS_COPY_##which,      \
			__VA_ARGS__};                       \
		return ts_batch(&batch);                    \
	}

#define CALL_batch(symbol, which) \
	CALL_BATCH(symbol, batch, which, .real = DRIVER(symbol), .ret_failed = ret_failed)
#define CALL_batch_v2(symbol, which) \
	CALL_BATCH(symbol, batch_v2, which, .real_v2 = DRIVER(symbol))

#define TS_X(symbol, kind, which) CALL_##kind(symbol, which)
TS_CUDA_COPIES(TS_X)
TS_CUDA_BACK(TS_X)
#undef TS_X

/* ---- allocations ------------------------------------------------------------------------ */

/*
 * What the driver would have given without us it gets with us as well: where there is no room,
 * rings of ours go, and the call is made once more.  One that failed has had no effect.
 */
static bool is_worth_another(ts_cu_result result)
{
	return TS_UNLIKELY(result == TS_CU_OUT_OF_MEMORY) && ts_gpu_make_room();
}

#define TS_X(symbol, kind, which)                                                              \
	ts_cu_result ts_cuda_##symbol TS_CU_TAKES_##kind                                       \
	{                                                                                      \
		ts_cu_result result = DRIVER(symbol) TS_CU_PASSES_##kind;                      \
		return is_worth_another(result) ? DRIVER(symbol) TS_CU_PASSES_##kind : result; \
	}
TS_CUDA_ALLOCATES(TS_X)
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
