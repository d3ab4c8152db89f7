/* SPDX-License-Identifier: MIT */
/*
 * threads COUNT STEPS PIPE: threads of one job that bring batches at the same time, each to a
 * place of its own and in its own stream; half of them bring what another thread brings as
 * well. They bring more than STEPS until this pipe has ended.
 */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long pointer;

#define BYTES ((size_t)512 << 10)

#define DRIVER(X)                                                        \
	X(cuInit, (unsigned))                                            \
	X(cuDevicePrimaryCtxRetain, (void **, int))                      \
	X(cuCtxSetCurrent, (void *))                                     \
	X(cuMemAlloc_v2, (pointer *, size_t))                            \
	X(cuStreamCreate, (void **, unsigned))                           \
	X(cuStreamSynchronize, (void *))                                 \
	X(cuMemcpyDtoHAsync_v2, (void *, pointer, size_t, void *))       \
	X(cuMemcpyHtoDAsync_v2, (pointer, const void *, size_t, void *)) \
	X(cuMemcpyHtoD_v2_ptds, (pointer, const void *, size_t))

static struct {
#define X(name, parameters) int(*name) parameters;
	DRIVER(X)
#undef X
} cuda;

static void *context;
static unsigned steps;
static int until;

static bool goes_on(void)
{
	struct pollfd end = {.fd = until};
	return poll(&end, 1, 0) == 0;
}

static void check(int result, const char *what)
{
	if (result == 0)
		return;
	printf("%s: %d\n", what, result);
	fflush(stdout);
	_exit(1);
}

static void fill(unsigned char *into, uint64_t batch)
{
	uint64_t state = batch * UINT64_C(0x9e3779b97f4a7c15) + 1;
	for (size_t i = 0; i < BYTES / 8; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		memcpy(into + 8 * i, &state, 8);
	}
}

static void *work(void *data)
{
	uint64_t self = (uint64_t)(uintptr_t)data;
	unsigned char *source = malloc(BYTES), *wanted = malloc(BYTES),
		      *arrived = malloc(BYTES);
	pointer device;
	void *stream;
	check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent");
	check(cuda.cuMemAlloc_v2(&device, BYTES), "cuMemAlloc");
	check(cuda.cuStreamCreate(&stream, 1), "cuStreamCreate");
	for (uint64_t i = 0; i < steps || goes_on(); i++) {
		uint64_t batch = i * 100 + self / 2;
		fill(wanted, batch);
		memcpy(source, wanted, BYTES);
		if (i % 4 == 3)
			check(cuda.cuMemcpyHtoD_v2_ptds(device, source, BYTES), "copy");
		else
			check(cuda.cuMemcpyHtoDAsync_v2(device, source, BYTES, stream), "copy");
		memset(source, 0x55, BYTES);
		/* The thread's default stream was waited for by nobody but this one. */
		check(cuda.cuStreamSynchronize(i % 4 == 3 ? (void *)2 : stream), "wait");
		check(cuda.cuMemcpyDtoHAsync_v2(arrived, device, BYTES, stream), "back");
		check(cuda.cuStreamSynchronize(stream), "wait");
		check(memcmp(wanted, arrived, BYTES) != 0, "differs");
		usleep(500);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[32];
	unsigned count = argc > 3 ? (unsigned)atoi(argv[1]) : 0;
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	if (count < 1 || count > 32 || !library)
		return 2;
	steps = (unsigned)atoi(argv[2]);
	until = atoi(argv[3]);
#define X(name, parameters)                           \
	*(void **)&cuda.name = dlsym(library, #name); \
	check(!cuda.name, #name);
	DRIVER(X)
#undef X
	check(cuda.cuInit(0), "cuInit");
	check(cuda.cuDevicePrimaryCtxRetain(&context, 0), "context");
	for (uintptr_t i = 0; i < count; i++)
		check(pthread_create(&threads[i], NULL, work, (void *)i), "thread");
	for (unsigned i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("equal: %u batches\n~longest 0 us\n", steps);
	return 0;
}
