/* SPDX-License-Identifier: MIT */
/*
 * A trainer's data path: batches that a seed determines go from host memory to a device, each
 * is read back and compared, and a digest of all is printed.  It keeps to what CUDA allows and
 * uses all of it: a pageable source is overwritten as soon as the call returns, a pinned one as
 * soon as its event is complete.
 *
 *	victim-trainer-FLAVOUR [options]      FLAVOUR: direct, dlsym, runtime, static
 *
 * trainer_options.c has the options.
 *
 * Exit status: 0, 1 a batch arrived wrong, 2 usage, 3 the driver refused something.
 */
#include "trainer.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SCRIBBLE 0xEE

struct slot {
	unsigned char *host;
	CUdeviceptr device;
	CUstream stream;
	CUevent event;
	CUgraphExec graph;
	bool busy;
	long batch;
};

/* What one thread works with. */
struct lane {
	pthread_t thread;
	struct slot slots[MOST_SLOTS];
	CUstream streams[MOST_SLOTS];
	unsigned char *readback;
	long first; /* number of its first batch */
	uint64_t digest;
	bool wrong;
};

static struct settings settings;
static const struct mini_driver *cu;
static CUdevice device;
static size_t batch_bytes;

static void check(CUresult r, const char *what)
{
	if (r == CUDA_SUCCESS)
		return;
	fflush(stdout);
	fprintf(stderr, "trainer: %s: error %d\n", what, (int)r);
	exit(3);
}

#define CHECK(call) check(cu->call, #call)

/* Word number @i of batch @batch. */
static uint64_t content(long batch, size_t i)
{
	uint64_t x = (uint64_t)settings.seed * UINT64_C(0x9e3779b97f4a7c15) +
		     (uint64_t)batch * UINT64_C(0xbf58476d1ce4e5b9) + i;
	x = (x ^ (x >> 30)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static void fill(unsigned char *bytes, long batch)
{
	for (size_t at = 0; at < batch_bytes; at += sizeof(uint64_t)) {
		uint64_t value = content(batch, at);
		size_t left = batch_bytes - at;
		memcpy(bytes + at, &value, left < sizeof(value) ? left : sizeof(value));
	}
}

/* Compare what came back with what was sent, and take it into the digest. */
static void verify(struct lane *lane, long batch)
{
	const unsigned char *bytes = lane->readback;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	bool right = true;
	for (size_t at = 0; at < batch_bytes; at += sizeof(uint64_t)) {
		uint64_t expected = content(batch, at), value = 0;
		size_t left = batch_bytes - at;
		size_t size = left < sizeof(value) ? left : sizeof(value);
		memcpy(&value, bytes + at, size);
		right = right && memcmp(&value, &expected, size) == 0;
		hash = (hash ^ value) * UINT64_C(0x100000001b3);
		hash ^= hash >> 29;
	}
	lane->digest = (lane->digest ^ hash) * UINT64_C(0x9e3779b97f4a7c15) + 1;
	if (settings.print || !right)
		printf("batch %ld %016llx%s\n", batch, (unsigned long long)hash,
			right ? "" : " WRONG");
	lane->wrong = lane->wrong || !right;
}

static unsigned char *host_memory(void)
{
	void *memory = NULL;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t bytes = (batch_bytes + page - 1) / page * page;
	if (settings.memory == PINNED) {
		CHECK(cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE));
		return memory;
	}
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		perror("trainer");
		exit(3);
	}
	if (settings.memory == REGISTERED)
		CHECK(cuMemHostRegister_v2(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE));
	return memory;
}

static void host_free(unsigned char *memory)
{
	if (settings.memory == PINNED)
		CHECK(cuMemFreeHost(memory));
	if (settings.memory == REGISTERED)
		CHECK(cuMemHostUnregister(memory));
}

/* The whole batch, in parts of about the same size. */
static size_t part_begin(long part)
{
	return batch_bytes / (size_t)settings.parts * (size_t)part;
}

static size_t part_bytes(long part)
{
	return (part + 1 == settings.parts ? batch_bytes : part_begin(part + 1)) -
	       part_begin(part);
}

static void copy_batch(const struct slot *slot, bool old)
{
	CUdeviceptr dsts[MOST_SLOTS], srcs[MOST_SLOTS];
	size_t sizes[MOST_SLOTS], first = 0, failed;
	CUmemcpyAttributes how = {
		.srcAccessOrder = settings.memory == PAGEABLE
					  ? CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL
					  : CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
	size_t count =
		(size_t)settings.parts < MOST_SLOTS ? (size_t)settings.parts : MOST_SLOTS;
	for (size_t i = 0; i < count; i++) {
		size_t begin = part_begin((long)i);
		dsts[i] = slot->device + begin;
		srcs[i] = (uintptr_t)slot->host + begin;
		sizes[i] = i + 1 == count ? batch_bytes - begin : part_bytes((long)i);
	}
	if (old)
		CHECK(cuMemcpyBatchAsync(
			dsts, srcs, sizes, count, &how, &first, 1, &failed, slot->stream));
	else
		CHECK(cuMemcpyBatchAsync_v2(
			dsts, srcs, sizes, count, &how, &first, 1, slot->stream));
}

static void copy_rows(const struct slot *slot)
{
	CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = slot->host,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = slot->device,
		.WidthInBytes = batch_bytes,
		.Height = 1};
	CHECK(cuMemcpy2DAsync_v2(&rows, slot->stream));
}

static void copy_part(const struct slot *slot, long part)
{
	size_t begin = part_begin(part), bytes = part_bytes(part);
	CUdeviceptr dst = slot->device + begin;
	const unsigned char *src = slot->host + begin;
	if (settings.call == UNIFIED && settings.sync)
		CHECK(cuMemcpy(dst, (uintptr_t)src, bytes));
	else if (settings.call == UNIFIED)
		CHECK(cuMemcpyAsync(dst, (uintptr_t)src, bytes, slot->stream));
	else if (settings.sync)
		CHECK(cuMemcpyHtoD_v2(dst, src, bytes));
	else
		CHECK(cuMemcpyHtoDAsync_v2(dst, src, bytes, slot->stream));
}

static void copy_parts(const struct slot *slot)
{
	for (long part = 0; part < settings.parts; part++)
		copy_part(slot, part);
}

/* Record the copies of a slot once; what is in the slot is read at each launch. */
static void capture(struct slot *slot)
{
	CUgraph graph;
	CUstreamCaptureStatus status;
	CHECK(cuStreamBeginCapture_v2(
		slot->stream, settings.threads == 1 ? CU_STREAM_CAPTURE_MODE_GLOBAL
						    : CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	copy_parts(slot);
	CHECK(cuStreamIsCapturing(slot->stream, &status));
	if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		check(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture");
	CHECK(cuStreamEndCapture(slot->stream, &graph));
	CHECK(cuGraphInstantiateWithFlags(&slot->graph, graph, 0));
	CHECK(cuGraphDestroy(graph));
}

static void send(struct slot *slot)
{
	switch (settings.call) {
	case BATCH:
	case BATCH_12:
		copy_batch(slot, settings.call == BATCH_12);
		break;
	case ROWS:
		copy_rows(slot);
		break;
	case GRAPH:
		if (!slot->graph)
			capture(slot);
		CHECK(cuGraphLaunch(slot->graph, slot->stream));
		break;
	default:
		copy_parts(slot);
	}
	/* Nobody may look at these bytes any more. */
	if (settings.memory == PAGEABLE || settings.sync)
		memset(slot->host, SCRIBBLE, batch_bytes);
	CHECK(cuEventRecord(slot->event, slot->stream));
}

static void retire(struct lane *lane, struct slot *slot)
{
	if (!slot->busy)
		return;
	CHECK(cuEventSynchronize(slot->event));
	memset(slot->host, SCRIBBLE, batch_bytes);
	CHECK(cuMemcpyDtoHAsync_v2(lane->readback, slot->device, batch_bytes, slot->stream));
	CHECK(cuStreamSynchronize(slot->stream));
	verify(lane, slot->batch);
	slot->busy = false;
}

static void make_streams(CUstream *streams)
{
	for (long i = 0; i < settings.streams; i++) {
		switch (settings.stream) {
		case LEGACY_HANDLE:
			streams[i] = CU_STREAM_LEGACY;
			break;
		case THREAD_HANDLE:
			streams[i] = CU_STREAM_PER_THREAD;
			break;
		case BLOCKING:
			CHECK(cuStreamCreate(&streams[i], CU_STREAM_DEFAULT));
			break;
		case NON_BLOCKING:
			CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
			break;
		default:
			streams[i] = NULL;
		}
	}
}

static CUcontext make_context(void)
{
	CUcontext context;
	if (settings.own_context) {
		CHECK(cuCtxCreate_v2(&context, 0, device));
	} else {
		CHECK(cuDevicePrimaryCtxRetain(&context, device));
		CHECK(cuCtxSetCurrent(context));
	}
	return context;
}

/* Together with others: say that we are ready, begin when all are. */
static void wait_at_gate(void)
{
	FILE *file = settings.ready ? fopen(settings.ready, "w") : NULL;
	if (file)
		fclose(file);
	while (settings.gate && access(settings.gate, F_OK) != 0)
		usleep(1000);
}

static void rest(void)
{
	struct timespec pause = {
		settings.delay_us / 1000000, settings.delay_us % 1000000 * 1000};
	if (settings.delay_us > 0)
		nanosleep(&pause, NULL);
}

/* Four batches in turn, which no digest has, until others say that it is enough. */
static void warm_up(struct lane *lane)
{
	struct slot *slot = &lane->slots[0];
	for (long i = 1; settings.warm && access(settings.warm, F_OK) != 0; i++) {
		fill(slot->host, -1 - i % 4);
		send(slot);
		CHECK(cuEventSynchronize(slot->event));
		rest();
	}
}

static void train(struct lane *lane)
{
	for (long i = 0; i < settings.count; i++) {
		struct slot *slot = &lane->slots[i % settings.slots];
		retire(lane, slot);
		slot->batch = lane->first + i;
		slot->busy = true;
		fill(slot->host, slot->batch);
		send(slot);
		rest();
	}
	for (long i = 0; i < settings.slots; i++)
		retire(lane, &lane->slots[(settings.count + i) % settings.slots]);
}

static void set_up(struct lane *lane)
{
	make_streams(lane->streams);
	lane->readback = malloc(batch_bytes);
	if (!lane->readback)
		check(CUDA_ERROR_OUT_OF_MEMORY, "malloc");
	for (long i = 0; i < settings.slots; i++) {
		struct slot *slot = &lane->slots[i];
		slot->host = host_memory();
		slot->stream = lane->streams[i % settings.streams];
		CHECK(cuMemAlloc_v2(&slot->device, batch_bytes));
		CHECK(cuEventCreate(&slot->event, CU_EVENT_DISABLE_TIMING));
	}
}

static void clear_up(struct lane *lane)
{
	for (long i = 0; i < settings.slots; i++) {
		struct slot *slot = &lane->slots[i];
		if (slot->graph)
			CHECK(cuGraphExecDestroy(slot->graph));
		CHECK(cuEventDestroy_v2(slot->event));
		CHECK(cuMemFree_v2(slot->device));
		host_free(slot->host);
	}
	for (long i = 0; i < settings.streams; i++)
		if (settings.stream >= BLOCKING)
			CHECK(cuStreamDestroy_v2(lane->streams[i]));
	free(lane->readback);
}

static void *work(void *argument)
{
	struct lane *lane = argument;
	CUcontext context = make_context();
	set_up(lane);
	wait_at_gate();
	warm_up(lane);
	train(lane);
	clear_up(lane);
	if (settings.own_context)
		CHECK(cuCtxDestroy_v2(context));
	else
		CHECK(cuDevicePrimaryCtxRelease_v2(device));
	return NULL;
}

/* The first lane is the main thread's: with one there are no threads. */
int main(int argc, char **argv)
{
	static struct lane lanes[MOST_SLOTS];
	uint64_t digest = 0;
	bool wrong = false;
	trainer_options(argc, argv, &settings);
	batch_bytes = (size_t)settings.bytes;
	cu = trainer_driver(settings.stream == THREAD);
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, (int)settings.device));
	for (long i = 0; i < settings.threads; i++) {
		lanes[i].first = settings.start + i * settings.count;
		if (i > 0 && pthread_create(&lanes[i].thread, NULL, work, &lanes[i]) != 0)
			check(CUDA_ERROR_OPERATING_SYSTEM, "pthread_create");
	}
	work(&lanes[0]);
	for (long i = 0; i < settings.threads; i++) {
		if (i > 0)
			pthread_join(lanes[i].thread, NULL);
		digest = digest * UINT64_C(0x100000001b3) ^ lanes[i].digest;
		wrong = wrong || lanes[i].wrong;
	}
	printf("%ld batches, digest %016llx\n", settings.threads * settings.count,
		(unsigned long long)digest);
	if (fflush(stdout) != 0)
		return 3;
	return wrong ? 1 : 0;
}
