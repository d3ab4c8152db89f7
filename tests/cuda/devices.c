/* SPDX-License-Identifier: MIT */
/*
 * devices STEPS [before=FD after=FD gate=FD ready=FD]: bring batches to two GPUs in turn, each
 * seventh also to memory of the GPU that is not the current one, and print what did not arrive.
 */
#include "scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPUS 2

static CUcontext contexts[GPUS];
static CUdeviceptr memory[GPUS];
static CUstream streams[GPUS];

static void begin(int gpu)
{
	SCENE_CHECK(cu->cuDevicePrimaryCtxRetain(&contexts[gpu], gpu));
	SCENE_CHECK(cu->cuCtxSetCurrent(contexts[gpu]));
	SCENE_CHECK(cu->cuMemAlloc_v2(&memory[gpu], SCENE_BYTES));
	SCENE_CHECK(cu->cuStreamCreate(&streams[gpu], CU_STREAM_NON_BLOCKING));
}

/* Data sets: one for each GPU, and others for what crosses. */
static void bring(int current, int to, uint64_t data, long step)
{
	SCENE_CHECK(cu->cuCtxSetCurrent(contexts[current]));
	scene_fill(data, (uint64_t)step);
	CUresult result = step % 2 ? cu->cuMemcpyHtoDAsync_v2(memory[to], scene_source,
					     SCENE_BYTES, streams[current])
				   : cu->cuMemcpyHtoD_v2(memory[to], scene_source, SCENE_BYTES);
	memset(scene_source, 0x33, SCENE_BYTES);
	SCENE_CHECK(cu->cuCtxSynchronize());
	SCENE_CHECK(cu->cuCtxSetCurrent(contexts[to]));
	SCENE_CHECK(cu->cuMemcpyDtoH_v2(scene_arrived, memory[to], SCENE_BYTES));
	if (result != 0 || !scene_is(data, (uint64_t)step))
		printf("%ld, in %d to %d: %d, %s\n", step, current, to, (int)result,
			scene_is(data, (uint64_t)step) ? "arrived" : "did not arrive");
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	long steps = strtol(argv[1], NULL, 10);
	scene_start();
	for (int gpu = 0; gpu < GPUS; gpu++)
		begin(gpu);
	scene_wait(argv);
	for (long step = 0; step < steps; step++) {
		scene_before(argv);
		for (int gpu = 0; gpu < GPUS; gpu++) {
			bring(gpu, gpu, 1 + (uint64_t)gpu, step);
			if (step % 7 == 6)
				bring(gpu, 1 - gpu, 3, step);
		}
		scene_after(argv);
	}
	printf("done: %ld\n", steps);
	return fflush(stdout) != 0;
}
