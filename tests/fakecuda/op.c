/* SPDX-License-Identifier: MIT */
/* Operations of streams: how long they take and what they do; see driver.h. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

struct fake_op *fake_op_new(enum fake_op_kind kind)
{
	struct fake_op *op = fake_alloc(sizeof(*op));
	op->kind = kind;
	return op;
}

void fake_op_after(struct fake_op *op, struct fake_point point)
{
	size_t bytes = (op->after_count + 1) * sizeof(*op->after);
	struct fake_point *after = realloc(op->after, bytes);
	if (!after)
		fake_die("no memory");
	after[op->after_count++] = point;
	op->after = after;
}

void fake_op_free_locked(struct fake_op *op)
{
	fake_memory_release_locked(op->dst.memory);
	fake_memory_release_locked(op->src.memory);
	if (op->event)
		fake_event_unuse_locked(op->event);
	free(op->staging);
	free(op->after);
	free(op);
}

/* Of all streams, so that the delays of a run with one seed come from one sequence. */
static int64_t jitter_us(void)
{
	static _Atomic uint64_t drawn;
	int64_t most = fake_number(FAKE_JITTER_US);
	if (most == 0)
		return 0;
	/* splitmix64 */
	uint64_t x = (uint64_t)fake_number(FAKE_JITTER_SEED) +
		     (atomic_fetch_add(&drawn, 1) + 1) * UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (int64_t)((x ^ (x >> 31)) % (uint64_t)(most + 1));
}

static int64_t transfer_us(const struct fake_op *op)
{
	static const enum fake_number limits[] = {
		[FAKE_H2D] = FAKE_BANDWIDTH,
		[FAKE_D2H] = FAKE_BANDWIDTH,
		[FAKE_D2D] = FAKE_DEVICE_BANDWIDTH,
		[FAKE_PEER] = FAKE_PEER_BANDWIDTH,
		[FAKE_H2H] = FAKE_DEVICE_BANDWIDTH,
	};
	if (op->kind != FAKE_OP_COPY)
		return 0;
	int64_t limit = fake_number(limits[op->direction]);
	if (limit == 0)
		return 0;
	return (int64_t)((double)op->width * (double)op->height * 1e6 / (double)limit);
}

/* How long until a transfer that begins now has ended. */
static int64_t under_way_us(const struct fake_op *op)
{
	int64_t us = transfer_us(op), now = fake_now_ns() / 1000;
	if (us == 0 || op->direction != FAKE_H2D || !fake_number(FAKE_LINK_SHARED))
		return us;
	return (int64_t)fake_reserve(FAKE_LINK_FREE_US, (uint64_t)now, (uint64_t)us) - now;
}

static bool has_vanished(const struct fake_memory *memory)
{
	return fake_number(FAKE_VANISHES) && memory && memory->kind == FAKE_MEMORY_IMPORTED &&
	       fake_start_of(memory->owner) != memory->owner_start;
}

/* Whether what it reads and writes is still there; if not, that is what a real device calls
 * an illegal address, and the context does not survive it. */
static bool is_sound(const struct fake_op *op, CUstream stream)
{
	CUcontext context = stream->context;
	pthread_mutex_lock(&fake_lock);
	bool gone = (op->dst.memory && op->dst.memory->gone) ||
		    (op->src.memory && op->src.memory->gone);
	if (has_vanished(op->dst.memory) || has_vanished(op->src.memory)) {
		fake_count(FAKE_VANISHED_USES, 1);
		gone |= fake_number(FAKE_VANISHES) == 1;
	}
	/* What a reset found under way after an error is no part of the next life. */
	bool usable = context->alive && context->life == stream->life &&
		      context->broken == CUDA_SUCCESS;
	if (gone && usable) {
		fake_count(FAKE_LATE_USES, 1);
		fake_context_break_locked(context, CUDA_ERROR_ILLEGAL_ADDRESS);
	}
	pthread_mutex_unlock(&fake_lock);
	return usable && !gone;
}

static void run_copy(struct fake_op *op)
{
	for (size_t row = 0; row < op->height; row++)
		memcpy(op->dst.bytes + row * op->dst.pitch, op->src.bytes + row * op->src.pitch,
			op->width);
	struct fake_memory *from = op->src.memory;
	for (size_t row = 0; row < op->height && has_vanished(from); row++)
		memset(op->dst.bytes + row * op->dst.pitch, FAKE_POISON, op->width);
	if (from && from->kind == FAKE_MEMORY_IMPORTED && atomic_load(&from->shared->freed))
		fake_count(FAKE_POISONED_READS, 1);
}

void fake_op_run(struct fake_op *op, CUstream stream)
{
	/* A mark in a stream costs a device next to nothing. */
	if (op->kind == FAKE_OP_COPY || op->kind == FAKE_OP_FILL)
		fake_work_us(
			stream, fake_number(FAKE_DELAY_US) + jitter_us() + under_way_us(op));
	if (!is_sound(op, stream))
		return;
	switch (op->kind) {
	case FAKE_OP_COPY:
		run_copy(op);
		break;
	case FAKE_OP_FILL:
		memset(op->dst.bytes, op->fill, op->width);
		break;
	case FAKE_OP_CALL:
		op->function(op->data);
		break;
	case FAKE_OP_EVENT:
	case FAKE_OP_NOTHING:
		break;
	}
}
