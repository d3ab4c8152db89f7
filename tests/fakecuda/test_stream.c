/* SPDX-License-Identifier: MIT */
/* What waits for what: streams, events, host functions, contexts and their ends. */
#include "test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 10000u

static CUstream new_stream(unsigned flags)
{
	CUstream stream;
	OK(cuStreamCreate(&stream, flags));
	return stream;
}

static CUevent new_event(unsigned flags)
{
	CUevent event;
	OK(cuEventCreate(&event, flags));
	return event;
}

static void events(void)
{
	test_begin(0);
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUevent first = new_event(0), second = new_event(0);
	CUdeviceptr device = test_device(BYTES, 1);
	float milliseconds;
	OK(cuEventQuery(first));
	OK(cuEventSynchronize(first));
	OK(cuEventRecord(first, stream));
	OK(cuMemsetD8Async(device, 2, BYTES, stream));
	OK(cuEventRecord(second, stream));
	IS(CUDA_ERROR_NOT_READY, cuEventQuery(second));
	IS(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&milliseconds, first, second));
	OK(cuEventSynchronize(second));
	OK(cuEventQuery(second));
	OK(cuEventElapsedTime(&milliseconds, first, second));
	CHECK(milliseconds == SLOW_US / 1000);
	IS(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&first, CU_EVENT_INTERPROCESS));
	OK(cuMemsetD8Async(device, 3, BYTES, stream));
	OK(cuEventRecord(second, stream));
	OK(cuEventDestroy_v2(second));
	OK(cuStreamSynchronize(stream));
}

static void order_of_streams(void)
{
	test_begin(0);
	CUstream blocking = new_stream(0), other = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr device = test_device(BYTES, 1);
	CUevent event = new_event(CU_EVENT_DISABLE_TIMING);
	/* The legacy stream waits for the blocking one, and not the other way in disorder. */
	OK(cuMemsetD8Async(device, 2, BYTES, blocking));
	OK(cuMemsetD8Async(device, 3, BYTES, NULL));
	OK(cuMemsetD8Async(device, 4, BYTES, blocking));
	OK(cuStreamSynchronize(blocking));
	CHECK(test_value(device, BYTES) == 4);
	/* The non-blocking one does not wait: it is done while the legacy one works on. */
	for (int i = 0; i < 4; i++)
		OK(cuMemsetD8Async(device, 5, 1, NULL));
	OK(cuStreamQuery(other));
	OK(cuMemsetD8Async(device + 1, 6, 1, other));
	OK(cuStreamSynchronize(other));
	IS(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
	/* Unless it is told to. */
	OK(cuEventRecord(event, NULL));
	OK(cuStreamWaitEvent(other, event, 0));
	OK(cuMemsetD8Async(device, 7, BYTES, other));
	OK(cuStreamSynchronize(other));
	OK(cuStreamQuery(NULL));
	CHECK(test_value(device, BYTES) == 7);
	/* Waiting for the legacy stream waits for the blocking ones. */
	OK(cuMemsetD8Async(device, 8, BYTES, blocking));
	OK(cuStreamSynchronize(NULL));
	OK(cuStreamQuery(blocking));
}

static void *use_thread_stream(void *argument)
{
	CUdeviceptr device = *(CUdeviceptr *)argument;
	CUcontext context;
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	/* Nothing of the other thread's stream is waited for. */
	OK(cuStreamQuery_ptsz(NULL));
	int64_t begin = test_clock_us();
	OK(cuMemsetD8Async_ptsz(device, 9, BYTES, NULL));
	OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	CHECK(test_clock_us() - begin == SLOW_US);
	return NULL;
}

static void thread_streams(void)
{
	pthread_t thread;
	test_begin(0);
	CUdeviceptr device = test_device(BYTES, 1), other = test_device(BYTES, 2);
	for (int i = 0; i < 6; i++)
		OK(cuMemsetD8Async_ptsz(device, 3, BYTES, NULL));
	IS(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_PER_THREAD));
	CHECK(pthread_create(&thread, NULL, use_thread_stream, &other) == 0);
	pthread_join(thread, NULL);
	IS(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_PER_THREAD));
	/* The synchronous twin works in it as well. */
	OK(cuMemcpyDtoD_v2_ptds(device, other, BYTES));
	IS(CUDA_ERROR_NOT_READY, cuStreamQuery_ptsz(NULL));
	OK(cuStreamSynchronize_ptsz(NULL));
	CHECK(test_value(device, BYTES) == 9);
}

static void append(void *data)
{
	static int calls;
	((int *)data)[0] = ++calls;
}

static void host_functions(void)
{
	test_begin(0);
	CUstream stream = new_stream(0);
	CUdeviceptr device = test_device(BYTES, 1);
	unsigned char *host = test_pinned(BYTES, 0);
	int order[2] = {0, 0};
	OK(cuMemcpyDtoHAsync_v2(host, device, BYTES, stream));
	OK(cuLaunchHostFunc(stream, append, &order[0]));
	OK(cuMemsetD8Async(device, 2, BYTES, stream));
	OK(cuLaunchHostFunc(stream, append, &order[1]));
	OK(cuStreamDestroy_v2(stream));
	IS(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(stream));
	OK(cuCtxSynchronize());
	CHECK(order[0] == 1 && order[1] == 2);
	CHECK(test_host_value(host, BYTES) == 1 && test_value(device, BYTES) == 2);
}

static void about_streams(void)
{
	CUcontext context = test_begin(0), got;
	CUgreenCtx green;
	unsigned flags;
	int priority;
	CUstream stream;
	OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -3));
	OK(cuStreamGetCtx(stream, &got));
	CHECK(got == context);
	OK(cuStreamGetCtx_v2(stream, &got, &green));
	CHECK(got == context && !green);
	OK(cuStreamGetFlags(stream, &flags));
	OK(cuStreamGetPriority(stream, &priority));
	CHECK(flags == CU_STREAM_NON_BLOCKING && priority == -3);
	OK(cuStreamGetFlags(NULL, &flags));
	CHECK(flags == 0);
	IS(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(&stream, 2));
	IS(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy_v2(CU_STREAM_LEGACY));
}

static void contexts(void)
{
	CUcontext primary, own, got;
	CUdevice device;
	unsigned flags;
	int active;
	size_t bytes;
	IS(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&active));
	IS(CUDA_ERROR_INVALID_VALUE, cuInit(1));
	OK(cuInit(0));
	OK(cuCtxGetCurrent(&got));
	CHECK(!got);
	IS(CUDA_ERROR_INVALID_CONTEXT, cuMemGetInfo_v2(&bytes, &bytes));
	OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
	CHECK(!active);
	OK(cuDevicePrimaryCtxRetain(&primary, 1));
	OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
	CHECK(active);
	OK(cuCtxCreate_v2(&own, 0, 0));
	OK(cuCtxPushCurrent_v2(primary));
	OK(cuCtxGetDevice(&device));
	CHECK(device == 1);
	OK(cuCtxPopCurrent_v2(&got));
	CHECK(got == primary);
	OK(cuCtxGetDevice(&device));
	CHECK(device == 0);
	OK(cuCtxGetDevice_v2(&device, primary));
	CHECK(device == 1);
	IS(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy_v2(primary));
	OK(cuCtxPushCurrent_v2(own));
	OK(cuCtxDestroy_v2(own));
	/* It is still below. */
	IS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemGetInfo_v2(&bytes, &bytes));
	OK(cuCtxSetCurrent(NULL));
	OK(cuDevicePrimaryCtxRelease_v2(1));
	IS(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease_v2(1));
	OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
	CHECK(!active);
}

static void reset(void)
{
	CUcontext context = test_begin(0), again;
	CUdeviceptr device = test_device(BYTES, 1);
	CUstream stream = new_stream(0);
	unsigned char *host = test_pinned(BYTES, 2);
	OK(cuMemcpyHtoDAsync_v2(device, host, BYTES, stream));
	OK(cuDevicePrimaryCtxReset_v2(0));
	IS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
	IS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuStreamQuery(stream));
	OK(cuDevicePrimaryCtxRetain(&again, 0));
	CHECK(again == context);
	OK(cuCtxSynchronize());
	IS(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(stream));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD_v2(device, device, 1));
	CHECK(test_value(test_device(BYTES, 3), BYTES) == 3);
}

static void injected(void)
{
	test_begin(0);
	CUdeviceptr device = test_device(BYTES, 1), other;
	CUevent event = new_event(0);
	IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&other, 1));
	OK(cuMemAlloc_v2(&other, 1));
	OK(cuEventQuery(event));
	IS(CUDA_ERROR_NOT_SUPPORTED, cuMemcpyDtoD_v2(device, device, 1));
	IS(CUDA_ERROR_NOT_SUPPORTED, cuMemcpyDtoD_v2(device, device, 1));
	/* An error of the kind that stays. */
	IS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamQuery(NULL));
	IS(CUDA_ERROR_ILLEGAL_ADDRESS, cuEventQuery(event));
	IS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
	OK(cuDevicePrimaryCtxReset_v2(0));
	test_begin(0);
	OK(cuCtxSynchronize());
	CHECK(test_counter("injected") == 4);
}

static void forked(void)
{
	int status, count;
	test_begin(0);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0)
		_exit(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
					cuInit(0) == CUDA_ERROR_NOT_INITIALIZED
				? 0
				: 1);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	OK(cuDeviceGetCount(&count));
}

static void late_call(void)
{
	int count;
	_exit(cuDeviceGetCount(&count) == CUDA_ERROR_DEINITIALIZED ? 0 : 1);
}

static void ending(void)
{
	CHECK(atexit(late_call) == 0);
	test_begin(0);
	CUdeviceptr device = test_device(BYTES, 1);
	for (int i = 0; i < 1000; i++)
		OK(cuMemsetD8Async(device, 2, BYTES, NULL));
	/* Nobody waits for these. */
	exit(1);
}

static void no_devices(void)
{
	int count = -1;
	IS(CUDA_ERROR_NO_DEVICE, cuInit(0));
	IS(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&count));
}

static void devices(void)
{
	CUuuid uuids[3];
	int can;
	char text[64];
	OK(cuInit(0));
	OK(cuDeviceGetCount(&can));
	CHECK(can == 3);
	for (int i = 0; i < 3; i++)
		OK(cuDeviceGetUuid_v2(&uuids[i], i));
	CHECK(memcmp(&uuids[0], &uuids[1], sizeof(CUuuid)) != 0);
	OK(cuDeviceCanAccessPeer(&can, 0, 1));
	CHECK(can == 0);
	OK(cuDeviceCanAccessPeer(&can, 1, 0));
	CHECK(can == 1);
	OK(cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 1, 0));
	CHECK(can == 1);
	/* The second visible one is number 0 of the machine. */
	OK(cuDeviceGetPCIBusId(text, sizeof(text), 1));
	CHECK(strcmp(text, "0000:01:00.0") == 0);
	OK(cuDeviceGetName(text, sizeof(text), 0));
	CHECK(strstr(text, "not a GPU"));
	OK(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0));
	CHECK(can == 1);
	IS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetAttribute(&can, 1, 3));
	const char *name;
	OK(cuGetErrorName(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, &name));
	CHECK(strcmp(name, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT") == 0);
	IS(CUDA_ERROR_INVALID_VALUE, cuGetErrorString((CUresult)12345, &name));
}

/* Captures: what they record, what they forbid and to whom, and how they end. */

#define BYTES 10000u

static CUstream stream; /* that is captured */
static CUdeviceptr device;
static unsigned char *pinned;

static CUstreamCaptureStatus status_of(CUstream of)
{
	CUstreamCaptureStatus status;
	OK(cuStreamIsCapturing(of, &status));
	return status;
}

static void begin(unsigned flags, CUstreamCaptureMode mode)
{
	test_begin(0);
	OK(cuStreamCreate(&stream, flags));
	device = test_device(BYTES, 1);
	pinned = test_pinned(BYTES, 2);
	CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_NONE);
	OK(cuStreamBeginCapture_v2(stream, mode));
	CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
}

/* The capture was lost, is known to be, and ends in nothing. */
static void is_lost(void)
{
	CUgraph graph = (CUgraph)&graph;
	CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	IS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
		cuMemcpyHtoDAsync_v2(device, pinned, BYTES, stream));
	IS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
	CHECK(!graph);
	CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_NONE);
}

static CUgraphExec end(void)
{
	CUgraph graph;
	CUgraphExec exec;
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	return exec;
}

static void recorded(void)
{
	begin(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(cuMemcpyHtoDAsync_v2(device, pinned, BYTES, stream));
	OK(cuMemsetD8Async(device, 7, 1, stream));
	CUgraphExec exec = end();
	CHECK(test_value(device, BYTES) == 1);
	CHECK(test_counter("h2d_captured") == 1 && test_counter("h2d_copies") == 0);
	for (int i = 3; i < 5; i++) {
		memset(pinned, i, BYTES);
		OK(cuGraphLaunch(exec, stream));
		OK(cuStreamSynchronize(stream));
		CHECK(test_value(device, 1) == 7);
		CHECK(test_value(device + 1, BYTES - 1) == i);
	}
	CHECK(test_counter("h2d_copies") == 2 && test_counter("graph_launches") == 2);
	OK(cuGraphExecDestroy(exec));
}

static void pageable(void)
{
	unsigned char host[BYTES] = {0};
	begin(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_GLOBAL);
	IS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
		cuMemcpyHtoDAsync_v2(device, host, BYTES, stream));
	is_lost();
}

static void legacy_stream(void)
{
	CUstreamCaptureStatus status;
	begin(CU_STREAM_DEFAULT, CU_STREAM_CAPTURE_MODE_RELAXED);
	IS(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamIsCapturing(NULL, &status));
	CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	IS(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemcpyHtoD_v2(device, pinned, BYTES));
	is_lost();
	IS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
		cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

/* With a non-blocking stream nothing is implied, and relaxed nothing is forbidden. */
static void relaxed(void)
{
	CUdeviceptr other;
	begin(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED);
	OK(cuMemcpyHtoD_v2(device, pinned, BYTES));
	OK(cuMemAlloc_v2(&other, BYTES));
	OK(cuMemFree_v2(other));
	CHECK(status_of(NULL) == CU_STREAM_CAPTURE_STATUS_NONE);
	OK(cuGraphExecDestroy(end()));
}

static void unsafe_calls(void)
{
	CUdeviceptr other;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	begin(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	/* A thread that says it knows what it does may. */
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	OK(cuMemAlloc_v2(&other, BYTES));
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	CHECK(mode == CU_STREAM_CAPTURE_MODE_RELAXED);
	CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	IS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc_v2(&other, BYTES));
	is_lost();
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	IS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemcpyHtoD_v2(device, pinned, BYTES));
	is_lost();
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	IS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(stream));
	is_lost();
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	IS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuCtxSynchronize());
	is_lost();
}

static CUresult from_other_thread;

static void *query(void *argument)
{
	CUcontext context;
	CUstreamCaptureMode mode = *(CUstreamCaptureMode *)argument;
	CUevent event;
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuEventCreate(&event, 0));
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
	from_other_thread = cuEventQuery(event);
	return NULL;
}

static void in_other_thread(CUstreamCaptureMode mode)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, query, &mode) == 0);
	pthread_join(thread, NULL);
}

static void other_threads(void)
{
	begin(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_GLOBAL);
	in_other_thread(CU_STREAM_CAPTURE_MODE_RELAXED);
	CHECK(from_other_thread == CUDA_SUCCESS);
	in_other_thread(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	CHECK(from_other_thread == CUDA_SUCCESS);
	CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	in_other_thread(CU_STREAM_CAPTURE_MODE_GLOBAL);
	CHECK(from_other_thread == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	is_lost();
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	in_other_thread(CU_STREAM_CAPTURE_MODE_GLOBAL);
	CHECK(from_other_thread == CUDA_SUCCESS);
	OK(cuGraphExecDestroy(end()));
}

static void joined(void)
{
	CUstream other;
	CUevent fork, join;
	begin(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED);
	OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&fork, 0));
	OK(cuEventCreate(&join, 0));
	OK(cuEventRecord(fork, stream));
	OK(cuStreamWaitEvent(other, fork, 0));
	CHECK(status_of(other) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	OK(cuMemcpyHtoDAsync_v2(device, pinned, BYTES, other));
	OK(cuEventRecord(join, other));
	OK(cuStreamWaitEvent(stream, join, 0));
	CUgraphExec exec = end();
	CHECK(status_of(other) == CU_STREAM_CAPTURE_STATUS_NONE);
	OK(cuGraphLaunch(exec, other));
	CHECK(test_value(device, BYTES) == 2);
	IS(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(join));
	OK(cuGraphExecDestroy(exec));
	/* Once more, without the way back. */
	CUgraph graph;
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuEventRecord(fork, stream));
	OK(cuStreamWaitEvent(other, fork, 0));
	IS(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(other, &graph));
	IS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuEventRecord(fork, stream));
	OK(cuStreamWaitEvent(other, fork, 0));
	IS(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(stream, &graph));
	IS(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(stream, &graph));
}

static void outside(void)
{
	CUevent event;
	CUstream other;
	begin(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED);
	OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&event, 0));
	OK(cuEventRecord(event, other));
	IS(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(stream, event, 0));
	is_lost();
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_RELAXED));
	IS(CUDA_ERROR_ILLEGAL_STATE,
		cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuEventRecord(event, other));
	IS(CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent(stream, event, 0));
	is_lost();
}

static void *end_elsewhere(void *argument)
{
	CUcontext context;
	CUgraph graph;
	(void)argument;
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	IS(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, cuStreamEndCapture(stream, &graph));
	return NULL;
}

static void wrong_thread(void)
{
	pthread_t thread;
	begin(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	CHECK(pthread_create(&thread, NULL, end_elsewhere, NULL) == 0);
	pthread_join(thread, NULL);
	OK(cuGraphExecDestroy(end()));
}

int main(void)
{
	static const struct test tests[] = {
		{"events", SLOW, events},
		{"the order of streams", SLOW, order_of_streams},
		{"threads have streams of their own", SLOW, thread_streams},
		{"host functions, and a stream destroyed before they run", SLOW,
			host_functions},
		{"what streams say of themselves", "", about_streams},
		{"contexts", "DEVICES=2", contexts},
		{"a primary context that is reset", SLOW, reset},
		{"errors on demand, and those that stay",
			"FAIL=cuMemAlloc_v2:2:2,cuMemcpyDtoD_v2:0:801,cuStreamQuery:1:700",
			injected},
		{"a forked child has no driver", "", forked},
		{"calls after the end", SLOW, ending},
		{"a machine without devices", "DEVICES=0", no_devices},
		{"devices and who reaches whom",
			"DEVICES=4 PEERS=0-2 CUDA_VISIBLE_DEVICES=2,0,3", devices},
		{"a capture is recorded, and a launch repeats it", "", recorded},
		{"a copy of pageable memory loses it", "", pageable},
		{"so does the legacy stream next to a blocking one", "", legacy_stream},
		{"a relaxed one next to nothing", "", relaxed},
		{"unsafe calls", "", unsafe_calls},
		{"unsafe calls of other threads", "", other_threads},
		{"streams join a capture and have to be joined back", "", joined},
		{"events of elsewhere", "", outside},
		{"the end belongs to the thread that began", "", wrong_thread},
		{NULL, NULL, NULL},
	};
	return test_main(tests);
}
