/* SPDX-License-Identifier: MIT */
/*
 * copies [BYTES COUNT]: what copies to a GPU cost.  Without arguments, nanoseconds per call of
 * copies that are too small to be shared, and so small that the driver does nothing that would
 * hide the difference: the smallest of many short series; else BYTES are
 * brought COUNT times, other ones each time and the same in every job, and the milliseconds
 * of each in the middle of the order are printed.  JSON.  The driver is found as a program
 * finds it: libcuda.so.1.
 */
#include "common.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long device_pointer;

#define CALLS  2000
#define SERIES 200

static struct {
	int (*cuInit)(unsigned);
	int (*cuDevicePrimaryCtxRetain)(void **, int);
	int (*cuCtxSetCurrent)(void *);
	int (*cuMemAlloc_v2)(device_pointer *, size_t);
	int (*cuMemcpyHtoD_v2)(device_pointer, const void *, size_t);
	int (*cuMemcpyHtoDAsync_v2)(device_pointer, const void *, size_t, void *);
	int (*cuStreamSynchronize)(void *);
} cuda;

static void need(int result, const char *what)
{
	if (result != 0)
		die(what);
}

static void start(size_t bytes, device_pointer *ret_device)
{
	void *context, *library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library)
		die("no libcuda.so.1");
#define FIND(name)                                           \
	if (!(*(void **)&cuda.name = dlsym(library, #name))) \
	die(#name)
	FIND(cuInit);
	FIND(cuDevicePrimaryCtxRetain);
	FIND(cuCtxSetCurrent);
	FIND(cuMemAlloc_v2);
	FIND(cuMemcpyHtoD_v2);
	FIND(cuMemcpyHtoDAsync_v2);
	FIND(cuStreamSynchronize);
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

static int compare(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;
	return (a > b) - (a < b);
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
		each[i] = (double)(now(CLOCK_MONOTONIC) - begin) / 1e6;
	}
	qsort(each, count, sizeof(*each), compare);
	printf("{\"median_ms\": %.4f}\n", each[count / 2]);
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
