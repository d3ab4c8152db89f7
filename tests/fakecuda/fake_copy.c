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

/*
 * When the source's bytes are taken: pageable memory's at the call and pinned memory's when the
 * stream gets there, or both at the one or the other time.
 */
enum fake_reading { FAKE_READ_USUAL, FAKE_READ_NOW, FAKE_READ_LATE };

/* A copy as its caller wants it: addresses, rows, and on which sides a device is. */
struct fake_request {
	uintptr_t dst, src;
	size_t width, height, dst_pitch, src_pitch;
	bool dst_device, src_device;
	enum fake_reading reading;
};

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
	if (!sync && reading == FAKE_READ_USUAL &&
		(fake_number(FAKE_PAGEABLE_LATE) || fake_number(FAKE_LIES) == FAKE_LIE_LATE))
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

static CUresult issue(const struct fake_request *q, CUstream stream, bool sync)
{
	CUcontext context;
	TRY(fake_current_locked(&context));
	return q->width > 0 && q->height > 0 ? copy_locked(q, stream, sync) : CUDA_SUCCESS;
}

static bool is_device_address(CUdeviceptr pointer)
{
	struct fake_memory *memory = fake_memory_find_locked(pointer, 1);
	return memory && fake_memory_is_device(memory);
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
	return issue(&q, stream, sync);
}

/* The plain copies: the call, its parameters, and on which sides a device is. */
#define COPY(symbol, dst_type, dst_device, src_type, src_device, sync)                     \
	CUresult do_##symbol(dst_type dst, src_type src, size_t bytes, CUstream stream)    \
	{                                                                                  \
		return copy((uintptr_t)dst, dst_device, (uintptr_t)src, src_device, bytes, \
			stream, sync);                                                     \
	}
COPY(cuMemcpyHtoD_v2, CUdeviceptr, true, const void *, false, true)
COPY(cuMemcpyHtoDAsync_v2, CUdeviceptr, true, const void *, false, false)
COPY(cuMemcpyDtoH_v2, void *, false, CUdeviceptr, true, true)
COPY(cuMemcpyDtoHAsync_v2, void *, false, CUdeviceptr, true, false)
COPY(cuMemcpyDtoD_v2, CUdeviceptr, true, CUdeviceptr, true, true)
COPY(cuMemcpyDtoDAsync_v2, CUdeviceptr, true, CUdeviceptr, true, false)
/* One address space: what kind of memory they mean, the addresses tell. */
COPY(cuMemcpy, CUdeviceptr, is_device_address(dst), CUdeviceptr, is_device_address(src), true)
COPY(cuMemcpyAsync, CUdeviceptr, is_device_address(dst), CUdeviceptr, is_device_address(src),
	false)

#ifdef FAKE_FUTURE
CUresult do_cuMemcpyHtoDAsync_v3(
	CUdeviceptr dst, const void *src, size_t bytes, unsigned int flags, CUstream stream)
{
	return flags == 0 ? copy(dst, true, (uintptr_t)src, false, bytes, stream, false)
			  : CUDA_ERROR_INVALID_VALUE;
}
#endif

CUresult do_cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream)
{
	CUcontext context;
	TRY(fake_current_locked(&context));
	if (bytes == 0)
		return CUDA_SUCCESS;
	struct fake_op *op = fake_op_new(FAKE_OP_FILL);
	op->direction = FAKE_D2D;
	op->width = bytes;
	op->height = 1;
	op->fill = value;
	CUresult r = side_locked(&op->dst, dst, bytes, op, true);
	if (r == CUDA_SUCCESS)
		return start_locked(stream, op, false, FAKE_READ_USUAL);
	fake_op_free_locked(op);
	return r;
}

CUresult do_cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream)
{
	return do_cuMemsetD8Async(dst, value, bytes, stream);
}

/* One side of a copy of rows: where it begins, and whether that is a device's. */
static CUresult place(CUmemorytype type, const void *host, CUdeviceptr device, size_t offset,
	uintptr_t *ret_address, bool *ret_device)
{
	switch (type) {
	case CU_MEMORYTYPE_HOST:
		*ret_address = (uintptr_t)host + offset;
		*ret_device = false;
		return CUDA_SUCCESS;
	case CU_MEMORYTYPE_DEVICE:
		*ret_address = (uintptr_t)device + offset;
		*ret_device = true;
		return CUDA_SUCCESS;
	case CU_MEMORYTYPE_UNIFIED:
		*ret_address = (uintptr_t)device + offset;
		*ret_device = is_device_address(device);
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult rows_of(const CUDA_MEMCPY2D *c, struct fake_request *ret_request)
{
	size_t dst_pitch = c->dstPitch ? c->dstPitch : c->WidthInBytes;
	size_t src_pitch = c->srcPitch ? c->srcPitch : c->WidthInBytes;
	struct fake_request q = {.width = c->WidthInBytes,
		.height = c->Height,
		.dst_pitch = dst_pitch,
		.src_pitch = src_pitch};
	INVALID_IF(dst_pitch < c->WidthInBytes || src_pitch < c->WidthInBytes);
	TRY(place(c->dstMemoryType, c->dstHost, c->dstDevice,
		c->dstY * dst_pitch + c->dstXInBytes, &q.dst, &q.dst_device));
	TRY(place(c->srcMemoryType, c->srcHost, c->srcDevice,
		c->srcY * src_pitch + c->srcXInBytes, &q.src, &q.src_device));
	*ret_request = q;
	return CUDA_SUCCESS;
}

CUresult do_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
	struct fake_request q;
	INVALID_IF(!copy);
	TRY(rows_of(copy, &q));
	return issue(&q, stream, false);
}

CUresult do_cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
	CUcontext src_context, size_t bytes, CUstream stream)
{
	TRY(fake_context_check_locked(dst_context));
	TRY(fake_context_check_locked(src_context));
	return copy(dst, true, src, true, bytes, stream, false);
}

/* Which attributes hold for copy number @i: the last whose index is not behind it. */
static const CUmemcpyAttributes *attributes_of(
	const CUmemcpyAttributes *attributes, const size_t *from, size_t count, size_t i)
{
	size_t k = 0;
	while (k + 1 < count && from[k + 1] <= i)
		k++;
	return &attributes[k];
}

static bool are_valid(
	const CUmemcpyAttributes *attributes, const size_t *from, size_t count, size_t copies)
{
	if (!attributes || !from || count == 0 || count > copies || from[0] != 0)
		return false;
	for (size_t k = 0; k < count; k++) {
		if (attributes[k].srcAccessOrder < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
			attributes[k].srcAccessOrder > CU_MEMCPY_SRC_ACCESS_ORDER_ANY)
			return false;
		if (k > 0 && (from[k] <= from[k - 1] || from[k] >= copies))
			return false;
	}
	return true;
}

/* In stream order means that what is before it may write to the source, be it pageable. */
static enum fake_reading reading_of(const CUmemcpyAttributes *attributes)
{
	switch (attributes->srcAccessOrder) {
	case CU_MEMCPY_SRC_ACCESS_ORDER_STREAM:
		return FAKE_READ_LATE;
	case CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL:
		return FAKE_READ_NOW;
	default:
		return fake_number(FAKE_BATCHES_LATE) ? FAKE_READ_LATE : FAKE_READ_USUAL;
	}
}

/* With 13.0 the parameter that told which copy was wrong went away. */
CUresult do_cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
	size_t count, CUmemcpyAttributes *attributes, size_t *from, size_t attribute_count,
	CUstream stream)
{
	size_t ignored;
	return do_cuMemcpyBatchAsync(
		dsts, srcs, sizes, count, attributes, from, attribute_count, &ignored, stream);
}

CUresult do_cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
	size_t count, CUmemcpyAttributes *attributes, size_t *from, size_t attribute_count,
	size_t *failed, CUstream stream)
{
	static _Atomic uint64_t of_one;
	CUresult r = CUDA_SUCCESS;
	if (count == 1 && fake_fails_locked("batch_of_one", ++of_one, &r))
		return r;
	if (failed)
		*failed = SIZE_MAX;
	/* It needs a stream to be in order with, and the legacy one is not good enough. */
	INVALID_IF(!dsts || !srcs || !sizes || count == 0 || stream == CU_STREAM_LEGACY ||
		   !are_valid(attributes, from, attribute_count, count));
	fake_count(FAKE_BATCHES, 1);
	for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
		const CUmemcpyAttributes *a =
			attributes_of(attributes, from, attribute_count, i);
		struct fake_request q = {.dst = dsts[i],
			.src = srcs[i],
			.width = sizes[i],
			.height = 1,
			.dst_device = is_device_address(dsts[i]),
			.src_device = is_device_address(srcs[i]),
			.reading = reading_of(a)};
		r = sizes[i] > 0 ? issue(&q, stream, false) : CUDA_ERROR_INVALID_VALUE;
		if (r != CUDA_SUCCESS && failed)
			*failed = i;
	}
	return r;
}
