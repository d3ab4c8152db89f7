/* SPDX-License-Identifier: MIT */
/* A trainer on top of a runtime, as torch is; see minicudart.h. */
#include "trainer.h"

#include <stdio.h>
#include <stdlib.h>

static int per_thread_streams;

static CUresult htod(CUdeviceptr dst, const void *src, size_t bytes)
{
	return mini_memcpy(
		(void *)(uintptr_t)dst, src, bytes, MINI_HOST_TO_DEVICE, per_thread_streams);
}

static CUresult htod_async(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream)
{
	return mini_memcpy_async((void *)(uintptr_t)dst, src, bytes, MINI_HOST_TO_DEVICE,
		stream, per_thread_streams);
}

static CUresult dtoh(void *dst, CUdeviceptr src, size_t bytes)
{
	return mini_memcpy(dst, (const void *)(uintptr_t)src, bytes, MINI_DEVICE_TO_HOST,
		per_thread_streams);
}

static CUresult any(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
	return mini_memcpy((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, bytes,
		MINI_DEFAULT, per_thread_streams);
}

static CUresult any_async(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
	return mini_memcpy_async((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, bytes,
		MINI_DEFAULT, stream, per_thread_streams);
}

const struct mini_driver *trainer_driver(bool per_thread)
{
	static struct mini_driver driver;
	per_thread_streams = per_thread;
	driver = *mini_driver(per_thread);
	if (!driver.cuInit) {
		fputs("trainer: no driver\n", stderr);
		exit(3);
	}
	driver.cuMemcpyHtoD_v2 = htod;
	driver.cuMemcpyHtoDAsync_v2 = htod_async;
	driver.cuMemcpyDtoH_v2 = dtoh;
	driver.cuMemcpy = any;
	driver.cuMemcpyAsync = any_async;
	return &driver;
}
