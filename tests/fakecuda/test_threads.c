/* SPDX-License-Identifier: MIT */
/* Many threads at once, for ThreadSanitizer and for what only a crowd shows. */
#include "test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 6
#define ROUNDS  60
#define BYTES   4096u

static CUdeviceptr common; /* written and read by all, each in its own part */

static void *crowd(void *argument)
{
	int number = *(int *)argument;
	CUcontext context;
	CUevent event;
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuEventCreate(&event, 0));
	unsigned char *in = test_pinned(BYTES, 0), *out = test_pinned(BYTES, 0);
	CUdeviceptr mine = common + (size_t)number * BYTES;
	for (int round = 1; round <= ROUNDS; round++) {
		CUstream stream, other;
		CUdeviceptr copy;
		int value = (round * THREADS + number) % 251;
		OK(cuStreamCreate(&stream, round % 2 ? CU_STREAM_NON_BLOCKING : 0));
		OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
		OK(cuMemAlloc_v2(&copy, BYTES));
		memset(in, value, BYTES);
		OK(cuMemcpyHtoDAsync_v2(mine, in, BYTES, stream));
		OK(cuEventRecord(event, stream));
		OK(cuStreamWaitEvent(other, event, 0));
		OK(cuMemcpyDtoDAsync_v2(copy, mine, BYTES, other));
		OK(cuMemcpyDtoHAsync_v2(out, copy, BYTES, other));
		OK(cuStreamSynchronize(other));
		CHECK(test_host_value(out, BYTES) == value);
		/* Freed with this still under way, and in everybody's stream. */
		if (round % 8 == 0)
			OK(cuMemsetD8Async(copy, 1, BYTES, NULL));
		OK(cuEventQuery(event));
		OK(cuMemFree_v2(copy));
		OK(cuStreamDestroy_v2(stream));
		OK(cuStreamDestroy_v2(other));
	}
	OK(cuEventDestroy_v2(event));
	OK(cuMemFreeHost(in));
	OK(cuMemFreeHost(out));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	return NULL;
}

static void many(void)
{
	pthread_t threads[THREADS];
	int numbers[THREADS];
	test_begin(0);
	common = test_device(THREADS * BYTES, 0);
	for (int i = 0; i < THREADS; i++) {
		numbers[i] = i;
		CHECK(pthread_create(&threads[i], NULL, crowd, &numbers[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK(test_counter("h2d_copies") == THREADS * ROUNDS);
	CHECK(test_counter("d2d_copies") == THREADS * ROUNDS);
	CHECK(test_counter("late_uses") == 0);
}

int main(void)
{
	static const struct test tests[] = {
		{"many threads", "JITTER_US=200", many},
		{NULL, NULL, NULL},
	};
	return test_main(tests);
}
