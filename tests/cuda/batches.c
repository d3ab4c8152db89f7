/* SPDX-License-Identifier: MIT */
/*
 * batches STEPS [before=FD after=FD gate=FD ready=FD]: bring batches of copies of which some
 * can be shared, in both forms of the call, and print what the driver says and what arrived.
 *
 * Each step is one of CASES: good ones, some that have something wrong in them, and some of
 * which nothing may be taken out.  What the call does not say is not printed: which copies of
 * a batch that fails are done, and what became of the number of a copy where none failed.
 */
#include "scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE SCENE_BYTES
#define SMALL ((size_t)4096)

/* Large, small, large, small, and each with its own place. */
#define COPIES 4u

/* More than are looked at. */
#define MANY 80u

struct batch {
	CUdeviceptr to[MANY], from[MANY];
	size_t bytes[MANY], at[COPIES], count, kinds;
	CUmemcpyAttributes how[COPIES];
	CUstream stream;
};

static CUdeviceptr device;
static CUstream stream;
static struct batch now;

/* ---- cases ------------------------------------------------------------------------------ */

static void nothing(void)
{
}

/* Beyond its memory: told by its number, which sharing must not change. */
static void wrong_second(void)
{
	now.to[1] = device + COPIES * LARGE - 8;
}

static void wrong_last(void)
{
	now.to[3] = device + COPIES * LARGE - 16;
}

static void empty_third(void)
{
	now.bytes[2] = 0;
}

static void two_kinds(void)
{
	now.kinds = 2;
	now.at[1] = 2;
	now.how[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

/* The second and third kind are of copies that may be left. */
static void four_kinds(void)
{
	now.kinds = COPIES;
	for (size_t i = 0; i < COPIES; i++)
		now.at[i] = i;
	now.how[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
	now.how[2].flags = 1; /* CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE */
	now.how[3].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

/* These have one copy, good in itself, which the driver would not be asked for if taken out. */
static void no_order(void)
{
	now.count = 1;
	now.how[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
}

static void wrong_kind(void)
{
	now.count = 1;
	now.at[0] = 1;
}

static void many_kinds(void)
{
	two_kinds();
	now.at[1] = 1;
	now.count = 1;
}

static void no_kinds(void)
{
	now.count = 1;
	now.kinds = 0;
}

static void no_copies(void)
{
	now.count = 0;
}

static void legacy(void)
{
	now.count = 1;
	now.stream = CU_STREAM_LEGACY;
}

static void places(void)
{
	now.how[0].dstLocHint.type = CU_MEM_LOCATION_TYPE_DEVICE;
}

static void many(void)
{
	for (size_t i = COPIES; i < MANY; i++) {
		now.to[i] = now.to[3];
		now.from[i] = now.from[3];
		now.bytes[i] = SMALL;
	}
	now.count = MANY;
}

static const struct {
	const char *name;
	void (*make)(void);
} cases[] = {
	{"good", nothing},
	{"wrong second", wrong_second},
	{"two kinds", two_kinds},
	{"wrong last", wrong_last},
	{"four kinds", four_kinds},
	{"empty third", empty_third},
	{"good", nothing},
	{"no order", no_order},
	{"wrong kind", wrong_kind},
	{"many kinds", many_kinds},
	{"no kinds", no_kinds},
	{"no copies", no_copies},
	{"legacy stream", legacy},
	{"places", places},
	{"many", many},
};

/* ---- a step ----------------------------------------------------------------------------- */

/* What may be overwritten as soon as the call has returned; each copy has its own. */
static unsigned char sources[COPIES][LARGE];

/* Each is another part of the same, so it is another copy. */
static void make(void)
{
	size_t begin = 0;
	now = (struct batch){.count = COPIES, .kinds = 1, .stream = stream};
	for (size_t i = 0; i < COPIES; i++) {
		now.bytes[i] = i % 2 == 0 ? LARGE - 64 : SMALL;
		now.to[i] = device + begin;
		memcpy(sources[i], scene_source, LARGE);
		now.from[i] = (uintptr_t)sources[i] + 8 * i;
		now.how[i].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
		begin += LARGE;
	}
}

static void overwrite(int all)
{
	for (size_t i = 0; i < COPIES; i++) {
		size_t kind = now.kinds > 1 ? now.kinds - 1 : 0;
		while (kind > 0 && now.at[kind] > i)
			kind--;
		if (all || now.how[kind].srcAccessOrder ==
				   CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL)
			memset(sources[i], 0x33, LARGE);
	}
}

static int bring(long step, size_t *ret_failed)
{
	if (step % 2 == 0)
		return (int)cu->cuMemcpyBatchAsync_v2(now.to, now.from, now.bytes, now.count,
			now.how, now.at, now.kinds, now.stream);
	return (int)cu->cuMemcpyBatchAsync(now.to, now.from, now.bytes, now.count, now.how,
		now.at, now.kinds, ret_failed, now.stream);
}

static unsigned long long digest_of(CUdeviceptr memory, size_t bytes)
{
	unsigned long long hash = 0xcbf29ce484222325ull;
	memset(scene_arrived, 0x11, bytes);
	SCENE_CHECK(cu->cuMemcpyDtoH_v2(scene_arrived, memory, bytes));
	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ scene_arrived[i]) * 0x100000001b3ull;
	return hash;
}

static void do_step(long step)
{
	size_t failed = 77, number = (size_t)(step / 2) % (sizeof(cases) / sizeof(cases[0]));
	scene_fill(1, (uint64_t)step);
	SCENE_CHECK(cu->cuMemsetD8_v2(device, 0x77, COPIES * LARGE));
	SCENE_CHECK(cu->cuCtxSynchronize());
	make();
	cases[number].make();
	int result = bring(step, &failed);
	overwrite(0);
	SCENE_CHECK(cu->cuCtxSynchronize());
	overwrite(1);
	printf("%ld: %s: %d", step, cases[number].name, result);
	if (result != 0 && step % 2 == 1)
		printf(", copy %zd", (ssize_t)failed);
	for (size_t i = 0; i < COPIES && result == 0; i++)
		printf(" %llx", digest_of(device + i * LARGE, LARGE));
	printf("\n");
}

int main(int argc, char **argv)
{
	CUcontext context;
	if (argc < 2)
		return 2;
	long steps = strtol(argv[1], NULL, 10);
	scene_start();
	SCENE_CHECK(cu->cuDevicePrimaryCtxRetain(&context, 0));
	SCENE_CHECK(cu->cuCtxSetCurrent(context));
	SCENE_CHECK(cu->cuMemAlloc_v2(&device, COPIES * LARGE));
	SCENE_CHECK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	scene_wait(argv);
	for (long step = 0; step < steps; step++) {
		scene_before(argv);
		do_step(step);
		scene_after(argv);
	}
	return fflush(stdout) != 0;
}
