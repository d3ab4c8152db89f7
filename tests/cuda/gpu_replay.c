/* SPDX-License-Identifier: MIT */
/*
 * replay STEPS [before=FD after=FD gate=FD ready=FD]: bring batches that can be shared, and
 * between them capture copies from pinned memory and launch them over and over.  While a stream
 * is captured, others are copied to as well.  Prints what each capture said, and what did not
 * arrive.
 */
#include "scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A capture is used for so many steps. */
#define LAUNCHES 6

static CUdeviceptr shared, replayed;
static CUstream plain, captured;
static CUgraphExec graph;
static unsigned char *pinned;

static void begin(void)
{
	CUcontext context;
	void *host;
	SCENE_CHECK(cu->cuDevicePrimaryCtxRetain(&context, 0));
	SCENE_CHECK(cu->cuCtxSetCurrent(context));
	SCENE_CHECK(cu->cuMemAlloc_v2(&shared, SCENE_BYTES));
	SCENE_CHECK(cu->cuMemAlloc_v2(&replayed, SCENE_BYTES));
	SCENE_CHECK(cu->cuStreamCreate(&plain, CU_STREAM_NON_BLOCKING));
	SCENE_CHECK(cu->cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
	SCENE_CHECK(cu->cuMemHostAlloc(&host, SCENE_BYTES, 0));
	pinned = host;
}

static void look(CUdeviceptr memory, const char *what, uint64_t data, long step)
{
	SCENE_CHECK(cu->cuCtxSynchronize());
	SCENE_CHECK(cu->cuMemcpyDtoH_v2(scene_arrived, memory, SCENE_BYTES));
	if (!scene_is(data, (uint64_t)step))
		printf("%ld: %s did not arrive\n", step, what);
}

/* Into a stream that is not captured; there are modes in which that is an error. */
static int bring(long step)
{
	scene_fill(1, (uint64_t)step);
	int waits = step / LAUNCHES % 2;
	int result =
		waits ? (int)cu->cuMemcpyHtoD_v2(shared, scene_source, SCENE_BYTES)
		      : (int)cu->cuMemcpyHtoDAsync_v2(shared, scene_source, SCENE_BYTES, plain);
	memset(scene_source, 0x33, SCENE_BYTES);
	return result;
}

/* By a capture in each of the three modes in turn; @step's batch is brought meanwhile. */
static void capture(long step)
{
	static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
		CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED};
	CUstreamCaptureMode mode = modes[step / LAUNCHES % 3];
	CUgraph made = NULL;
	if (graph)
		SCENE_CHECK(cu->cuGraphExecDestroy(graph));
	graph = NULL;
	int began = (int)cu->cuStreamBeginCapture_v2(captured, mode);
	int first =
		(int)cu->cuMemcpyHtoDAsync_v2(replayed, pinned, SCENE_BYTES / 16 * 8, captured);
	int other = bring(step);
	int second = (int)cu->cuMemcpyHtoDAsync_v2(replayed + SCENE_BYTES / 16 * 8,
		pinned + SCENE_BYTES / 16 * 8, SCENE_BYTES - SCENE_BYTES / 16 * 8, captured);
	int ended = (int)cu->cuStreamEndCapture(captured, &made);
	printf("%ld: capture %d: %d %d %d %d %d\n", step, (int)mode, began, first, other,
		second, ended);
	if (ended != 0)
		return;
	SCENE_CHECK(cu->cuGraphInstantiateWithFlags(&graph, made, 0));
	SCENE_CHECK(cu->cuGraphDestroy(made));
	if (other == 0)
		look(shared, "what came while capturing", 1, step);
}

/* A batch that could be shared, but for the capture: what the driver says to that is its own.
 */
static void capture_pageable(long step)
{
	CUgraph made = NULL;
	scene_fill(1, (uint64_t)step);
	int began = (int)cu->cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED);
	int copied = (int)cu->cuMemcpyHtoDAsync_v2(shared, scene_source, SCENE_BYTES, captured);
	int ended = (int)cu->cuStreamEndCapture(captured, &made);
	printf("%ld: pageable: %d %d %d %d\n", step, began, copied, ended, made != NULL);
	if (made)
		SCENE_CHECK(cu->cuGraphDestroy(made));
}

static void replay(long step)
{
	if (!graph)
		return;
	scene_fill(2, (uint64_t)step);
	memcpy(pinned, scene_source, SCENE_BYTES);
	SCENE_CHECK(cu->cuGraphLaunch(graph, captured));
	look(replayed, "a replay", 2, step);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	long steps = strtol(argv[1], NULL, 10);
	scene_start();
	begin();
	scene_wait(argv);
	for (long step = 0; step < steps; step++) {
		scene_before(argv);
		if (step % LAUNCHES == 0) {
			capture(step);
		} else {
			printf("%ld: %d\n", step, bring(step));
			look(shared, "a batch", 1, step);
		}
		if (step % LAUNCHES == 1)
			capture_pageable(step - 1);
		replay(step);
		scene_after(argv);
	}
	return fflush(stdout) != 0;
}
