/* SPDX-License-Identifier: MIT */
/*
 * A batch of copies (cuMemcpyBatchAsync): which of them are shared, and the rest.
 *
 * The copies of a batch have no order among each other, and all of them follow what was in the
 * stream before.  So those that can be shared are taken out of it, one by one, as if each had
 * been asked for alone, and the driver makes the rest by one call; whole batches stay as they
 * are.  A hit is copied from the ring.  The driver makes a copy that is to be published, or
 * measured, as a batch of one, so that the program gets of each copy what it asked for.  Copies
 * from or to the hand-over pool, which need an event behind them, are taken out as well; not
 * those that are read before the call returns, which need none.
 *
 * When the driver reads the source of a copy is part of what the program asks for: before the
 * call returns, when the stream comes to it, or whenever it likes.  A copy that is shared reads
 * pageable memory before the call returns.  That was asked for in the first case, is the
 * driver's choice in the last, where it is made only if nothing is queued before
 * (sharing.c), and is wrong in the second: the work before it may write to the source.
 */
#include "hooks/cuda/copy.h"
#include "hooks/cuda/cost.h"
#include "leader/group/session.h"
#include "shim/atomic.h"
#include "shim/scratch.h"

/* Larger batches are the driver's: of many small copies, as of a cache of keys and values. */
#define BATCH_MOST 64u

/* The driver has said nothing of a copy, not even that it was none (SIZE_MAX). */
#define UNTOLD (SIZE_MAX - 1)

/* The rest of a batch, in the arrays that the driver wants. */
struct rest {
	ts_cu_pointer to[BATCH_MOST], from[BATCH_MOST];
	size_t bytes[BATCH_MOST], number[BATCH_MOST]; /* in the whole batch */
	struct ts_cu_copy_attributes attributes[BATCH_MOST];
	size_t attribute_at[BATCH_MOST];
	size_t count, attribute_count;
};

static ts_cu_result whole(const struct ts_batch *batch)
{
	if (batch->real)
		return batch->real(batch->to, batch->from, batch->bytes, batch->count,
			batch->attributes, batch->attribute_at, batch->attribute_count,
			batch->ret_failed, batch->stream);
	return batch->real_v2(batch->to, batch->from, batch->bytes, batch->count,
		batch->attributes, batch->attribute_at, batch->attribute_count, batch->stream);
}

/* Buffers of the hand-over pool that are in it have no event behind what uses them. */
static void doubt(const struct ts_batch *batch)
{
	if (!batch->to || !batch->from || !batch->bytes || !ts_load_relaxed(&ts_places_high))
		return;
	for (size_t i = 0; i < batch->count; i++) {
		ts_place_doubt(batch->from[i], batch->bytes[i]);
		ts_place_doubt(batch->to[i], batch->bytes[i]);
	}
}

static ts_cu_result pass(const struct ts_batch *batch, enum ts_reason reason)
{
	ts_cu_result result = whole(batch);
	ts_session_count_pass(reason);
	doubt(batch);
	return result;
}

/* ---- what is asked for ------------------------------------------------------------------ */

static bool is_pooled(const struct ts_batch *batch, size_t i)
{
	return ts_place_near(batch->from[i], batch->bytes[i]) ||
	       ts_place_near(batch->to[i], batch->bytes[i]);
}

/* A first look that costs next to nothing. */
static bool is_any_worth_it(const struct ts_batch *batch)
{
	if (batch->count == 0 || batch->count > BATCH_MOST || !batch->to || !batch->from ||
		!batch->bytes)
		return false;
	for (size_t i = 0; i < batch->count; i++)
		if (batch->bytes[i] >= TS_COPY_BYTES_MIN || is_pooled(batch, i))
			return true;
	return false;
}

/* Whether the driver would find nothing wrong with the batch as such. */
static bool is_well_formed(const struct ts_batch *batch)
{
	const size_t *at = batch->attribute_at;
	if (!batch->attributes || !at || batch->attribute_count == 0 || at[0] != 0)
		return false;
	for (size_t i = 0; i < batch->attribute_count; i++) {
		int order = batch->attributes[i].order;
		if (order < TS_CU_ORDER_STREAM || order > TS_CU_ORDER_ANY ||
			(i > 0 && (at[i] <= at[i - 1] || at[i] >= batch->count)))
			return false;
	}
	for (size_t i = 0; i < batch->count; i++)
		if (!batch->to[i] || !batch->from[i] || batch->bytes[i] == 0)
			return false;
	return true;
}

/* The legacy stream is refused, and one that is captured left alone. */
static bool is_stream_good(const struct ts_batch *batch)
{
	const struct ts_copy any = {.stream = batch->stream, .per_thread = batch->per_thread};
	if (batch->stream == TS_CU_STREAM_LEGACY || (!batch->stream && !batch->per_thread))
		return false;
	return !ts_copy_may_be_captured(&any);
}

static const struct ts_cu_copy_attributes *attributes_of(const struct ts_batch *batch, size_t i)
{
	size_t at = 0;
	while (at + 1 < batch->attribute_count && batch->attribute_at[at + 1] <= i)
		at++;
	return &batch->attributes[at];
}

/* Flags and places are wishes of which a copy from a ring would know nothing. */
static bool is_plain(const struct ts_cu_copy_attributes *attributes)
{
	return attributes->flags == 0 && attributes->from.type == TS_CU_LOCATION_NONE &&
	       attributes->to.type == TS_CU_LOCATION_NONE;
}

/* ---- one of them ------------------------------------------------------------------------ */

/* A copy of a batch, and which one. */
struct one {
	struct ts_part part;
	const struct ts_batch *batch;
	size_t number;
};

/* Pageable memory that is shared is read before the call returns, pinned memory as asked for.
 */
static ts_cu_result bring_one(const struct ts_part *part, const struct ts_copy *copy)
{
	const struct one *one = (const struct one *)part; /* its first member */
	const struct ts_batch *batch = one->batch;
	struct ts_cu_copy_attributes attributes = *attributes_of(batch, one->number);
	size_t first = 0, failed;
	if (!copy->pinned)
		attributes.order = TS_CU_ORDER_CALL;
	struct ts_batch alone = *batch;
	alone.to = &batch->to[one->number];
	alone.from = &batch->from[one->number];
	alone.bytes = &batch->bytes[one->number];
	alone.count = alone.attribute_count = 1;
	alone.attributes = &attributes;
	alone.attribute_at = &first;
	alone.ret_failed = &failed;
	return whole(&alone);
}

/* Pinned memory of the pool is read later than the call, unless that was asked for. */
static bool bring_pooled(const struct ts_copy *copy, int order)
{
	return order != TS_CU_ORDER_CALL && ts_copy(copy) == TS_CU_SUCCESS;
}

/* Returns whether the copy is done.  One that fails is left: the driver says why. */
static bool take_out(const struct ts_batch *batch, size_t i, uint64_t *waited_ns)
{
	const struct ts_cu_copy_attributes *attributes = attributes_of(batch, i);
	struct one one = {.part = {.bring = bring_one,
				  .order = attributes->order,
				  .waited_ns = waited_ns},
		.batch = batch,
		.number = i};
	struct ts_copy copy = {.to = batch->to[i],
		.from = batch->from[i],
		.bytes = batch->bytes[i],
		.stream = batch->stream,
		.per_thread = batch->per_thread,
		.async = true,
		.part = &one.part};
	if (!is_plain(attributes)) {
		ts_session_count_pass(TS_REASON_COPY_KIND);
		return false;
	}
	if (is_pooled(batch, i) && ts_bring_is_pooled(&copy))
		return bring_pooled(&copy, attributes->order);
	if (copy.bytes < TS_COPY_BYTES_MIN) {
		ts_session_count_pass(TS_REASON_COPY_SMALL);
		return false;
	}
	one.part.may_be_left = true;
	return ts_copy(&copy) == TS_CU_SUCCESS && !one.part.left;
}

/* ---- the rest --------------------------------------------------------------------------- */

static void leave(struct rest *rest, const struct ts_batch *batch, size_t i)
{
	const struct ts_cu_copy_attributes *attributes = attributes_of(batch, i);
	size_t n = rest->count++;
	rest->to[n] = batch->to[i];
	rest->from[n] = batch->from[i];
	rest->bytes[n] = batch->bytes[i];
	rest->number[n] = i;
	if (n > 0 && attributes == attributes_of(batch, rest->number[n - 1]))
		return;
	rest->attributes[rest->attribute_count] = *attributes;
	rest->attribute_at[rest->attribute_count++] = n;
}

/* Tells which copy is wrong by its number in the whole batch. */
static ts_cu_result bring(const struct ts_batch *batch, struct rest *rest)
{
	size_t failed = UNTOLD;
	struct ts_batch part = *batch;
	part.to = rest->to;
	part.from = rest->from;
	part.bytes = rest->bytes;
	part.count = rest->count;
	part.attributes = rest->attributes;
	part.attribute_at = rest->attribute_at;
	part.attribute_count = rest->attribute_count;
	part.ret_failed = batch->ret_failed ? &failed : NULL;
	ts_cu_result result = whole(&part);
	if (result != TS_CU_SUCCESS && failed < rest->count)
		failed = rest->number[failed];
	if (batch->ret_failed && failed != UNTOLD)
		*batch->ret_failed = failed;
	doubt(&part);
	return result;
}

ts_cu_result ts_batch(const struct ts_batch *batch)
{
	struct rest *rest TS_SCRATCH = ts_scratch();
	uint64_t waited_ns = 0;
	if (!is_any_worth_it(batch))
		return pass(batch, TS_REASON_COPY_KIND);
	if (!rest)
		return pass(batch, TS_REASON_MEMORY);
	if (!ts_cuda_is_complete() || !is_well_formed(batch) || !is_stream_good(batch))
		return pass(batch, TS_REASON_COPY_STATE);
	rest->count = rest->attribute_count = 0;
	for (size_t i = 0; i < batch->count; i++)
		if (!take_out(batch, i, &waited_ns))
			leave(rest, batch, i);
	if (rest->count < batch->count)
		return rest->count ? bring(batch, rest) : TS_CU_SUCCESS;
	ts_cu_result result = whole(batch);
	doubt(batch);
	return result;
}
