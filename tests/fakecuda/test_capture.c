/* SPDX-License-Identifier: MIT */
/* Captures: what they record, what they forbid and to whom, and how they end. */
#include "test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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
