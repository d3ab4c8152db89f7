/* SPDX-License-Identifier: MIT */
/*
 * A copy that a program asked its driver for, brought by the driver: by its own call, as the
 * program asked for it; followed where a buffer of the hand-over pool is at one of its ends
 * (pinned.h); or left for the call that it is a part of (batch.c).
 */
#include "hooks/cuda/copy.h"

#include "hooks/cuda/cost.h"
#include "hooks/cuda/pinned.h"
#include "shim/sys.h"

/* ---- in its stream ---------------------------------------------------------------------- */

/* An error is no "no". */
bool ts_copy_may_be_captured(const struct ts_copy *copy)
{
	int status = -1;
	ts_cu_result result = TS_COPY_DRIVER(copy, cuStreamIsCapturing)(copy->stream, &status);
	return result != TS_CU_SUCCESS || status != TS_CU_CAPTURE_NONE;
}

/* ---- by the driver ---------------------------------------------------------------------- */

ts_cu_result ts_copy_real(const struct ts_copy *copy)
{
	if (copy->part)
		return copy->part->bring(copy->part, copy);
	if (copy->async)
		return copy->real.copy_async(copy->to, copy->from, copy->bytes, copy->stream);
	return copy->real.copy(copy->to, copy->from, copy->bytes);
}

bool ts_bring_is_pooled(const struct ts_copy *copy)
{
	return ts_place_find(copy->from, copy->bytes) || ts_place_find(copy->to, copy->bytes);
}

bool ts_bring_known(const struct ts_copy *copy, struct ts_known *ret_known)
{
	return !copy->back && ts_known_of(copy->from, copy->bytes, ret_known);
}

bool ts_bring_may_leave(const struct ts_copy *copy)
{
	return copy->part && copy->part->may_be_left && !copy->alone;
}

/* A call that takes no stream has waited for its copy when it returns. */
static void copied(
	struct ts_place *place, const struct ts_copy *copy, bool certain, uint64_t begin_ns)
{
	if (!certain || (copy->async && !ts_follow(place, copy->stream, copy->per_thread,
						copy->bytes, begin_ns)))
		ts_write_relaxed(&place->doubt, 1);
}

ts_cu_result ts_bring_followed(const struct ts_copy *copy, bool captured)
{
	struct ts_place *places[] = {
		ts_place_find(copy->from, copy->bytes), ts_place_find(copy->to, copy->bytes)};
	for (unsigned i = 0; i < TS_ARRAY_SIZE(places); i++) {
		if (!places[i])
			continue;
		ts_add_relaxed(&places[i]->copies, 1);
		if (copy->async)
			ts_add_relaxed(&places[i]->pending, 1);
	}
	ts_place_prove();
	if (places[1])
		ts_place_unname(places[1]);
	/* The time of one transfer is known where nothing was queued before it. */
	uint64_t begin_ns = ts_copy_is_named(copy) && copy->known->at_once ? ts_now_ns() : 0;
	/* It may fail for what was enqueued before it, and be enqueued all the same. */
	ts_cu_result result = ts_copy_real(copy);
	bool certain = result == TS_CU_SUCCESS && !captured;
	if (certain && begin_ns && !copy->async)
		ts_cost_learn_known(copy->bytes, ts_now_ns() - begin_ns);
	for (unsigned i = 0; i < TS_ARRAY_SIZE(places); i++)
		if (places[i])
			copied(places[i], copy, certain, begin_ns);
	return result;
}

ts_cu_result ts_bring(const struct ts_copy *copy)
{
	if (ts_bring_may_leave(copy)) {
		copy->part->left = true;
		return TS_CU_SUCCESS;
	}
	return ts_copy_is_named(copy) ? ts_bring_followed(copy, false) : ts_copy_real(copy);
}
