/* SPDX-License-Identifier: MIT */
/*
 * Copies.  When they return, after "API synchronization behavior" of the driver's manual:
 *
 *	to device, pageable   the bytes were taken at the call; the synchronous call waits for
 *	                      its stream before that, neither for the device afterwards
 *	to device, pinned     the bytes are read when the stream gets there; the synchronous
 *	                      call waits for that
 *	to host               pageable: always done; pinned: the synchronous call waits
 *	within devices        nobody waits for the device
 *	host to host          always done
 *
 * With FAKECUDA_HOST_PAGE_TABLES=1 the device reaches all of the host's memory, as on machines
 * where both share their page tables, and pageable memory is treated as pinned.  With
 * FAKECUDA_PAGEABLE_LATE=1 it reaches that memory by other means, and an asynchronous copy
 * reads it as late; no manual says that a driver does so, nor that none does.
 */
#include "driver.h"

#include <string.h>

/* Fill in a side of @op.  A device address must be inside one allocation. */
static CUresult side_locked(struct fake_side *side, uintptr_t address, size_t pitch,
	const struct fake_op *op, bool device)
{
	size_t bytes = pitch * (op->height - 1) + op->width;
	struct fake_memory *memory = fake_memory_find_locked(address, bytes);
	if (device) {
		if (!memory || !fake_memory_is_device(memory))
			return CUDA_ERROR_INVALID_VALUE;
		side->bytes = memory->bytes + (address - memory->address);
	} else {
		/* A device's address where a host's belongs. */
		if (memory && fake_memory_is_device(memory))
			return CUDA_ERROR_INVALID_VALUE;
		/* Partly pinned, or by two calls: refused (cuda.h, cuMemcpy). */
		if (!memory && fake_memory_overlaps_locked(address, bytes))
			return CUDA_ERROR_INVALID_VALUE;
		side->bytes = (unsigned char *)address;
	}
	side->pitch = pitch;
	side->memory = memory;
	if (memory)
		memory->refs++;
	return CUDA_SUCCESS;
}

bool fake_is_pageable(const struct fake_side *side)
{
	return !side->memory && !fake_number(FAKE_HOST_PAGE_TABLES);
}

static enum fake_direction direction_of(
	const struct fake_op *op, bool from_device, bool to_device)
{
	if (from_device && to_device)
		return op->src.memory->physical == op->dst.memory->physical ? FAKE_D2D
									    : FAKE_PEER;
	if (to_device)
		return FAKE_H2D;
	return from_device ? FAKE_D2H : FAKE_H2H;
}

void fake_count_copy(const struct fake_op *op)
{
	static const enum fake_counter copies[] = {FAKE_H2D_COPIES, FAKE_D2H_COPIES,
		FAKE_D2D_COPIES, FAKE_PEER_COPIES, FAKE_H2H_COPIES};
	static const enum fake_counter bytes[] = {
		FAKE_H2D_BYTES, FAKE_D2H_BYTES, FAKE_D2D_BYTES, FAKE_PEER_BYTES, -1};
	if (op->kind == FAKE_OP_FILL)
		fake_count(FAKE_FILLS, 1);
	if (op->kind != FAKE_OP_COPY)
		return;
	fake_count(copies[op->direction], 1);
	if (op->direction != FAKE_H2H)
		fake_count(bytes[op->direction], op->width * op->height);
	if (op->direction == FAKE_H2D && !op->src.memory)
		fake_count(FAKE_H2D_PAGEABLE, 1);
	if (op->direction == FAKE_H2D && op->width * op->height == 1)
		fake_count(FAKE_H2D_OF_ONE, 1);
}

/* Take the source's bytes now.  Gives up the lock meanwhile. */
static void stage_locked(struct fake_op *op)
{
	size_t pitch = op->width;
	op->staging = fake_alloc(op->width * op->height);
	pthread_mutex_unlock(&fake_lock);
	for (size_t row = 0; row < op->height; row++)
		memcpy((unsigned char *)op->staging + row * pitch,
			op->src.bytes + row * op->src.pitch, op->width);
	pthread_mutex_lock(&fake_lock);
	op->src.bytes = op->staging;
	op->src.pitch = pitch;
}

/* Put the copy into the stream and wait as long as its kind and @sync want it. */
static CUresult issue_locked(
	CUstream stream, struct fake_op *op, bool sync, enum fake_reading reading)
{
	bool pageable_source = fake_is_pageable(&op->src);
	bool pageable_target = fake_is_pageable(&op->dst);
	if (!sync && reading == FAKE_READ_USUAL && fake_number(FAKE_PAGEABLE_LATE))
		reading = FAKE_READ_LATE;
	CUresult r = CUDA_SUCCESS;
	if (op->direction == FAKE_H2D &&
		(pageable_source ? reading != FAKE_READ_LATE : reading == FAKE_READ_NOW)) {
		if (sync)
			r = fake_wait_stream_locked(stream);
		stage_locked(op);
		sync = op->width * op->height > (size_t)fake_number(FAKE_STAGING);
	} else if (op->direction == FAKE_D2D || op->direction == FAKE_PEER) {
		sync = false;
	} else if (op->direction == FAKE_H2H ||
		   (op->direction == FAKE_D2H && pageable_target)) {
		sync = true;
	}
	if (r != CUDA_SUCCESS) {
		fake_op_free_locked(op);
		return r;
	}
	fake_count_copy(op);
	fake_enqueue_locked(stream, op);
	if (sync)
		r = fake_wait_point_locked((struct fake_point){stream, stream->enqueued});
	return r;
}

/* Takes @op over. */
static CUresult start_locked(
	CUstream handle, struct fake_op *op, bool sync, enum fake_reading reading)
{
	CUstream stream;
	CUresult r = fake_stream_find_locked(handle, &stream);
	if (r == CUDA_SUCCESS)
		r = fake_capture_check_legacy_locked(stream);
	if (r == CUDA_SUCCESS && sync)
		r = fake_capture_forbids_locked();
	if (r == CUDA_SUCCESS && stream->capture)
		return fake_capture_op_locked(stream, op, reading == FAKE_READ_NOW);
	if (r == CUDA_SUCCESS)
		return issue_locked(stream, op, sync, reading);
	fake_op_free_locked(op);
	return r;
}

static CUresult copy_locked(const struct fake_request *q, CUstream stream, bool sync)
{
	struct fake_op *op = fake_op_new(FAKE_OP_COPY);
	op->width = q->width;
	op->height = q->height;
	CUresult r = side_locked(&op->dst, q->dst, q->dst_pitch, op, q->dst_device);
	if (r == CUDA_SUCCESS)
		r = side_locked(&op->src, q->src, q->src_pitch, op, q->src_device);
	if (r != CUDA_SUCCESS) {
		fake_op_free_locked(op);
		return r;
	}
	op->direction = direction_of(op, q->src_device, q->dst_device);
	return start_locked(stream, op, sync, q->reading);
}

CUresult fake_copy(const struct fake_request *q, CUstream stream, bool sync)
{
	CUcontext context;
	pthread_mutex_lock(&fake_lock);
	CUresult r = fake_current_locked(&context);
	if (r == CUDA_SUCCESS && q->width > 0 && q->height > 0)
		r = copy_locked(q, stream, sync);
	pthread_mutex_unlock(&fake_lock);
	return r;
}

static CUresult copy(CUdeviceptr dst, bool dst_device, CUdeviceptr src, bool src_device,
	size_t bytes, CUstream stream, bool sync)
{
	struct fake_request q = {.dst = dst,
		.src = src,
		.width = bytes,
		.height = 1,
		.dst_device = dst_device,
		.src_device = src_device};
	return fake_copy(&q, stream, sync);
}

CUresult do_cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream)
{
	return copy(dst, true, (uintptr_t)src, false, bytes, stream, true);
}

CUresult do_cuMemcpyHtoDAsync_v2(
	CUdeviceptr dst, const void *src, size_t bytes, CUstream stream)
{
	return copy(dst, true, (uintptr_t)src, false, bytes, stream, false);
}

CUresult do_cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
	return copy((uintptr_t)dst, false, src, true, bytes, stream, true);
}

CUresult do_cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
	return copy((uintptr_t)dst, false, src, true, bytes, stream, false);
}

CUresult do_cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
	return copy(dst, true, src, true, bytes, stream, true);
}

CUresult do_cuMemcpyDtoDAsync_v2(
	CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
	return copy(dst, true, src, true, bytes, stream, false);
}

#ifdef FAKE_FUTURE
CUresult do_cuMemcpyHtoDAsync_v3(
	CUdeviceptr dst, const void *src, size_t bytes, unsigned int flags, CUstream stream)
{
	return flags == 0 ? copy(dst, true, (uintptr_t)src, false, bytes, stream, false)
			  : CUDA_ERROR_INVALID_VALUE;
}
#endif

bool fake_is_device_address(CUdeviceptr pointer)
{
	pthread_mutex_lock(&fake_lock);
	struct fake_memory *memory = fake_memory_find_locked(pointer, 1);
	bool device = memory && fake_memory_is_device(memory);
	pthread_mutex_unlock(&fake_lock);
	return device;
}

/* One address space: what kind of memory they mean, the addresses tell. */
static CUresult copy_unified(
	CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream, bool sync)
{
	return copy(dst, fake_is_device_address(dst), src, fake_is_device_address(src), bytes,
		stream, sync);
}

CUresult do_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
	return copy_unified(dst, src, bytes, stream, true);
}

CUresult do_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
	return copy_unified(dst, src, bytes, stream, false);
}

CUresult do_cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream)
{
	CUcontext context;
	pthread_mutex_lock(&fake_lock);
	CUresult r = fake_current_locked(&context);
	if (r == CUDA_SUCCESS && bytes > 0) {
		struct fake_op *op = fake_op_new(FAKE_OP_FILL);
		op->direction = FAKE_D2D;
		op->width = bytes;
		op->height = 1;
		op->fill = value;
		r = side_locked(&op->dst, dst, bytes, op, true);
		if (r == CUDA_SUCCESS)
			r = start_locked(stream, op, false, FAKE_READ_USUAL);
		else
			fake_op_free_locked(op);
	}
	pthread_mutex_unlock(&fake_lock);
	return r;
}

CUresult do_cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream)
{
	return do_cuMemsetD8Async(dst, value, bytes, stream);
}
