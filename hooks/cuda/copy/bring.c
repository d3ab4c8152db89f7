/* SPDX-License-Identifier: MIT */
/* Having the driver bring a copy. */
#include "hooks/cuda/copy/bring.h"

#include "hooks/cuda/gpu/cost.h"
#include "hooks/cuda/gpu/follow.h"
#include "hooks/cuda/gpu/places.h"
#include "shim/sys.h"

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
	/* What a transfer takes is known where nothing was queued before it. */
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
