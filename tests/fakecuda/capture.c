/* SPDX-License-Identifier: MIT */
/*
 * Stream capture: operations of a capturing stream are recorded, not run.  Graphs, as far as
 * captures make them: a launch enqueues what was recorded once more.
 *
 *	NONE --cuStreamBeginCapture--> ACTIVE --something forbidden--> INVALIDATED
 *	ACTIVE or INVALIDATED --cuStreamEndCapture--> NONE (a graph, or an error)
 *
 * A stream that waits for an event of a capture joins it.  It has to be joined back, by a
 * wait for an event recorded behind its last operation, before the capture may end.  The
 * nodes keep the order in which they were recorded: more than the graph would have to keep,
 * never less.
 */
#include "driver.h"

#include <stdlib.h>

#define GRAPH_MAGIC 0x47524148u
#define EXEC_MAGIC  0x45584543u

/* Recorded operations, shared by a graph and what was instantiated from it. */
struct fake_nodes {
	unsigned refs;
	struct fake_op *first, **last;
};

struct CUgraph_st {
	unsigned magic;
	struct fake_nodes *nodes;
};

struct CUgraphExec_st {
	unsigned magic;
	struct fake_nodes *nodes;
};

static struct fake_nodes *nodes_new(void)
{
	struct fake_nodes *nodes = fake_alloc(sizeof(*nodes));
	nodes->refs = 1;
	nodes->last = &nodes->first;
	return nodes;
}

static void nodes_add(struct fake_nodes *nodes, struct fake_op *op)
{
	*nodes->last = op;
	nodes->last = &op->next;
}

static void nodes_release_locked(struct fake_nodes *nodes)
{
	struct fake_op *next;
	if (--nodes->refs > 0)
		return;
	for (struct fake_op *op = nodes->first; op; op = next) {
		next = op->next;
		fake_op_free_locked(op);
	}
	free(nodes);
}

/* Takes the reference over. */
static CUgraph graph_new(struct fake_nodes *nodes)
{
	CUgraph graph = fake_alloc(sizeof(*graph));
	graph->magic = GRAPH_MAGIC;
	graph->nodes = nodes;
	return graph;
}

struct fake_capture {
	struct fake_capture *next;
	uint64_t id, thread;
	CUstream origin;
	CUstreamCaptureMode mode;
	bool broken;
	struct fake_nodes *nodes;
};

static struct fake_capture *captures;
static uint64_t last_id;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static struct fake_capture *find_locked(uint64_t id)
{
	struct fake_capture *capture = captures;
	while (capture && capture->id != id)
		capture = capture->next;
	return capture;
}

/* The capture is lost; *capture may be NULL.  Returns @error, or that it was lost before. */
static CUresult break_capture(struct fake_capture *capture, CUresult error)
{
	if (capture && capture->broken)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (capture)
		capture->broken = true;
	return error;
}

static bool forbids(const struct fake_capture *capture)
{
	if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (capture->thread == fake_this_thread())
		return capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
	return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
	       capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult fake_capture_forbids_locked(void)
{
	CUresult r = CUDA_SUCCESS;
	for (struct fake_capture *c = captures; c; c = c->next) {
		if (forbids(c)) {
			c->broken = true;
			r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	return r;
}

/* The capture that work in the legacy stream would have to wait for. */
static struct fake_capture *implicit_locked(CUstream stream)
{
	if (stream->kind != FAKE_STREAM_LEGACY)
		return NULL;
	for (CUstream s = stream->context->streams; s; s = s->next)
		if (s->capture && fake_stream_is_blocking(s))
			return s->capture;
	return NULL;
}

CUresult fake_capture_check_legacy_locked(CUstream stream)
{
	struct fake_capture *capture = implicit_locked(stream);
	if (!capture)
		return CUDA_SUCCESS;
	capture->broken = true;
	return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

CUresult fake_capture_check_stream_locked(CUstream stream)
{
	if (stream->capture)
		return break_capture(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	return fake_capture_check_legacy_locked(stream);
}

CUresult fake_capture_check_context_locked(CUcontext context)
{
	CUresult r = CUDA_SUCCESS;
	for (CUstream s = context->streams; s; s = s->next) {
		if (s->capture) {
			s->capture->broken = true;
			r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	return r;
}

/* What a graph cannot repeat: a copy of memory that need not be there any more. */
static bool is_repeatable(const struct fake_op *op, bool now)
{
	if (op->kind != FAKE_OP_COPY)
		return true;
	return !now && !fake_is_pageable(&op->src) && !fake_is_pageable(&op->dst) &&
	       op->direction != FAKE_H2H;
}

CUresult fake_capture_op_locked(CUstream stream, struct fake_op *op, bool now)
{
	CUresult r = CUDA_SUCCESS;
	if (stream->capture->broken)
		r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!is_repeatable(op, now))
		r = break_capture(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	if (r != CUDA_SUCCESS) {
		fake_op_free_locked(op);
		return r;
	}
	if (op->kind == FAKE_OP_COPY && op->direction == FAKE_H2D)
		fake_count(FAKE_H2D_CAPTURED, 1);
	nodes_add(stream->capture->nodes, op);
	stream->captured++;
	stream->joined = false;
	return CUDA_SUCCESS;
}

CUresult fake_submit_locked(CUstream stream, struct fake_op *op)
{
	CUresult r = fake_capture_check_legacy_locked(stream);
	if (r == CUDA_SUCCESS && stream->capture)
		return fake_capture_op_locked(stream, op, false);
	if (r != CUDA_SUCCESS) {
		fake_op_free_locked(op);
		return r;
	}
	fake_count_copy(op);
	fake_enqueue_locked(stream, op);
	return CUDA_SUCCESS;
}

CUresult fake_capture_record_event_locked(CUstream stream, CUevent event)
{
	if (stream->capture->broken)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	event->capture_id = stream->capture->id;
	event->point = (struct fake_point){stream, stream->captured};
	return CUDA_SUCCESS;
}

static void join(CUstream stream, struct fake_capture *capture)
{
	if (stream->capture)
		return;
	stream->capture = capture;
	stream->captured = 0;
	stream->joined = false;
}

CUresult fake_capture_wait_event_locked(CUstream stream, CUevent event)
{
	struct fake_capture *capture = find_locked(event->capture_id);
	/* A wait for what is outside, or for what never comes. */
	if (event->capture_id == 0)
		return event->point.stream ? break_capture(stream->capture,
						     CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
					   : CUDA_SUCCESS;
	if (!capture)
		return break_capture(stream->capture, CUDA_ERROR_CAPTURED_EVENT);
	if (capture->broken)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (stream->capture && stream->capture != capture) {
		stream->capture->broken = true;
		return break_capture(capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
	}
	join(stream, capture);
	CUstream other = event->point.stream;
	if (other != stream && other->capture == capture &&
		event->point.sequence == other->captured)
		other->joined = true;
	return CUDA_SUCCESS;
}

CUresult fake_capture_break_by_event_locked(CUevent event)
{
	struct fake_capture *capture = find_locked(event->capture_id);
	if (capture)
		capture->broken = true;
	return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult do_cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
	INVALID_IF(!status);
	TRY(fake_stream_find_locked(stream, &stream));
	/* The question alone breaks nothing. */
	if (implicit_locked(stream))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	*status = !stream->capture          ? CU_STREAM_CAPTURE_STATUS_NONE
		  : stream->capture->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
					    : CU_STREAM_CAPTURE_STATUS_ACTIVE;
	return CUDA_SUCCESS;
}

static void begin_locked(CUstream stream, CUstreamCaptureMode mode)
{
	struct fake_capture *capture = fake_alloc(sizeof(*capture));
	capture->id = ++last_id;
	capture->thread = fake_this_thread();
	capture->origin = stream;
	capture->mode = mode;
	capture->nodes = nodes_new();
	capture->next = captures;
	captures = capture;
	join(stream, capture);
	stream->joined = true;
}

CUresult do_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	INVALID_IF(mode > CU_STREAM_CAPTURE_MODE_RELAXED);
	TRY(fake_stream_find_locked(stream, &stream));
	if (stream->kind == FAKE_STREAM_LEGACY)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (stream->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	begin_locked(stream, mode);
	return CUDA_SUCCESS;
}

/* Streams leave the capture; the result tells whether all had been joined. */
static bool leave_locked(struct fake_capture *capture)
{
	bool joined = true;
	for (CUcontext c = fake_contexts_locked(); c; c = c->next) {
		for (CUstream s = c->streams; s; s = s->next) {
			if (s->capture != capture)
				continue;
			if (s != capture->origin && !s->joined)
				joined = false;
			s->capture = NULL;
		}
	}
	return joined;
}

static CUresult end_locked(struct fake_capture *capture, CUgraph *ret_graph)
{
	struct fake_capture **place = &captures;
	while (*place != capture)
		place = &(*place)->next;
	*place = capture->next;
	bool joined = leave_locked(capture);
	CUresult r = CUDA_SUCCESS;
	if (capture->broken)
		r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!joined)
		r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	if (r == CUDA_SUCCESS)
		*ret_graph = graph_new(capture->nodes);
	else
		nodes_release_locked(capture->nodes);
	free(capture);
	return r;
}

CUresult do_cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	INVALID_IF(!graph);
	*graph = NULL;
	TRY(fake_stream_find_locked(stream, &stream));
	struct fake_capture *capture = stream->capture;
	if (!capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (capture->origin != stream)
		return break_capture(capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
		capture->thread != fake_this_thread())
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	return end_locked(capture, graph);
}

CUresult do_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	INVALID_IF(!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED);
	CUstreamCaptureMode before = thread_mode;
	thread_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

CUresult do_cuGraphDestroy(CUgraph graph)
{
	INVALID_IF(!graph || graph->magic != GRAPH_MAGIC);
	nodes_release_locked(graph->nodes);
	graph->magic = 0;
	free(graph);
	return CUDA_SUCCESS;
}

CUresult do_cuGraphInstantiateWithFlags(
	CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	INVALID_IF(!exec || !graph || graph->magic != GRAPH_MAGIC || flags > 15);
	*exec = fake_alloc(sizeof(**exec));
	(*exec)->magic = EXEC_MAGIC;
	(*exec)->nodes = graph->nodes;
	graph->nodes->refs++;
	return CUDA_SUCCESS;
}

CUresult do_cuGraphExecDestroy(CUgraphExec exec)
{
	INVALID_IF(!exec || exec->magic != EXEC_MAGIC);
	nodes_release_locked(exec->nodes);
	exec->magic = 0;
	free(exec);
	return CUDA_SUCCESS;
}

/* A recorded operation has no event, no staging and waits for nothing. */
static struct fake_op *again(const struct fake_op *node)
{
	struct fake_op *op = fake_op_new(node->kind);
	*op = *node;
	op->next = NULL;
	if (op->dst.memory)
		op->dst.memory->refs++;
	if (op->src.memory)
		op->src.memory->refs++;
	return op;
}

CUresult do_cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	INVALID_IF(!exec || exec->magic != EXEC_MAGIC);
	TRY(fake_stream_find_locked(stream, &stream));
	for (struct fake_op *node = exec->nodes->first; node; node = node->next)
		TRY(fake_submit_locked(stream, again(node)));
	fake_count(FAKE_GRAPH_LAUNCHES, 1);
	return CUDA_SUCCESS;
}
