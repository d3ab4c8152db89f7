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
	if (!event || flags > 7 ||
		(flags & (CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING)) ==
			CU_EVENT_INTERPROCESS)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&fake_lock);
	CUresult r = fake_current_locked(&context);
	if (r == CUDA_SUCCESS) {
		*event = fake_alloc(sizeof(**event));
		(*event)->magic = MAGIC;
		(*event)->context = context;
		(*event)->flags = flags;
		add_locked(*event);
	}
	pthread_mutex_unlock(&fake_lock);
	return r;
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
	pthread_mutex_lock(&fake_lock);
	CUresult r = fake_current_locked(&context);
	if (r == CUDA_SUCCESS && !is_event(event))
		r = CUDA_ERROR_INVALID_HANDLE;
	if (r == CUDA_SUCCESS) {
		event->destroyed = true;
		if (event->pending == 0)
			free_locked(event);
	}
	pthread_mutex_unlock(&fake_lock);
	return r;
}

CUresult do_cuEventRecord(CUevent event, CUstream stream)
{
	return do_cuEventRecordWithFlags(event, stream, 0);
}

CUresult do_cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
	if (flags > 1)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&fake_lock);
	CUresult r = fake_stream_find_locked(stream, &stream);
	if (r == CUDA_SUCCESS && (!is_event(event) || event->context != stream->context))
		r = CUDA_ERROR_INVALID_HANDLE;
	if (r == CUDA_SUCCESS)
		r = fake_capture_check_legacy_locked(stream);
	if (r == CUDA_SUCCESS && stream->capture) {
		r = fake_capture_record_event_locked(stream, event);
	} else if (r == CUDA_SUCCESS) {
		struct fake_op *op = fake_op_new(FAKE_OP_EVENT);
		op->event = event;
		event->pending++;
		event->capture_id = 0;
		fake_enqueue_locked(stream, op);
		event->point = (struct fake_point){stream, stream->enqueued};
	}
	pthread_mutex_unlock(&fake_lock);
	return r;
}

/* Whether a host may ask for it, and the answer. */
static CUresult check_locked(CUevent event)
{
	CUcontext context;
	CUresult r = fake_current_locked(&context);
	if (r != CUDA_SUCCESS)
		return r;
	if (!is_event(event))
		return CUDA_ERROR_INVALID_HANDLE;
	if (event->capture_id != 0)
		return fake_capture_break_by_event_locked(event);
	r = fake_capture_forbids_locked();
	return r == CUDA_SUCCESS ? event->context->broken : r;
}

CUresult do_cuEventQuery(CUevent event)
{
	pthread_mutex_lock(&fake_lock);
	CUresult r = check_locked(event);
	if (r == CUDA_SUCCESS && !fake_point_reached_locked(event->point))
		r = CUDA_ERROR_NOT_READY;
	pthread_mutex_unlock(&fake_lock);
	return r;
}

CUresult do_cuEventSynchronize(CUevent event)
{
	pthread_mutex_lock(&fake_lock);
	CUresult r = check_locked(event);
	if (r == CUDA_SUCCESS)
		r = fake_wait_point_locked(event->point);
	pthread_mutex_unlock(&fake_lock);
	return r;
}

CUresult do_cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end)
{
	if (!milliseconds)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&fake_lock);
	CUresult r = check_locked(begin);
	if (r == CUDA_SUCCESS)
		r = check_locked(end);
	if (r == CUDA_SUCCESS && (((begin->flags | end->flags) & CU_EVENT_DISABLE_TIMING) ||
					 !begin->point.stream || !end->point.stream))
		r = CUDA_ERROR_INVALID_HANDLE;
	if (r == CUDA_SUCCESS && (!fake_point_reached_locked(begin->point) ||
					 !fake_point_reached_locked(end->point)))
		r = CUDA_ERROR_NOT_READY;
	if (r == CUDA_SUCCESS)
		*milliseconds = (float)((double)(end->time_ns - begin->time_ns) * 1e-6);
	pthread_mutex_unlock(&fake_lock);
	return r;
}

CUresult do_cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
	if (flags > 1)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&fake_lock);
	CUresult r = fake_stream_find_locked(stream, &stream);
	if (r == CUDA_SUCCESS && !is_event(event))
		r = CUDA_ERROR_INVALID_HANDLE;
	if (r == CUDA_SUCCESS)
		r = fake_capture_check_legacy_locked(stream);
	if (r == CUDA_SUCCESS && (stream->capture || event->capture_id != 0)) {
		r = fake_capture_wait_event_locked(stream, event);
	} else if (r == CUDA_SUCCESS) {
		struct fake_op *op = fake_op_new(FAKE_OP_NOTHING);
		if (event->point.stream)
			fake_op_after(op, event->point);
		fake_enqueue_locked(stream, op);
	}
	pthread_mutex_unlock(&fake_lock);
	return r;
}
