/* SPDX-License-Identifier: MIT */
/* Events: points in streams; see driver.h.  Interprocess events are not imitated. */
#include "driver.h"

#include <stdlib.h>

#define MAGIC 0x45564e54u

static CUevent events; /* that the program forgets are the driver's, until the end */

static void add_locked(CUevent event)
{
	event->next = events;
	event->place = &events;
	if (events)
		events->place = &event->next;
	events = event;
}

static void free_locked(CUevent event)
{
	*event->place = event->next;
	if (event->next)
		event->next->place = event->place;
	event->magic = 0;
	free(event);
}

static bool is_event(CUevent event)
{
	return event && event->magic == MAGIC && !event->destroyed;
}

CUresult do_cuEventCreate(CUevent *event, unsigned int flags)
{
	CUcontext context;
	/* An interprocess event has no times. */
	INVALID_IF(!event || flags > 7 ||
		   (flags & (CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING)) ==
			   CU_EVENT_INTERPROCESS);
	TRY(fake_current_locked(&context));
	*event = fake_alloc(sizeof(**event));
	(*event)->magic = MAGIC;
	(*event)->context = context;
	(*event)->flags = flags;
	add_locked(*event);
	return CUDA_SUCCESS;
}

void fake_event_unuse_locked(CUevent event)
{
	/* A later record of the same event is another operation's. */
	if (--event->pending == 0)
		event->time_ns = fake_now_ns();
	if (event->pending == 0 && event->destroyed)
		free_locked(event);
}

CUresult do_cuEventDestroy_v2(CUevent event)
{
	CUcontext context;
	TRY(fake_current_locked(&context));
	if (!is_event(event))
		return CUDA_ERROR_INVALID_HANDLE;
	event->destroyed = true;
	if (event->pending == 0)
		free_locked(event);
	return CUDA_SUCCESS;
}

CUresult do_cuEventRecord(CUevent event, CUstream stream)
{
	TRY(fake_stream_find_locked(stream, &stream));
	if (!is_event(event) || event->context != stream->context)
		return CUDA_ERROR_INVALID_HANDLE;
	TRY(fake_capture_check_legacy_locked(stream));
	if (stream->capture)
		return fake_capture_record_event_locked(stream, event);
	struct fake_op *op = fake_op_new(FAKE_OP_EVENT);
	op->event = event;
	event->pending++;
	event->capture_id = 0;
	fake_enqueue_locked(stream, op);
	event->point = (struct fake_point){stream, stream->enqueued};
	return CUDA_SUCCESS;
}

/* Whether a host may ask for it, and the answer. */
static CUresult check_locked(CUevent event)
{
	CUcontext context;
	TRY(fake_current_locked(&context));
	if (!is_event(event))
		return CUDA_ERROR_INVALID_HANDLE;
	if (event->capture_id != 0)
		return fake_capture_break_by_event_locked(event);
	TRY(fake_capture_forbids_locked());
	return event->context->broken;
}

CUresult do_cuEventQuery(CUevent event)
{
	TRY(check_locked(event));
	if (!fake_point_reached_locked(event->point))
		return CUDA_ERROR_NOT_READY;
	return CUDA_SUCCESS;
}

CUresult do_cuEventSynchronize(CUevent event)
{
	TRY(check_locked(event));
	return fake_wait_point_locked(event->point);
}

CUresult do_cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end)
{
	INVALID_IF(!milliseconds);
	TRY(check_locked(begin));
	TRY(check_locked(end));
	if (((begin->flags | end->flags) & CU_EVENT_DISABLE_TIMING) || !begin->point.stream ||
		!end->point.stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!fake_point_reached_locked(begin->point) || !fake_point_reached_locked(end->point))
		return CUDA_ERROR_NOT_READY;
	*milliseconds = (float)((double)(end->time_ns - begin->time_ns) * 1e-6);
	return CUDA_SUCCESS;
}

CUresult do_cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
	INVALID_IF(flags > 1);
	TRY(fake_stream_find_locked(stream, &stream));
	if (!is_event(event))
		return CUDA_ERROR_INVALID_HANDLE;
	TRY(fake_capture_check_legacy_locked(stream));
	if (stream->capture || event->capture_id != 0)
		return fake_capture_wait_event_locked(stream, event);
	struct fake_op *op = fake_op_new(FAKE_OP_NOTHING);
	if (event->point.stream)
		fake_op_after(op, event->point);
	fake_enqueue_locked(stream, op);
	return CUDA_SUCCESS;
}
