/* SPDX-License-Identifier: MIT */
/*
 * results STEPS [WORD=NUMBER...]: bring batches through a runtime whatever becomes of them, and
 * print what every call said, the runtime's last error, and whether the bytes arrived.
 *
 *   pause=N          us between two
 *   leave=N          after so many give the primary context back and begin again
 *   reset=N          the same by a reset
 *   gate=FD ready=FD begin with others
 *   until=FD         before the first step bring others, of which is said only what is not
 * well, until this pipe has ended
 *
 * Of the calls that the library makes itself it makes cuDevicePrimaryCtxRetain, cuMemAlloc_v2
 * and cuDevicePrimaryCtxRelease_v2, before the others and once for each beginning, and no other
 * one: which of them is which is known.
 */
#include "scene.h"

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGE (SCENE_BYTES - 4096)

static CUdeviceptr device;
static CUstream stream;

/* A beginning that fails is said, too, and everything goes on. */
static void begin(void)
{
	CUcontext context = NULL;
	int retain = (int)cu->cuDevicePrimaryCtxRetain(&context, 0);
	int set = (int)cu->cuCtxSetCurrent(context);
	int alloc = (int)cu->cuMemAlloc_v2(&device, SCENE_BYTES);
	int make = (int)cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	printf("begin: %d %d %d %d\n", retain, set, alloc, make);
}

/* In three copies, of which one is large enough to be shared. */
static CUresult bring_parts(bool old)
{
	enum { PARTS = 3 };
	size_t bytes[PARTS] = {LARGE, SCENE_BYTES - LARGE - 96, 96}, at = 0, begin = 0, failed;
	CUdeviceptr to[PARTS], from[PARTS];
	CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL};
	for (int i = 0; i < PARTS; i++) {
		to[i] = device + begin;
		from[i] = (uintptr_t)scene_source + begin;
		begin += bytes[i];
	}
	if (old)
		return cu->cuMemcpyBatchAsync(
			to, from, bytes, PARTS, &how, &at, 1, &failed, stream);
	return cu->cuMemcpyBatchAsync_v2(to, from, bytes, PARTS, &how, &at, 1, stream);
}

/* The four calls of a runtime that bring something, and batches. */
static CUresult bring(long step)
{
	void *to = (void *)(uintptr_t)device;
	switch (step % 6) {
	case 0:
		return mini_memcpy(to, scene_source, SCENE_BYTES, MINI_HOST_TO_DEVICE, 0);
	case 1:
		return mini_memcpy_async(
			to, scene_source, SCENE_BYTES, MINI_HOST_TO_DEVICE, stream, 0);
	case 2:
		return mini_memcpy(to, scene_source, SCENE_BYTES, MINI_DEFAULT, 1);
	case 3:
		return mini_memcpy_async(to, scene_source, SCENE_BYTES, MINI_DEFAULT, NULL, 1);
	default:
		return bring_parts(step % 6 == 4);
	}
}

/* As a step, without the call that STEPS of are made in any case. */
static void warm_up(long step)
{
	scene_fill(2, (uint64_t)step);
	int brought = (int)bring(step), last = (int)mini_get_last_error();
	memset(scene_source, 0x33, SCENE_BYTES);
	int waited = (int)cu->cuCtxSynchronize();
	memset(scene_arrived, 0x11, SCENE_BYTES);
	int back = (int)mini_memcpy(
		scene_arrived, (void *)(uintptr_t)device, SCENE_BYTES, MINI_DEVICE_TO_HOST, 0);
	last |= (int)mini_get_last_error();
	if (brought || last || waited || back || !scene_is(2, (uint64_t)step))
		printf("before: %d %d %d, last %d\n", brought, waited, back, last);
}

static bool goes_on(int pipe)
{
	struct pollfd end = {.fd = pipe};
	return pipe >= 0 && poll(&end, 1, 0) == 0;
}

static void do_step(long step)
{
	scene_fill(1, (uint64_t)step);
	int wiped = (int)cu->cuMemsetD8_v2(device, 0x77, SCENE_BYTES);
	cu->cuCtxSynchronize(); /* the other streams do not wait for it */
	int brought = (int)bring(step);
	int last = (int)mini_peek_at_last_error();
	memset(scene_source, 0x33, SCENE_BYTES);
	int waited = (int)cu->cuCtxSynchronize();
	memset(scene_arrived, 0x11, SCENE_BYTES);
	int back = (int)mini_memcpy(
		scene_arrived, (void *)(uintptr_t)device, SCENE_BYTES, MINI_DEVICE_TO_HOST, 0);
	printf("%ld: %d %d %d %d, last %d %d, %s\n", step, wiped, brought, waited, back, last,
		(int)mini_get_last_error(),
		scene_is(1, (uint64_t)step) ? "arrived" : "did not arrive");
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	long steps = strtol(argv[1], NULL, 10), pause_us = scene_word(argv, "pause", 0);
	long leave = scene_word(argv, "leave", -1), reset = scene_word(argv, "reset", -1);
	scene_start();
	begin();
	scene_wait(argv);
	for (long i = 0; goes_on((int)scene_word(argv, "until", -1)); i++) {
		warm_up(i);
		usleep((useconds_t)pause_us);
	}
	for (long step = 0; step < steps; step++) {
		if (step == leave)
			printf("leave: %d\n", (int)cu->cuDevicePrimaryCtxRelease_v2(0));
		if (step == reset)
			printf("reset: %d\n", (int)cu->cuDevicePrimaryCtxReset_v2(0));
		if (step == leave || step == reset)
			begin();
		do_step(step);
		usleep((useconds_t)pause_us);
	}
	return fflush(stdout) != 0;
}
