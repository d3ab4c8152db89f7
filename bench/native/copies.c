/* SPDX-License-Identifier: MIT */
/*
 * copies [BYTES COUNT]: what copies to a GPU cost.  Without arguments, nanoseconds per call of
 * copies that are too small to be shared, and so small that the driver does nothing that would
 * hide the difference: the smallest of many short series; else BYTES are
 * brought COUNT times, other ones each time and the same in every job, and the milliseconds
 * of each in the middle of the order are printed.  JSON.  The driver is found as a program
 * finds it: libcuda.so.1.
 */
#include "cuda.h"

#include <stdlib.h>
#include <string.h>

#define CALLS  2000
#define SERIES 200

#define FUNCTIONS(X)                                                            \
	X(cuInit, (unsigned))                                                   \
	X(cuDevicePrimaryCtxRetain, (void **, int))                             \
	X(cuCtxSetCurrent, (void *))                                            \
	X(cuMemAlloc_v2, (device_pointer *, size_t))                            \
	X(cuMemcpyHtoD_v2, (device_pointer, const void *, size_t))              \
	X(cuMemcpyHtoDAsync_v2, (device_pointer, const void *, size_t, void *)) \
	X(cuStreamSynchronize, (void *))

static struct {
	FUNCTIONS(CUDA_MEMBER)
} cuda;

static void start(size_t bytes, device_pointer *ret_device)
{
	void *context;
	FUNCTIONS(CUDA_FIND)
	need(cuda.cuInit(0), "cuInit");
	need(cuda.cuDevicePrimaryCtxRetain(&context, 0), "no context");
	need(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent");
	need(cuda.cuMemAlloc_v2(ret_device, bytes), "cuMemAlloc");
}

static void small(void)
{
	static unsigned char source[1];
	device_pointer device;
	double best = 1e18;
	start(4096, &device);
	for (int series = 0; series < SERIES; series++) {
		uint64_t begin = now(CLOCK_MONOTONIC);
		for (int i = 0; i < CALLS; i++)
			need(cuda.cuMemcpyHtoD_v2(device, source, 0), "copy");
		double each = (double)(now(CLOCK_MONOTONIC) - begin) / CALLS;
		best = each < best ? each : best;
	}
	printf("{\"small\": %.2f}\n", best);
}

static void bring(size_t bytes, size_t count)
{
	unsigned char *source = malloc(bytes);
	double *each = malloc(count * sizeof(*each));
	device_pointer device;
	if (!source || !each)
		die("no memory");
	memset(source, 1, bytes);
	start(bytes, &device);
	for (size_t i = 0; i < count; i++) {
		for (size_t place = 0; place < bytes; place += bytes / 4)
			memcpy(source + place, &i, sizeof(i));
		uint64_t begin = now(CLOCK_MONOTONIC);
		need(cuda.cuMemcpyHtoDAsync_v2(device, source, bytes, NULL), "copy");
		need(cuda.cuStreamSynchronize(NULL), "synchronize");
		each[i] = ms_since(begin);
	}
	printf("{\"median_ms\": %.4f}\n", median(each, count));
}

int main(int argc, char **argv)
{
	if (argc == 1)
		small();
	else if (argc == 3)
		bring(strtoull(argv[1], NULL, 10), strtoull(argv[2], NULL, 10));
	else
		return 2;
	return 0;
}
