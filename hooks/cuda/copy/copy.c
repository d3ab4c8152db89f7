/* SPDX-License-Identifier: MIT */
/* One copy that a program asked its driver for: which ones could be shared. */
#include "hooks/cuda/copy/copy.h"

#include "hooks/cuda/copy/bring.h"
#include "hooks/cuda/copy/share.h"
#include "hooks/cuda/gpu/gpu.h"
#include "hooks/cuda/gpu/known.h"
#include "hooks/cuda/gpu/places.h"
#include "hooks/cuda/gpu/sizes.h"
#include "hooks/cuda/library.h"
#include "leader/group/session.h"
#include "shim/identity.h"

#define DRIVER(symbol) TS_CUDA_DRIVER(symbol)

/* ---- what could be shared --------------------------------------------------------------- */

struct memory {
	unsigned type; /* 0 where the driver knows nothing about it: plain memory of the host */
	unsigned managed;
	int device;
	ts_cu_pointer begin; /* of the allocation, or of the addresses that were reserved */
	size_t bytes;        /* of that, or 0: unknown */
};

/* cuPointerGetAttributes, unlike the call for one attribute, takes any address. */
static bool look_at(ts_cu_pointer address, struct memory *ret_memory)
{
	struct memory memory = {0, 0, -1, 0, 0};
	int wanted[] = {TS_CU_ATTRIBUTE_MEMORY_TYPE, TS_CU_ATTRIBUTE_IS_MANAGED,
		TS_CU_ATTRIBUTE_DEVICE_ORDINAL, TS_CU_ATTRIBUTE_RANGE_START,
		TS_CU_ATTRIBUTE_RANGE_SIZE};
	void *answers[] = {
		&memory.type, &memory.managed, &memory.device, &memory.begin, &memory.bytes};
	if (DRIVER(cuPointerGetAttributes)(TS_ARRAY_SIZE(wanted), wanted, answers, address) !=
		TS_CU_SUCCESS)
		return false;
	*ret_memory = memory;
	return true;
}

/* An event of ours cannot be recorded in a stream of another context.  Default ones are the
 * current one's. */
static bool is_stream_of(const struct ts_copy *copy, ts_cu_context context)
{
	ts_cu_context its = NULL;
	if (!copy->stream || copy->stream == TS_CU_STREAM_LEGACY ||
		copy->stream == TS_CU_STREAM_PER_THREAD)
		return true;
	return DRIVER(cuStreamGetCtx)(copy->stream, &its) == TS_CU_SUCCESS && its == context;
}

/* Both ends of the source: one part of it may have been registered. */
static enum ts_reason source_objection(const struct ts_copy *copy)
{
	struct memory first, last;
	if (ts_copy_is_named(copy))
		return TS_REASON_COUNT;
	if (!look_at(copy->from, &first) || !look_at(copy->from + copy->bytes - 1, &last))
		return TS_REASON_COPY_STATE;
	if (first.type == TS_CU_MEMORY_DEVICE || first.managed || last.managed)
		return TS_REASON_COPY_KIND;
	return first.type || last.type ? TS_REASON_COPY_PINNED : TS_REASON_COUNT;
}

/*
 * Whether all of the target is one allocation, that of @to; mapped addresses may be of
 * several, but both ends have to be.  What the driver would refuse is not read: it may be
 * longer than the source is, and what lies behind the target an allocation, too.
 */
static bool is_within(const struct ts_copy *copy, const struct memory *to)
{
	struct memory end;
	uint64_t offset = copy->to - to->begin;
	return offset < to->bytes && copy->bytes <= to->bytes - offset &&
	       look_at(copy->to + copy->bytes - 1, &end) && end.type == TS_CU_MEMORY_DEVICE &&
	       end.device == to->device;
}

/*
 * Why @copy cannot be shared; TS_REASON_COUNT where it can, and then the GPU and the context
 * that it is for.  Cheapest question first.
 */
static enum ts_reason objection(
	const struct ts_copy *copy, ts_cu_device *ret_device, ts_cu_context *ret_context)
{
	ts_cu_context context = NULL;
	ts_cu_device device = -1;
	struct memory to;
	if (!ts_cuda_is_complete())
		return TS_REASON_COPY_STATE;
	if (ts_identity_check() == TS_VFORK_CHILD)
		return TS_REASON_VFORK;
	if (ts_copy_may_be_captured(copy))
		return TS_REASON_COPY_STATE;
	if (DRIVER(cuCtxGetCurrent)(&context) != TS_CU_SUCCESS || !context ||
		DRIVER(cuCtxGetDevice)(&device) != TS_CU_SUCCESS || !look_at(copy->to, &to))
		return TS_REASON_COPY_STATE;
	if (to.type != TS_CU_MEMORY_DEVICE || to.managed)
		return TS_REASON_COPY_KIND;
	if (!copy->from || copy->from + copy->bytes < copy->from || !is_within(copy, &to))
		return TS_REASON_COPY_STATE;
	if (to.device != device)
		return TS_REASON_COPY_STATE;
	*ret_device = device;
	*ret_context = context;
	enum ts_reason reason = source_objection(copy);
	if (reason == TS_REASON_COUNT && !is_stream_of(copy, context))
		reason = TS_REASON_COPY_STATE;
	return reason;
}

/* The service of a GPU that pinned memory is copied to, where there is some to be pinned. */
static void start_pinning(ts_cu_device device)
{
	enum ts_reason reason;
	const struct ts_session *session = ts_session_enter(&reason);
	if (session)
		ts_gpu_want(session, device);
}

/* What is read is known by a name.  Returns whether that is done, with *ret_result. */
static bool share_known(const struct ts_copy *copy, ts_cu_result *ret_result)
{
	struct ts_known known;
	ts_cu_device device;
	ts_cu_context context;
	struct ts_copy named = *copy;
	named.source = TS_SOURCE_NAMED;
	named.known = &known;
	if (!ts_bring_known(copy, &known) ||
		objection(&named, &device, &context) != TS_REASON_COUNT)
		return false;
	enum ts_reason reason;
	const struct ts_session *session = ts_session_enter(&reason);
	if (session)
		*ret_result = ts_share(&named, session, device, context);
	return session != NULL;
}

/* From or to a buffer of the hand-over pool. */
static ts_cu_result pinned(const struct ts_copy *copy)
{
	ts_cu_device device = -1;
	ts_cu_result result;
	bool is_small = copy->bytes < TS_COPY_BYTES_MIN;
	if (is_small)
		ts_session_count_pass(TS_REASON_COPY_SMALL);
	if (ts_cuda_is_complete() && DRIVER(cuCtxGetDevice)(&device) == TS_CU_SUCCESS)
		start_pinning(device);
	if (!is_small && !copy->back && share_known(copy, &result))
		return result;
	if (!is_small && !copy->back)
		ts_session_count_pass(TS_REASON_COPY_PINNED);
	if (!ts_cuda_is_complete())
		return ts_bring_followed(copy, true);
	return ts_bring_followed(copy, copy->async && ts_copy_may_be_captured(copy));
}

ts_cu_result ts_copy(const struct ts_copy *copy)
{
	ts_cu_device device = -1;
	ts_cu_context context;
	if (TS_UNLIKELY(ts_bring_is_pooled(copy))) {
		struct ts_copy own = *copy;
		own.source = TS_SOURCE_PINNED;
		return pinned(&own);
	}
	if (copy->back)
		return ts_copy_real(copy);
	if (copy->bytes < TS_COPY_BYTES_MIN) {
		ts_session_count_pass(TS_REASON_COPY_SMALL);
		return ts_copy_real(copy);
	}
	enum ts_reason reason = objection(copy, &device, &context);
	/* Whatever the stream waits for, in other streams too, may write to it until then. */
	if (reason == TS_REASON_COUNT && copy->part && copy->part->order == TS_CU_ORDER_STREAM)
		reason = TS_REASON_COPY_KIND;
	const struct ts_session *session = NULL;
	if (reason == TS_REASON_COUNT)
		session = ts_session_enter(&reason);
	if (session)
		return ts_share(copy, session, device, context);
	if (reason == TS_REASON_COPY_PINNED && ts_place_is_wanted())
		start_pinning(device);
	ts_session_count_pass(reason);
	return ts_bring(copy);
}
