/* SPDX-License-Identifier: MIT */
/* A job that brings batches to a GPU in all the ways there are. */
#include "gpu_job.h"

#include <dlfcn.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long long pointer;

/* CUmemcpyAttributes */
struct attributes {
	int order, places[4];
	unsigned flags;
};

#define DRIVER(X)                                                                              \
	X(cuInit, (unsigned))                                                                  \
	X(cuDevicePrimaryCtxRetain, (void **, int))                                            \
	X(cuDevicePrimaryCtxRelease_v2, (int))                                                 \
	X(cuDevicePrimaryCtxReset, (int))                                                      \
	X(cuDevicePrimaryCtxReset_v2, (int))                                                   \
	X(cuCtxSetCurrent, (void *))                                                           \
	X(cuMemAlloc_v2, (pointer *, size_t))                                                  \
	X(cuMemAllocPitch_v2, (pointer *, size_t *, size_t, size_t, unsigned))                 \
	X(cuMemAllocAsync, (pointer *, size_t, void *))                                        \
	X(cuMemAllocAsync_ptsz, (pointer *, size_t, void *))                                   \
	X(cuMemAllocFromPoolAsync, (pointer *, size_t, void *, void *))                        \
	X(cuMemAllocFromPoolAsync_ptsz, (pointer *, size_t, void *, void *))                   \
	X(cuMemCreate, (pointer *, size_t, const void *, uint64_t))                            \
	X(cuDeviceGetDefaultMemPool, (void **, int))                                           \
	X(cuMemFree_v2, (pointer))                                                             \
	X(cuStreamCreate, (void **, unsigned))                                                 \
	X(cuLaunchHostFunc, (void *, void (*)(void *), void *))                                \
	X(cuLaunchHostFunc_ptsz, (void *, void (*)(void *), void *))                           \
	X(cuStreamSynchronize, (void *))                                                       \
	X(cuStreamSynchronize_ptsz, (void *))                                                  \
	X(cuMemsetD8Async, (pointer, unsigned char, size_t, void *))                           \
	X(cuMemsetD8Async_ptsz, (pointer, unsigned char, size_t, void *))                      \
	X(cuMemcpyDtoHAsync_v2, (void *, pointer, size_t, void *))                             \
	X(cuMemcpyDtoHAsync_v2_ptsz, (void *, pointer, size_t, void *))                        \
	X(cuMemcpyHtoD_v2, (pointer, const void *, size_t))                                    \
	X(cuMemcpyHtoD_v2_ptds, (pointer, const void *, size_t))                               \
	X(cuMemcpyHtoDAsync_v2, (pointer, const void *, size_t, void *))                       \
	X(cuMemcpyHtoDAsync_v2_ptsz, (pointer, const void *, size_t, void *))                  \
	X(cuMemcpy, (pointer, pointer, size_t))                                                \
	X(cuMemcpy_ptds, (pointer, pointer, size_t))                                           \
	X(cuMemcpyAsync, (pointer, pointer, size_t, void *))                                   \
	X(cuMemcpyAsync_ptsz, (pointer, pointer, size_t, void *))                              \
	X(cuMemcpyBatchAsync_v2, (pointer *, pointer *, size_t *, size_t, struct attributes *, \
					 size_t *, size_t, void *))                            \
	X(cuMemcpyBatchAsync_ptsz,                                                             \
		(pointer *, pointer *, size_t *, size_t, struct attributes *, size_t *,        \
			size_t, size_t *, void *))

static struct {
#define X(name, parameters) int(*name) parameters;
	DRIVER(X)
#undef X
} cuda;

#define PLACES        4
#define OUT_OF_MEMORY 2

struct place {
	pointer device;
	uint64_t batch; /* that lies there, unchecked */
	size_t bytes;
	uint64_t data;
	void *stream;
	int per_thread, full;
};

static struct job how; /* as it is brought just now */
static struct place places[PLACES];
static unsigned char *source, *wanted, *arrived;
static void *streams[4];
static uint64_t longest_ns;
static unsigned slow;

static void die(const char *what, uint64_t number)
{
	printf("%s %llu\n", what, (unsigned long long)number);
	fflush(stdout);
	_exit(1);
}

static void check(int result, const char *what)
{
	if (result != 0)
		die(what, (uint64_t)result);
}

#define CHECK(call) check(cuda.call, #call)

uint64_t job_next(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static uint64_t chance(uint64_t of)
{
	return job_next(&how.schedule) % of;
}

static size_t bytes_of(uint64_t data, uint64_t batch)
{
	uint64_t state = data * 31 + batch / 4;
	return how.bytes + (job_next(&state) % how.sizes) * 4096;
}

/* Four in a row are equal but for one word in the middle: a hash has to see all. */
static void fill(unsigned char *into, size_t bytes, uint64_t data, uint64_t batch)
{
	uint64_t state = data * UINT64_C(1000003) + batch / 4;
	uint64_t *words = (uint64_t *)into;
	size_t count = bytes / 8;
	uint64_t word = job_next(&state), step = job_next(&state) | 1;
	for (size_t i = 0; i < count; i++)
		words[i] = word + i * step;
	words[1024 + job_next(&state) % (count - 2048)] += batch;
	words[0] += how.distinct ? batch : 0;
}

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- places ------------------------------------------------------------------------------ */

static void synchronize(const struct place *place)
{
	if (place->per_thread)
		CHECK(cuStreamSynchronize_ptsz(place->stream));
	else
		CHECK(cuStreamSynchronize(place->stream));
}

static void look_at(struct place *place)
{
	if (!place->full)
		return;
	place->full = 0;
	memset(arrived, 0x11, place->bytes);
	if (place->per_thread)
		CHECK(cuMemcpyDtoHAsync_v2_ptsz(
			arrived, place->device, place->bytes, place->stream));
	else
		CHECK(cuMemcpyDtoHAsync_v2(
			arrived, place->device, place->bytes, place->stream));
	synchronize(place);
	fill(wanted, place->bytes, place->data, place->batch);
	if (!how.blind && memcmp(wanted, arrived, place->bytes) != 0)
		die("differs: batch", place->batch);
}

static void scribble(struct place *place)
{
	place->full = 0;
	if (place->per_thread)
		CHECK(cuMemsetD8Async_ptsz(place->device, 0x77, place->bytes, place->stream));
	else
		CHECK(cuMemsetD8Async(place->device, 0x77, place->bytes, place->stream));
}

static void work(void *us)
{
	usleep(*(const unsigned *)us);
}

/* As kernels do that were started and have not run yet. */
static void keep_busy(const struct place *place)
{
	if (place->per_thread)
		CHECK(cuLaunchHostFunc_ptsz(place->stream, work, &how.busy_us));
	else
		CHECK(cuLaunchHostFunc(place->stream, work, &how.busy_us));
}

/* ---- in a batch -------------------------------------------------------------------------- */

/* When the source is read: in its turn in the stream, before the call returns, at any time. */
enum order { IN_STREAM = 1, DURING_CALL = 2, ANY_TIME = 3 };

static void fill_late(void *data)
{
	const struct place *place = data;
	fill(source, place->bytes, place->data, place->batch);
}

/* What comes before the copy in its stream writes what it reads. */
static void let_stream_fill(struct place *place)
{
	if (place->per_thread)
		CHECK(cuLaunchHostFunc_ptsz(place->stream, fill_late, place));
	else
		CHECK(cuLaunchHostFunc(place->stream, fill_late, place));
}

/* Two parts are as large as what is shared, where there is enough; the last is small. */
static size_t part_bytes(size_t left, size_t parts_left)
{
	const size_t small = 8192;
	if (parts_left == 1)
		return left;
	return parts_left == 2 ? left - small : left / 2;
}

static int bring_batch(struct place *place, int old)
{
	pointer to[JOB_PARTS], from[JOB_PARTS];
	size_t bytes[JOB_PARTS], at[2] = {0, 1}, begin = 0, failed;
	size_t count = 1 + chance(how.parts ? how.parts : JOB_PARTS);
	struct attributes how_each[2] = {{.order = 1 + (int)chance(3)}, {.order = DURING_CALL}};
	/* All after the first are read during the call, if there are any and so it is. */
	size_t kinds = count > 1 ? 1 + chance(2) : 1;
	for (size_t i = 0; i < count; i++) {
		to[i] = place->device + begin;
		from[i] = (pointer)(uintptr_t)source + begin;
		bytes[i] = part_bytes(place->bytes - begin, count - i);
		begin += bytes[i];
	}
	if (kinds == 1 && how_each[0].order == IN_STREAM && chance(2) == 0) {
		memset(source, 0x44, place->bytes);
		let_stream_fill(place);
	}
	int result = old ? cuda.cuMemcpyBatchAsync_ptsz(to, from, bytes, count, how_each, at,
				   kinds, &failed, place->stream)
			 : cuda.cuMemcpyBatchAsync_v2(
				   to, from, bytes, count, how_each, at, kinds, place->stream);
	if (how_each[0].order != DURING_CALL)
		synchronize(place);
	return result;
}

/* ---- one batch -------------------------------------------------------------------------- */

/* One of ten calls; those without a stream use the default one of their kind. */
static int bring(struct place *place, unsigned call)
{
	pointer from = (pointer)(uintptr_t)source;
	size_t bytes = place->bytes;
	switch (call) {
	case 0:
		return cuda.cuMemcpyHtoD_v2(place->device, source, bytes);
	case 1:
		return cuda.cuMemcpyHtoD_v2_ptds(place->device, source, bytes);
	case 2:
		return cuda.cuMemcpy(place->device, from, bytes);
	case 3:
		return cuda.cuMemcpy_ptds(place->device, from, bytes);
	case 4:
		return cuda.cuMemcpyHtoDAsync_v2(place->device, source, bytes, place->stream);
	case 5:
		return cuda.cuMemcpyHtoDAsync_v2_ptsz(
			place->device, source, bytes, place->stream);
	case 6:
		return cuda.cuMemcpyAsync(place->device, from, bytes, place->stream);
	case 7:
		return cuda.cuMemcpyAsync_ptsz(place->device, from, bytes, place->stream);
	default:
		return bring_batch(place, call == 9);
	}
}

static unsigned choose_call(void)
{
	static const unsigned begins[] = {0, 0, 4, 8}, ends[] = {8, 4, 8, 10};
	unsigned from = begins[how.calls], to = ends[how.calls];
	if (how.batches && how.calls != 1)
		to = 10;
	return from + (unsigned)chance(to - from);
}

/* A batch must not be put into the legacy stream. */
static void *stream_for(unsigned call)
{
	if (call < 4)
		return NULL;
	return call == 8 ? streams[1 + chance(3)] : streams[chance(4)];
}

static void step(uint64_t batch)
{
	struct place *place = &places[chance(PLACES)];
	unsigned call = choose_call();
	/* What is still under way there would otherwise meet this one in another stream. */
	look_at(place);
	if (place->bytes)
		synchronize(place);
	place->per_thread = (int)(call % 2);
	place->stream = stream_for(call);
	place->bytes = bytes_of(how.data, batch);
	place->data = how.data;
	place->batch = batch;
	/* What is there at the call is then the batch before, which others may have. */
	bool late = how.fills == 1 && batch % 2 == 1 && call >= 4 && call < 8;
	fill(source, place->bytes, place->data, late ? batch - 1 : batch);
	if (how.busy_us && (late || how.fills != 1))
		keep_busy(place);
	if (late)
		let_stream_fill(place);
	uint64_t begin = now_ns();
	check(bring(place, call), "copy");
	uint64_t took = now_ns() - begin;
	if (how.fills)
		synchronize(place);
	longest_ns = took > longest_ns ? took : longest_ns;
	slow += took > JOB_SLOW_NS ? 1 : 0;
	memset(source, 0x33, place->bytes);
	place->full = 1;
	if (chance(3) == 0)
		look_at(place);
	if (chance(3) == 0)
		scribble(place);
	if (how.pause_us)
		usleep((useconds_t)chance(how.pause_us));
}

/* ---- the job ---------------------------------------------------------------------------- */

static void begin(size_t most)
{
	void *context;
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&streams[1], 1));
	CHECK(cuStreamCreate(&streams[2], 0));
	streams[3] = (void *)2;
	for (int i = 0; i < PLACES; i++) {
		places[i] = (struct place){0};
		CHECK(cuMemAlloc_v2(&places[i].device, most));
	}
}

static void start_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library)
		die(dlerror(), 0);
#define X(name, parameters)                           \
	*(void **)&cuda.name = dlsym(library, #name); \
	if (!cuda.name)                               \
		die("no " #name, 0);
	DRIVER(X)
#undef X
	CHECK(cuInit(0));
}

static size_t most_of(const struct job *job)
{
	return job->bytes + (size_t)job->sizes * 4096;
}

void job_start(const struct job *job)
{
	source = malloc(most_of(job));
	wanted = malloc(most_of(job));
	arrived = malloc(most_of(job));
	start_driver();
	begin(most_of(job));
}

/* As one whose steps take a time of their own: who was held up is soon where the others are. */
static void keep_pace(uint64_t begin, uint64_t count)
{
	uint64_t due = begin + count * how.pace_us * 1000, ns = now_ns();
	if (due > ns)
		usleep((useconds_t)((due - ns) / 1000));
}

static int has_ended(int pipe)
{
	struct pollfd end = {.fd = pipe};
	return pipe < 0 || poll(&end, 1, 0) != 0;
}

uint64_t job_bring_until(const struct job *job, uint64_t first, uint64_t count, int pipe)
{
	uint64_t begin = now_ns(), i;
	how = *job;
	for (i = 0; i < count || !has_ended(pipe); i++) {
		keep_pace(begin, i);
		step(first + i);
	}
	return i;
}

void job_bring(const struct job *job, uint64_t first, uint64_t count)
{
	(void)job_bring_until(job, first, count, -1);
}

void job_bring_parameters(size_t bytes, unsigned layer)
{
	unsigned char *sent = malloc(bytes), *got = malloc(bytes);
	pointer memory;
	if (!sent || !got)
		die("no memory for so many bytes of parameters", bytes);
	fill(sent, bytes, how.data, layer * 4);
	CHECK(cuMemAlloc_v2(&memory, bytes));
	CHECK(cuMemcpyHtoD_v2(memory, sent, bytes));
	CHECK(cuMemcpyDtoHAsync_v2(got, memory, bytes, NULL));
	CHECK(cuStreamSynchronize(NULL));
	if (memcmp(sent, got, bytes) != 0)
		die("parameters are not what was sent", bytes);
	CHECK(cuMemFree_v2(memory));
	free(sent);
	free(got);
}

void job_look(void)
{
	for (int i = 0; i < PLACES; i++)
		look_at(&places[i]);
}

void job_leave(const struct job *job, unsigned way)
{
	job_look();
	/* After a reset the reference is still ours, and keeps what is made anew. */
	if (way == 1)
		CHECK(cuDevicePrimaryCtxReset_v2(0));
	else if (way == 3)
		CHECK(cuDevicePrimaryCtxReset(0));
	else
		CHECK(cuDevicePrimaryCtxRelease_v2(0));
	begin(most_of(job));
}

static int allocate(unsigned call, void *pool)
{
	const size_t bytes = (size_t)1 << 20;
	pointer memory;
	size_t pitch;
	switch (call) {
	case 1:
		return cuda.cuMemAllocPitch_v2(&memory, &pitch, bytes / 256, 256, 4);
	case 2:
		return cuda.cuMemAllocAsync(&memory, bytes, NULL);
	case 3:
		return cuda.cuMemAllocAsync_ptsz(&memory, bytes, NULL);
	case 4:
		return cuda.cuMemAllocFromPoolAsync(&memory, bytes, pool, NULL);
	case 5:
		return cuda.cuMemAllocFromPoolAsync_ptsz(&memory, bytes, pool, NULL);
	case 6: /* what is wanted is in a struct that the stand-in does not look into */
		return cuda.cuMemCreate(&memory, bytes, "", 0);
	default:
		return cuda.cuMemAlloc_v2(&memory, bytes);
	}
}

unsigned job_fill(unsigned call, uint64_t *ret_longest_ns)
{
	unsigned room = 0, refused = 0;
	void *pool = NULL;
	CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
	*ret_longest_ns = 0;
	while (refused < 4) {
		uint64_t begin = now_ns();
		int result = allocate(call, pool);
		uint64_t took = now_ns() - begin;
		*ret_longest_ns = took > *ret_longest_ns ? took : *ret_longest_ns;
		if (result != 0 && result != OUT_OF_MEMORY)
			die("allocation", (uint64_t)result);
		room += result == 0 ? 1 : 0;
		refused += result == 0 ? 0 : 1;
	}
	return room;
}

uint64_t job_longest_ns(void)
{
	return longest_ns;
}

unsigned job_slow(void)
{
	return slow;
}
