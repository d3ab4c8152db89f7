/* SPDX-License-Identifier: MIT */
/* When copies read, write and return, and what they refuse. */
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES 10000u

/* 20 ms for so many. */
#define ONE_LINK "VIRTUAL_CLOCK=1 BANDWIDTH=500000 LINK_SHARED=1"

static unsigned char *pageable(int value)
{
	unsigned char *memory = malloc(BYTES);
	CHECK(memory);
	memset(memory, value, BYTES);
	return memory;
}

/* How long a call took, in operations of the device. */
#define OPERATIONS(call)                              \
	__extension__({                               \
		int64_t begin_ = test_clock_us();     \
		OK(call);                             \
		(test_clock_us() - begin_) / SLOW_US; \
	})

enum memory {
	PAGEABLE,
	REGISTERED,
	PINNED,
};

/* A copy of @memory takes so many operations of the device, and brings 2 or, read late, 3. */
static void is_read(enum memory memory, bool sync, int operations, int value)
{
	CUdeviceptr device = test_device(BYTES, 1);
	unsigned char *host = memory == PINNED ? test_pinned(BYTES, 2) : pageable(2);
	uint64_t copies = test_counter("h2d_copies"), not_pinned = test_counter("h2d_pageable");
	if (memory == REGISTERED)
		OK(cuMemHostRegister_v2(host, BYTES, 0));
	int took = (int)OPERATIONS(sync ? cuMemcpyHtoD_v2(device, host, BYTES)
					: cuMemcpyHtoDAsync_v2(device, host, BYTES, NULL));
	memset(host, 3, BYTES);
	CHECK(took == operations);
	CHECK(test_value(device, BYTES) == value);
	CHECK(test_counter("h2d_copies") == copies + 1);
	CHECK(test_counter("h2d_bytes") == (copies + 1) * BYTES);
	CHECK(test_counter("h2d_pageable") == not_pinned + (memory == PAGEABLE));
	if (memory == REGISTERED)
		OK(cuMemHostUnregister(host));
	if (memory != PINNED)
		free(host);
}

static void usual_reads(void)
{
	test_begin(0);
	is_read(PAGEABLE, false, 0, 2);
	is_read(PINNED, false, 0, 3);
	is_read(REGISTERED, false, 0, 3);
	is_read(PAGEABLE, false, 0, 2); /* registered no more */
	is_read(PINNED, true, 1, 2);
}

static bool device_has(CUdevice_attribute attribute)
{
	int value = -1;
	test_begin(0);
	OK(cuDeviceGetAttribute(&value, attribute, 0));
	return value == 1;
}

/* A device that reads the host's memory itself does so as late as from pinned memory. */
static void shared_page_tables(void)
{
	CHECK(device_has(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES));
	is_read(PAGEABLE, false, 0, 3);
	is_read(PAGEABLE, true, 1, 2);
}

/* One that reaches it by other means, only where nobody waits. */
static void late_from_pageable(void)
{
	CHECK(device_has(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS));
	is_read(PAGEABLE, false, 0, 3);
	is_read(PAGEABLE, true, 0, 2);
}

/* It waits for what is before it in the stream, not for its own transfer. */
static void sync_from_pageable(void)
{
	test_begin(0);
	CUdeviceptr device = test_device(BYTES, 1);
	unsigned char *host = pageable(2);
	CHECK(OPERATIONS(cuMemcpyHtoD_v2(device, host, BYTES)) == 0);
	memset(host, 3, BYTES);
	CHECK(OPERATIONS(cuMemcpyHtoD_v2(device + 1, host, 1)) == 1);
	OK(cuCtxSynchronize());
	unsigned char got[3];
	OK(cuMemcpyDtoH_v2(got, device, 3));
	CHECK(got[0] == 2 && got[1] == 3 && got[2] == 2);
	free(host);
}

static void small_staging(void)
{
	test_begin(0);
	CUdeviceptr device = test_device(BYTES, 1);
	unsigned char *host = pageable(2);
	CHECK(OPERATIONS(cuMemcpyHtoDAsync_v2(device, host, BYTES - 1, NULL)) == 0);
	OK(cuCtxSynchronize());
	CHECK(OPERATIONS(cuMemcpyHtoDAsync_v2(device, host, BYTES, NULL)) == 1);
	CHECK(OPERATIONS(cuMemcpyHtoD_v2(device, host, BYTES)) == 1);
	CHECK(OPERATIONS(cuMemcpyHtoD_v2(device, host, BYTES - 1)) == 0);
	free(host);
}

static void within_device(void)
{
	test_begin(0);
	CUdeviceptr from = test_device(BYTES, 1), to = test_device(BYTES, 2);
	CHECK(OPERATIONS(cuMemcpyDtoD_v2(to, from, BYTES)) == 0);
	IS(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
	CHECK(test_value(to, BYTES) == 1);
	CHECK(test_counter("d2d_copies") == 1 && test_counter("d2d_bytes") == BYTES);
	CHECK(test_counter("h2d_copies") == 0);
}

static void to_host(void)
{
	test_begin(0);
	CUdeviceptr device = test_device(BYTES, 1);
	unsigned char *host = pageable(2), *pinned = test_pinned(BYTES, 2);
	CHECK(OPERATIONS(cuMemcpyDtoHAsync_v2(host, device, BYTES, NULL)) == 1);
	CHECK(test_host_value(host, BYTES) == 1);
	CHECK(OPERATIONS(cuMemcpyDtoHAsync_v2(pinned, device, BYTES, NULL)) == 0);
	OK(cuStreamSynchronize(NULL));
	CHECK(test_host_value(pinned, BYTES) == 1);
	memset(pinned, 2, BYTES);
	CHECK(OPERATIONS(cuMemcpyDtoH_v2(pinned, device, BYTES)) == 1);
	CHECK(test_host_value(pinned, BYTES) == 1);
	CHECK(test_counter("d2h_copies") == 3);
	free(host);
}

static void unified(void)
{
	test_begin(0);
	CUdeviceptr device = test_device(BYTES, 1);
	unsigned char *host = pageable(2), *other = pageable(3),
		      *pinned = test_pinned(BYTES, 4);
	OK(cuMemcpy(device, (uintptr_t)host, BYTES));
	CHECK(test_value(device, BYTES) == 2);
	OK(cuMemcpyAsync(device, (uintptr_t)pinned, BYTES, NULL));
	OK(cuMemcpy((uintptr_t)other, device, BYTES));
	CHECK(test_host_value(other, BYTES) == 4);
	OK(cuMemcpy((uintptr_t)host, (uintptr_t)other, BYTES));
	CHECK(test_host_value(host, BYTES) == 4);
	CHECK(test_counter("h2d_copies") == 2 && test_counter("h2h_copies") == 1);
	free(host);
	free(other);
}

static void refusals(void)
{
	test_begin(0);
	CUdeviceptr device = test_device(1024, 1);
	unsigned char *host = pageable(2);
	IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(device, host, 1025));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(device + 1000, host, 25));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2((uintptr_t)host, host, 1));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(device, (void *)(uintptr_t)device, 1));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD_v2(device, (uintptr_t)host, 1));
	IS(CUDA_ERROR_INVALID_HANDLE,
		cuMemcpyHtoDAsync_v2(device, host, 1, (CUstream)(uintptr_t)host));
	OK(cuMemcpyHtoD_v2(device, host, 0));
	CHECK(test_counter("h2d_copies") == 0);
	/* The host cannot reach what is on the device. */
	int fds[2];
	CHECK(pipe(fds) == 0);
	CHECK(write(fds[1], (void *)(uintptr_t)device, 1) == -1);
	free(host);
}

static void rows(void)
{
	test_begin(0);
	CUdeviceptr device = test_device(64, 0);
	unsigned char *host = test_pinned(64, 0), got[64];
	for (int i = 0; i < 64; i++)
		host[i] = (unsigned char)i;
	CUDA_MEMCPY2D r = {.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = host,
		.srcXInBytes = 1,
		.srcY = 1,
		.srcPitch = 8,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = device,
		.dstPitch = 16,
		.WidthInBytes = 3,
		.Height = 4};
	OK(cuMemcpy2DAsync_v2(&r, NULL));
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH_v2(got, device, 64));
	for (int i = 0; i < 64; i++)
		CHECK(got[i] == (i % 16 < 3 ? (i / 16 + 1) * 8 + 1 + i % 16 : 0));
	CHECK(test_counter("h2d_bytes") == 12);
	r.dstXInBytes = 62;
	IS(CUDA_ERROR_INVALID_VALUE, cuMemcpy2DAsync_v2(&r, CU_STREAM_PER_THREAD));
}

static void read_batches(bool late)
{
	test_begin(0);
	CUstream stream;
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CUdeviceptr device = test_device(4 * BYTES, 1);
	unsigned char *pinned = test_pinned(BYTES, 2), *host = pageable(3);
	CUdeviceptr dsts[] = {device, device + BYTES, device + 2 * BYTES};
	CUdeviceptr srcs[] = {(uintptr_t)pinned, (uintptr_t)pinned, (uintptr_t)host};
	size_t sizes[] = {BYTES, BYTES, BYTES}, from[] = {0, 1}, failed = 7;
	CUmemcpyAttributes how[] = {{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM},
		{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL}};
	OK(cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 3, how, from, 2, stream));
	memset(pinned, 4, BYTES);
	memset(host, 5, BYTES);
	CHECK(test_value(device, BYTES) == 4);
	CHECK(test_value(device + BYTES, BYTES) == 2);
	CHECK(test_value(device + 2 * BYTES, BYTES) == 3);
	srcs[1] = device + 3 * BYTES;
	dsts[1] = device + 3 * BYTES + 1;
	IS(CUDA_ERROR_INVALID_VALUE,
		cuMemcpyBatchAsync(dsts, srcs, sizes, 3, how, from, 2, &failed, stream));
	CHECK(failed == 1);
	CHECK(test_value(device, BYTES) == 4);
	for (int order = 1; order <= 3; order += 2) {
		srcs[0] = (uintptr_t)host;
		how[0].srcAccessOrder = (CUmemcpySrcAccessOrder)order;
		memset(host, 6, BYTES);
		OK(cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 1, how, from, 1, stream));
		memset(host, 7, BYTES);
		CHECK(test_value(device, BYTES) == (order == 1 || late ? 7 : 6));
	}
	IS(CUDA_ERROR_INVALID_VALUE,
		cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 1, how, from, 1, NULL));
	OK(cuMemcpyBatchAsync_v2_ptsz(dsts, srcs, sizes, 1, how, from, 1, NULL));
	free(host);
}

static void batches(void)
{
	read_batches(false);
}

static void late_batches(void)
{
	read_batches(true);
}

static void between_devices(void)
{
	CUcontext first = test_begin(0), second;
	CUdeviceptr a = test_device(BYTES, 1);
	OK(cuDevicePrimaryCtxRetain(&second, 1));
	OK(cuCtxPushCurrent_v2(second));
	CUdeviceptr b = test_device(BYTES, 2);
	OK(cuMemcpyPeerAsync(b, second, a, first, BYTES, NULL));
	CHECK(test_value(b, BYTES) == 1);
	OK(cuMemcpyDtoDAsync_v2(b, a, BYTES, NULL));
	CHECK(test_counter("peer_copies") == 2 && test_counter("d2d_copies") == 0);
}

/* 20 ms each; only the host's link is one for all. */
static void one_link(void)
{
	enum { COPIES = 3, EACH_US = 20000 };
	test_begin(0);
	CUdeviceptr device = test_device(BYTES, 1);
	unsigned char *pinned = test_pinned(BYTES, 2);
	for (int i = 0; i < COPIES; i++) {
		CUstream stream;
		OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		OK(cuMemcpyHtoDAsync_v2(device, pinned, BYTES, stream));
		OK(cuMemcpyDtoDAsync_v2(device, device, BYTES, NULL));
	}
	OK(cuCtxSynchronize());
	CHECK(test_clock_us() == COPIES * EACH_US);
	CHECK(test_counter("link_free_us") == COPIES * EACH_US);
	/* It is idle meanwhile, and what was before is not made up for. */
	OK(cuMemcpyDtoHAsync_v2(pinned, device, BYTES, NULL));
	OK(cuStreamSynchronize(NULL));
	CHECK(test_clock_us() == (COPIES + 1) * EACH_US);
	OK(cuMemcpyHtoD_v2(device, pinned, BYTES));
	CHECK(test_clock_us() == (COPIES + 2) * EACH_US);
	CHECK(test_counter("link_free_us") == (COPIES + 2) * EACH_US);
}

int main(void)
{
	static const struct test tests[] = {
		{"pageable memory is taken at the call, pinned memory by the stream", SLOW,
			usual_reads},
		{"a device that uses the host's page tables", SLOW " HOST_PAGE_TABLES=1",
			shared_page_tables},
		{"a device that reaches pageable memory, and is late", SLOW " PAGEABLE_LATE=1",
			late_from_pageable},
		{"a synchronous copy of pageable memory waits for the stream before it", SLOW,
			sync_from_pageable},
		{"of much pageable memory until it has gone through a small buffer",
			SLOW " STAGING=9999", small_staging},
		{"copies within a device wait for nothing", SLOW, within_device},
		{"copies to the host", SLOW, to_host},
		{"the addresses tell where a unified copy goes", "", unified},
		{"what is no address of the right kind is refused", "", refusals},
		{"rows", "", rows},
		{"copies that come over one link", ONE_LINK, one_link},
		{"batches of both versions", SLOW, batches},
		{"that read as late as they may", SLOW " BATCHES_LATE=1", late_batches},
		{"copies between devices", "DEVICES=2", between_devices},
		{NULL, NULL, NULL},
	};
	return test_main(tests);
}
