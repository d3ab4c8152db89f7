/* SPDX-License-Identifier: MIT */
/*
 * link BYTES: what the ways of BYTES to and within the GPUs of this machine take, without any
 * library of ours: what sharing can be worth, and what it relies on (docs/gpu.md, what a first
 * GPU has to show).  Medians, as JSON; null where there is no such way.  The driver is found as
 * a program finds it: libcuda.so.1.
 */
#include "cuda.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct handle {
	char bytes[64];
};

#define ROUNDS   31
#define OPENINGS 11

/* Of cuda.h. */
#define PORTABLE            1u
#define LAZY_PEER_ACCESS    1u
#define HOST_PAGE_TABLES    100
#define READ_ONLY_SUPPORTED 113

#define FUNCTIONS(X)                                                              \
	X(cuInit, (unsigned))                                                     \
	X(cuDeviceGetCount, (int *))                                              \
	X(cuDeviceGetAttribute, (int *, int, int))                                \
	X(cuDeviceCanAccessPeer, (int *, int, int))                               \
	X(cuDevicePrimaryCtxRetain, (void **, int))                               \
	X(cuCtxSetCurrent, (void *))                                              \
	X(cuCtxEnablePeerAccess, (void *, unsigned))                              \
	X(cuStreamCreate, (void **, unsigned))                                    \
	X(cuStreamSynchronize, (void *))                                          \
	X(cuMemAlloc_v2, (device_pointer *, size_t))                              \
	X(cuMemHostAlloc, (void **, size_t, unsigned))                            \
	X(cuMemHostRegister_v2, (void *, size_t, unsigned))                       \
	X(cuMemHostUnregister, (void *))                                          \
	X(cuMemsetD8_v2, (device_pointer, unsigned char, size_t))                 \
	X(cuMemcpyHtoDAsync_v2, (device_pointer, const void *, size_t, void *))   \
	X(cuMemcpyDtoDAsync_v2, (device_pointer, device_pointer, size_t, void *)) \
	X(cuMemcpyDtoH_v2, (void *, device_pointer, size_t))                      \
	X(cuIpcGetMemHandle, (struct handle *, device_pointer))                   \
	X(cuIpcOpenMemHandle_v2, (device_pointer *, struct handle, unsigned))     \
	X(cuIpcCloseMemHandle, (device_pointer))

/* Which a driver made of software may not have. */
#define OF_FLAGS(X)                                                              \
	X(cuMemHostGetDevicePointer_v2, (device_pointer *, void *, unsigned))    \
	X(cuStreamWriteValue32_v2, (void *, device_pointer, uint32_t, unsigned)) \
	X(cuMemcpyDtoHAsync_v2, (void *, device_pointer, size_t, void *))

static struct {
	FUNCTIONS(CUDA_MEMBER)
	OF_FLAGS(CUDA_MEMBER)
} cuda;

static size_t bytes;
static void *stream;

/* The driver, with device @device current; in each process for itself, after the forks. */
static void *start(int device)
{
	void *context;
	FUNCTIONS(CUDA_FIND)
	OF_FLAGS(CUDA_FIND_IF_THERE)
	need(cuda.cuInit(0), "cuInit");
	need(cuda.cuDevicePrimaryCtxRetain(&context, device), "no context");
	need(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent");
	need(cuda.cuStreamCreate(&stream, CUDA_NON_BLOCKING), "cuStreamCreate");
	return context;
}

static device_pointer on_device(void)
{
	device_pointer memory;
	need(cuda.cuMemAlloc_v2(&memory, bytes), "cuMemAlloc");
	return memory;
}

/* ---- copies ----------------------------------------------------------------------------- */

/* From @host to @to, and from there to @tee if that is not 0. */
static double bring(device_pointer to, const void *host, device_pointer tee)
{
	double each[ROUNDS];
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t begin = now(CLOCK_MONOTONIC);
		need(cuda.cuMemcpyHtoDAsync_v2(to, host, bytes, stream), "copy");
		if (tee)
			need(cuda.cuMemcpyDtoDAsync_v2(tee, to, bytes, stream), "tee");
		need(cuda.cuStreamSynchronize(stream), "synchronize");
		each[i] = ms_since(begin);
	}
	return median(each, ROUNDS);
}

static double within(device_pointer to, device_pointer from)
{
	double each[ROUNDS];
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t begin = now(CLOCK_MONOTONIC);
		need(cuda.cuMemcpyDtoDAsync_v2(to, from, bytes, stream), "copy");
		need(cuda.cuStreamSynchronize(stream), "synchronize");
		each[i] = ms_since(begin);
	}
	return median(each, ROUNDS);
}

static void print_copies(void)
{
	device_pointer one = on_device(), other = on_device();
	void *pinned, *plain = malloc(bytes);
	need(cuda.cuMemHostAlloc(&pinned, bytes, 0), "cuMemHostAlloc");
	if (!plain)
		die("memory");
	memset(plain, 1, bytes);
	memset(pinned, 1, bytes);
	printf("\"pinned_ms\": %.4f, ", bring(one, pinned, 0));
	printf("\"pinned_tee_ms\": %.4f, ", bring(one, pinned, other));
	printf("\"pageable_ms\": %.4f, ", bring(one, plain, 0));
	printf("\"pageable_tee_ms\": %.4f, ", bring(one, plain, other));
	printf("\"within_ms\": %.4f, ", within(other, one));
}

/* A memory file that is there, as a buffer of the hand-over pool is. */
static void print_register(void)
{
	int fd = memfd_create("link", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		die("memfd");
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		die("mmap");
	memset(at, 1, bytes);
	uint64_t begin = now(CLOCK_MONOTONIC);
	int result = cuda.cuMemHostRegister_v2(at, bytes, PORTABLE);
	double took = ms_since(begin);
	if (result == 0)
		printf("\"register_ms\": %.4f, ", took);
	else
		printf("\"register_ms\": null, \"register_error\": %d, ", result);
	if (result == 0)
		need(cuda.cuMemHostUnregister(at), "cuMemHostUnregister");
}

static void print_attributes(void)
{
	int page_tables = 0, read_only = 0, count = 0;
	(void)cuda.cuDeviceGetAttribute(&page_tables, HOST_PAGE_TABLES, 0);
	(void)cuda.cuDeviceGetAttribute(&read_only, READ_ONLY_SUPPORTED, 0);
	(void)cuda.cuDeviceGetCount(&count);
	printf("\"host_page_tables\": %d, \"read_only_register\": %d, \"devices\": %d, ",
		page_tables, read_only, count);
}

/* From the memory of device 0, which is current before and afterwards, to that of device 1. */
static void print_peer(void *first_context)
{
	int count = 0, reaches = 0;
	void *first_stream = stream;
	device_pointer there = on_device();
	(void)cuda.cuDeviceGetCount(&count);
	if (count > 1)
		(void)cuda.cuDeviceCanAccessPeer(&reaches, 1, 0);
	if (!reaches) {
		printf("\"peer_ms\": null, ");
		return;
	}
	(void)start(1);
	need(cuda.cuCtxEnablePeerAccess(first_context, 0), "cuCtxEnablePeerAccess");
	printf("\"peer_ms\": %.4f, ", within(on_device(), there));
	need(cuda.cuCtxSetCurrent(first_context), "cuCtxSetCurrent");
	stream = first_stream;
}

/* ---- a flag that the GPU sets ------------------------------------------------------------ */

#define FLAGS       2000
#define MAPPED      2u
#define FLAG_BYTES  ((size_t)1 << 20)
#define PATIENCE_NS UINT64_C(1000000000)

/* Whether @flag becomes @value soon. */
static int becomes(const volatile uint32_t *flag, uint32_t value)
{
	uint64_t begin = now(CLOCK_MONOTONIC);
	while (*flag != value)
		if (now(CLOCK_MONOTONIC) - begin > PATIENCE_NS)
			return 0;
	return 1;
}

/*
 * A flag in host memory that is written behind a copy to the device: whether the host, when it
 * sees the flag, finds all that was copied when it looks by another stream.
 */
static void print_flags(void)
{
	void *flag, *from, *back, *other;
	device_pointer flag_there, memory;
	unsigned wrong = 0, missing = 0;
	if (!cuda.cuMemHostGetDevicePointer_v2 || !cuda.cuStreamWriteValue32_v2 ||
		!cuda.cuMemcpyDtoHAsync_v2) {
		printf("\"flags\": null, ");
		return;
	}
	need(cuda.cuMemHostAlloc(&flag, 4096, MAPPED), "cuMemHostAlloc");
	need(cuda.cuMemHostGetDevicePointer_v2(&flag_there, flag, 0), "device pointer");
	need(cuda.cuMemHostAlloc(&from, FLAG_BYTES, 0), "cuMemHostAlloc");
	need(cuda.cuMemHostAlloc(&back, FLAG_BYTES, 0), "cuMemHostAlloc");
	need(cuda.cuMemAlloc_v2(&memory, FLAG_BYTES), "cuMemAlloc");
	need(cuda.cuStreamCreate(&other, CUDA_NON_BLOCKING), "cuStreamCreate");
	memset(flag, 0, 4096);
	for (uint32_t i = 1; i <= FLAGS; i++) {
		memset(from, (int)i, FLAG_BYTES);
		need(cuda.cuMemcpyHtoDAsync_v2(memory, from, FLAG_BYTES, stream), "copy");
		need(cuda.cuStreamWriteValue32_v2(stream, flag_there, i, 0), "write value");
		missing += !becomes(flag, i);
		need(cuda.cuMemcpyDtoHAsync_v2(back, memory, FLAG_BYTES, other), "copy back");
		need(cuda.cuStreamSynchronize(other), "synchronize");
		wrong += memcmp(from, back, FLAG_BYTES) != 0;
	}
	printf("\"flags\": {\"written\": %d, \"missing\": %u, \"wrong\": %u}, ", FLAGS, missing,
		wrong);
}

/* ---- memory of another process ---------------------------------------------------------- */

/* Allocates, tells the handle, and lives until it is killed. */
static void export(int to)
{
	struct handle handle;
	(void)start(0);
	device_pointer memory = on_device();
	need(cuda.cuMemsetD8_v2(memory, 7, bytes), "cuMemsetD8");
	need(cuda.cuStreamSynchronize(NULL), "synchronize");
	need(cuda.cuIpcGetMemHandle(&handle, memory), "cuIpcGetMemHandle");
	if (write(to, &handle, sizeof(handle)) != sizeof(handle))
		die("pipe");
	for (;;)
		pause();
}

/* Whether what the dead has left can be read, and is what it was. */
static void print_dead(device_pointer memory)
{
	unsigned char *back = malloc(bytes);
	size_t right = 0;
	if (!back)
		die("memory");
	int result = cuda.cuMemcpyDtoH_v2(back, memory, bytes);
	for (size_t i = 0; result == 0 && i < bytes; i++)
		right += back[i] == 7;
	printf("\"of_the_dead\": {\"error\": %d, \"right\": %.4f}, ", result,
		(double)right / (double)bytes);
}

static void print_ipc(pid_t exporter, int from)
{
	struct handle handle;
	device_pointer memory = 0;
	double opening[OPENINGS], closing[OPENINGS];
	if (read(from, &handle, sizeof(handle)) != sizeof(handle)) {
		printf("\"open_ms\": null, ");
		return;
	}
	for (int i = 0; i < OPENINGS; i++) {
		uint64_t begin = now(CLOCK_MONOTONIC);
		int result = cuda.cuIpcOpenMemHandle_v2(&memory, handle, LAZY_PEER_ACCESS);
		opening[i] = ms_since(begin);
		if (result != 0) {
			printf("\"open_ms\": null, \"open_error\": %d, ", result);
			return;
		}
		begin = now(CLOCK_MONOTONIC);
		need(cuda.cuIpcCloseMemHandle(memory), "cuIpcCloseMemHandle");
		closing[i] = ms_since(begin);
	}
	printf("\"open_ms\": %.4f, \"close_ms\": %.4f, ", median(opening, OPENINGS),
		median(closing, OPENINGS));
	need(cuda.cuIpcOpenMemHandle_v2(&memory, handle, LAZY_PEER_ACCESS), "open");
	printf("\"of_another_ms\": %.4f, ", within(on_device(), memory));
	(void)kill(exporter, SIGKILL);
	(void)waitpid(exporter, NULL, 0);
	(void)usleep(100000);
	print_dead(memory);
}

int main(int argc, char **argv)
{
	int ends[2];
	if (argc != 2 || (bytes = strtoull(argv[1], NULL, 10)) == 0)
		return 2;
	if (pipe(ends) < 0)
		die("pipe");
	pid_t exporter = fork(); /* before either of them has a driver */
	if (exporter == 0) {
		(void)close(ends[0]);
		export(ends[1]);
	}
	(void)close(ends[1]);
	void *context = start(0);
	printf("{");
	print_attributes();
	print_copies();
	print_register();
	print_flags();
	print_peer(context);
	/* Last: what becomes of this process then nobody knows. */
	print_ipc(exporter, ends[0]);
	printf("\"bytes\": %zu}\n", bytes);
	(void)kill(exporter, SIGKILL);
	return 0;
}
