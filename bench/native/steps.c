/* SPDX-License-Identifier: MIT */
/*
 * steps WAY BYTES COUNT PACE: a trainer as the driver sees one.  In each of COUNT steps it
 * makes a batch of BYTES, the same in all jobs and another one in each step, and brings it to
 * GPU 0 by WAY:
 *
 *   call    cuMemcpyHtoD from pageable memory
 *   stream  cuMemcpyHtoDAsync in one of two streams, and waits for it
 *   batch   cuMemcpyBatchAsync of pictures and labels in such a stream, and waits for it
 *   graph   a graph that was captured once brings it from pinned memory
 *
 * No step begins before PACE microseconds for each step before it have passed, as one whose
 * kernels take that long.  What arrived is read back and compared once in 16 steps; a
 * difference ends the program with 1.  Prints JSON: the longest call, the mean of all, what the
 * steps took. The driver is found as a program finds it: libcuda.so.1.
 */
#include "cuda.h"

#include <unistd.h>

/* CUmemcpyAttributes */
struct attributes {
	int order, places[4];
	unsigned flags;
};

#define DURING_CALL   2
#define CAPTURE_LOCAL 1
#define LABELS        512u /* bytes: of 64 pictures */
#define PAGE          4096u
#define COMPARED      16 /* one of so many steps */

#define FUNCTIONS(X)                                                                     \
	X(cuInit, (unsigned))                                                            \
	X(cuDevicePrimaryCtxRetain, (void **, int))                                      \
	X(cuCtxSetCurrent, (void *))                                                     \
	X(cuStreamCreate, (void **, unsigned))                                           \
	X(cuStreamSynchronize, (void *))                                                 \
	X(cuStreamBeginCapture_v2, (void *, int))                                        \
	X(cuStreamEndCapture, (void *, void **))                                         \
	X(cuGraphInstantiateWithFlags, (void **, void *, uint64_t))                      \
	X(cuGraphLaunch, (void *, void *))                                               \
	X(cuMemAlloc_v2, (device_pointer *, size_t))                                     \
	X(cuMemHostAlloc, (void **, size_t, unsigned))                                   \
	X(cuMemcpyHtoD_v2, (device_pointer, const void *, size_t))                       \
	X(cuMemcpyHtoDAsync_v2, (device_pointer, const void *, size_t, void *))          \
	X(cuMemcpyBatchAsync_v2, (device_pointer *, device_pointer *, size_t *, size_t,  \
					 struct attributes *, size_t *, size_t, void *)) \
	X(cuMemcpyDtoH_v2, (void *, device_pointer, size_t))

static struct {
	FUNCTIONS(CUDA_MEMBER)
} cuda;

static size_t bytes;
static unsigned char *source, *arrived;
static device_pointer target;
static void *streams[2], *graph;

#define NEED(call) need(cuda.call, #call)

static void start(void)
{
	void *context;
	FUNCTIONS(CUDA_FIND)
	NEED(cuInit(0));
	NEED(cuDevicePrimaryCtxRetain(&context, 0));
	NEED(cuCtxSetCurrent(context));
	NEED(cuMemAlloc_v2(&target, bytes));
	for (int i = 0; i < 2; i++)
		NEED(cuStreamCreate(&streams[i], CUDA_NON_BLOCKING));
}

static void capture(void)
{
	void *captured, *pinned;
	NEED(cuMemHostAlloc(&pinned, bytes, 0));
	source = pinned;
	NEED(cuStreamBeginCapture_v2(streams[0], CAPTURE_LOCAL));
	NEED(cuMemcpyHtoDAsync_v2(target, source, bytes, streams[0]));
	NEED(cuStreamEndCapture(streams[0], &captured));
	NEED(cuGraphInstantiateWithFlags(&graph, captured, 0));
}

/* Every page differs from that of any other step. */
static void make(uint64_t step)
{
	for (size_t at = 0; at + sizeof(step) <= bytes; at += PAGE) {
		uint64_t word = (step + 1) * UINT64_C(0x9e3779b97f4a7c15) + at;
		memcpy(source + at, &word, sizeof(word));
	}
}

static void bring_batch(void *stream)
{
	device_pointer to[] = {target, target + bytes - LABELS};
	device_pointer from[] = {(uintptr_t)source, (uintptr_t)source + bytes - LABELS};
	size_t sizes[] = {bytes - LABELS, LABELS}, at = 0;
	struct attributes how = {.order = DURING_CALL};
	NEED(cuMemcpyBatchAsync_v2(to, from, sizes, 2, &how, &at, 1, stream));
}

static void bring(const char *way, uint64_t step)
{
	void *stream = streams[step % 2];
	if (strcmp(way, "call") == 0) {
		NEED(cuMemcpyHtoD_v2(target, source, bytes));
		return;
	}
	if (strcmp(way, "stream") == 0)
		NEED(cuMemcpyHtoDAsync_v2(target, source, bytes, stream));
	else if (strcmp(way, "batch") == 0)
		bring_batch(stream);
	else
		NEED(cuGraphLaunch(graph, stream));
	NEED(cuStreamSynchronize(stream));
}

static void compare(uint64_t step)
{
	NEED(cuMemcpyDtoH_v2(arrived, target, bytes));
	if (memcmp(source, arrived, bytes) == 0)
		return;
	fprintf(stderr, "what arrived in step %llu differs\n", (unsigned long long)step);
	exit(1);
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	bytes = strtoull(argv[2], NULL, 10);
	uint64_t count = strtoull(argv[3], NULL, 10),
		 pace_ns = strtoull(argv[4], NULL, 10) * 1000;
	uint64_t longest = 0, all = 0;
	if (bytes <= LABELS || count == 0 || !(source = calloc(1, bytes)) ||
		!(arrived = calloc(1, bytes)))
		die("memory, or for so many bytes");
	start();
	if (strcmp(argv[1], "graph") == 0)
		capture();
	uint64_t begin = now(CLOCK_MONOTONIC);
	for (uint64_t step = 0; step < count; step++) {
		uint64_t due = begin + step * pace_ns, at = now(CLOCK_MONOTONIC);
		if (due > at)
			(void)usleep((useconds_t)((due - at) / 1000));
		make(step);
		at = now(CLOCK_MONOTONIC);
		bring(argv[1], step);
		uint64_t took = now(CLOCK_MONOTONIC) - at;
		longest = took > longest ? took : longest;
		all += took;
		if (step % COMPARED == 0)
			compare(step);
	}
	printf("{\"longest_ms\": %.3f, \"mean_ms\": %.4f, \"seconds\": %.3f}\n",
		(double)longest / 1e6, (double)all / 1e6 / (double)count,
		(double)(now(CLOCK_MONOTONIC) - begin) / 1e9);
	return 0;
}
