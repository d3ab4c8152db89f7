/* SPDX-License-Identifier: MIT */
/*
 * The other ways to allocate.  A pool keeps nothing here, memory is there when the call returns
 * (which a stream-ordered one may be), and physical memory cannot be mapped: what these are for
 * is to find no room.
 */
#include "driver.h"

#define PITCH ((size_t)512) /* rows begin at a multiple of it */

CUresult do_cuMemAllocPitch_v2(
	CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned int element)
{
	if (!pitch || width == 0 || height == 0 ||
		(element != 4 && element != 8 && element != 16))
		return CUDA_ERROR_INVALID_VALUE;
	*pitch = (width + PITCH - 1) / PITCH * PITCH;
	return do_cuMemAlloc_v2(pointer, *pitch * height);
}

static CUresult check_stream(CUstream stream)
{
	pthread_mutex_lock(&fake_lock);
	CUresult r = fake_stream_find_locked(stream, &stream);
	pthread_mutex_unlock(&fake_lock);
	return r;
}

CUresult do_cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
	CUresult r = check_stream(stream);
	return r == CUDA_SUCCESS ? do_cuMemAlloc_v2(pointer, bytes) : r;
}

/* There is one for each device. */
static char pools[FAKE_MOST_DEVICES];

CUresult do_cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	if (!fake_device_is_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	*pool = (CUmemoryPool)(void *)&pools[device];
	return CUDA_SUCCESS;
}

CUresult do_cuMemAllocFromPoolAsync(
	CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	uintptr_t at = (uintptr_t)pool - (uintptr_t)pools;
	return at < sizeof(pools) ? do_cuMemAllocAsync(pointer, bytes, stream)
				  : CUDA_ERROR_INVALID_VALUE;
}

/* Waits for more than it must. */
CUresult do_cuMemFreeAsync(CUdeviceptr pointer, CUstream stream)
{
	CUresult r = check_stream(stream);
	return r == CUDA_SUCCESS ? do_cuMemFree_v2(pointer) : r;
}

CUresult do_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
	const CUmemAllocationProp *properties, unsigned long long flags)
{
	CUdeviceptr pointer;
	if (!handle || !properties || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult r = do_cuMemAlloc_v2(&pointer, bytes);
	if (r == CUDA_SUCCESS)
		*handle = pointer;
	return r;
}

CUresult do_cuMemRelease(CUmemGenericAllocationHandle handle)
{
	return handle ? do_cuMemFree_v2(handle) : CUDA_ERROR_INVALID_VALUE;
}
