/* SPDX-License-Identifier: MIT */
/* Copies of rows, between contexts, and in batches; plain ones are in copy.c. */
#include "driver.h"

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
		*ret_device = fake_is_device_address(device);
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
	if (dst_pitch < c->WidthInBytes || src_pitch < c->WidthInBytes)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult r = place(c->dstMemoryType, c->dstHost, c->dstDevice,
		c->dstY * dst_pitch + c->dstXInBytes, &q.dst, &q.dst_device);
	if (r == CUDA_SUCCESS)
		r = place(c->srcMemoryType, c->srcHost, c->srcDevice,
			c->srcY * src_pitch + c->srcXInBytes, &q.src, &q.src_device);
	if (r == CUDA_SUCCESS)
		*ret_request = q;
	return r;
}

CUresult do_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
	struct fake_request q;
	CUresult r = copy ? rows_of(copy, &q) : CUDA_ERROR_INVALID_VALUE;
	return r == CUDA_SUCCESS ? fake_copy(&q, stream, false) : r;
}

static CUresult peer(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
	CUcontext src_context, size_t bytes, CUstream stream, bool sync)
{
	pthread_mutex_lock(&fake_lock);
	CUresult r = fake_context_check_locked(dst_context);
	if (r == CUDA_SUCCESS)
		r = fake_context_check_locked(src_context);
	pthread_mutex_unlock(&fake_lock);
	struct fake_request q = {.dst = dst,
		.src = src,
		.width = bytes,
		.height = 1,
		.dst_device = true,
		.src_device = true};
	return r == CUDA_SUCCESS ? fake_copy(&q, stream, sync) : r;
}

CUresult do_cuMemcpyPeer(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
	CUcontext src_context, size_t bytes, CUstream stream)
{
	return peer(dst, dst_context, src, src_context, bytes, stream, true);
}

CUresult do_cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
	CUcontext src_context, size_t bytes, CUstream stream)
{
	return peer(dst, dst_context, src, src_context, bytes, stream, false);
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
	if (count == 1 && fake_fails("batch_of_one", ++of_one, &r))
		return r;
	if (failed)
		*failed = SIZE_MAX;
	/* It needs a stream to be in order with, and the legacy one is not good enough. */
	if (!dsts || !srcs || !sizes || count == 0 || stream == CU_STREAM_LEGACY ||
		!are_valid(attributes, from, attribute_count, count))
		return CUDA_ERROR_INVALID_VALUE;
	fake_count(FAKE_BATCHES, 1);
	for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
		const CUmemcpyAttributes *a =
			attributes_of(attributes, from, attribute_count, i);
		struct fake_request q = {.dst = dsts[i],
			.src = srcs[i],
			.width = sizes[i],
			.height = 1,
			.dst_device = fake_is_device_address(dsts[i]),
			.src_device = fake_is_device_address(srcs[i]),
			.reading = reading_of(a)};
		r = sizes[i] > 0 ? fake_copy(&q, stream, false) : CUDA_ERROR_INVALID_VALUE;
		if (r != CUDA_SUCCESS && failed)
			*failed = i;
	}
	return r;
}
