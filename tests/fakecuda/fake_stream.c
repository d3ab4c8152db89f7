/* SPDX-License-Identifier: MIT */
/*
 * Streams.  Each has a queue and, from its first operation on, a thread that works it off.
 *
 * The legacy default stream waits for all that was enqueued in the blocking streams of its
 * context before, and they wait for it; every operation carries the points that it waits
 * for, and these were enqueued earlier, so nothing can wait in a circle.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;

/* The default streams of a thread end with it. */
static void thread_ended(void *token)
{
	pthread_mutex_lock(&fake_lock);
	for (CUcontext c = fake_contexts_locked(); c; c = c->next)
		for (CUstream s = c->streams; s; s = s->next)
			if (s->kind == FAKE_STREAM_PER_THREAD && s->thread == (uintptr_t)token)
				s->destroyed = true;
	fake_news_locked();
	pthread_mutex_unlock(&fake_lock);
}

static void make_key(void)
{
	if (pthread_key_create(&thread_key, thread_ended) != 0)
		fake_die("no key for threads");
}

uint64_t fake_this_thread(void)
{
	static _Atomic uintptr_t last;
	pthread_once(&thread_once, make_key);
	uintptr_t token = (uintptr_t)pthread_getspecific(thread_key);
	if (token == 0) {
		token = atomic_fetch_add(&last, 1) + 1;
		pthread_setspecific(thread_key, (void *)token);
	}
	return token;
}

static CUstream create_locked(CUcontext context, enum fake_stream_kind kind, unsigned flags)
{
	CUstream stream = fake_alloc(sizeof(*stream));
	stream->context = context;
	stream->life = context->life;
	stream->kind = kind;
	stream->flags = flags;
	stream->last = &stream->first;
	pthread_cond_init(&stream->news, NULL);
	stream->next = context->streams;
	context->streams = stream;
	return stream;
}

static CUstream default_locked(CUcontext context, enum fake_stream_kind kind)
{
	uint64_t thread = kind == FAKE_STREAM_PER_THREAD ? fake_this_thread() : 0;
	for (CUstream s = context->streams; s; s = s->next)
		if (!s->destroyed && s->kind == kind && s->thread == thread)
			return s;
	CUstream stream = create_locked(context, kind, CU_STREAM_DEFAULT);
	stream->thread = thread;
	return stream;
}

CUresult fake_stream_find_locked(CUstream handle, CUstream *ret_stream)
{
	CUcontext context;
	TRY(fake_current_locked(&context));
	if (handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
		*ret_stream = default_locked(context, handle == CU_STREAM_LEGACY
							      ? FAKE_STREAM_LEGACY
							      : FAKE_STREAM_PER_THREAD);
		return CUDA_SUCCESS;
	}
	for (CUcontext c = fake_contexts_locked(); c; c = c->next) {
		for (CUstream s = c->streams; s; s = s->next) {
			if (s != handle || s->destroyed || s->kind != FAKE_STREAM_CREATED)
				continue;
			TRY(fake_context_check_locked(c));
			*ret_stream = s;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_HANDLE;
}

bool fake_stream_is_blocking(const struct CUstream_st *stream)
{
	return stream->kind != FAKE_STREAM_LEGACY && !(stream->flags & CU_STREAM_NON_BLOCKING);
}

bool fake_point_reached_locked(struct fake_point point)
{
	return !point.stream || point.stream->done >= point.sequence;
}

static bool is_ready_locked(const struct fake_op *op)
{
	for (size_t i = 0; i < op->after_count; i++)
		if (!fake_point_reached_locked(op->after[i]))
			return false;
	return true;
}

bool fake_stream_can_go_on_locked(const struct CUstream_st *stream)
{
	return stream->first && is_ready_locked(stream->first);
}

static struct fake_op *take_locked(CUstream stream)
{
	struct fake_op *op = stream->first;
	stream->first = op->next;
	if (!stream->first)
		stream->last = &stream->first;
	return op;
}

static void *work(void *argument)
{
	CUstream stream = argument;
	pthread_mutex_lock(&fake_lock);
	while (!fake_is_ending_locked() && (stream->first || !stream->destroyed)) {
		if (!fake_stream_can_go_on_locked(stream)) {
			fake_clock_idle_locked(stream);
			continue;
		}
		struct fake_op *op = take_locked(stream);
		stream->executing = true;
		pthread_mutex_unlock(&fake_lock);
		fake_op_run(op, stream);
		pthread_mutex_lock(&fake_lock);
		stream->done++;
		stream->executing = false;
		fake_op_free_locked(op);
		fake_news_locked();
	}
	pthread_mutex_unlock(&fake_lock);
	return NULL;
}

static void start(CUstream stream)
{
	pthread_t thread;
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attributes, work, stream) != 0)
		fake_die("no thread for a stream");
	pthread_attr_destroy(&attributes);
	stream->running = true;
}

void fake_enqueue_locked(CUstream stream, struct fake_op *op)
{
	for (CUstream s = stream->context->streams; s; s = s->next) {
		bool waits = stream->kind == FAKE_STREAM_LEGACY
				     ? fake_stream_is_blocking(s)
				     : fake_stream_is_blocking(stream) &&
					       s->kind == FAKE_STREAM_LEGACY;
		if (waits && s->done < s->enqueued)
			fake_op_after(op, (struct fake_point){s, s->enqueued});
	}
	stream->enqueued++;
	*stream->last = op;
	stream->last = &op->next;
	if (!stream->running)
		start(stream);
	fake_news_locked();
}

CUresult fake_wait_point_locked(struct fake_point point)
{
	while (!fake_point_reached_locked(point)) {
		if (fake_is_ending_locked())
			return CUDA_ERROR_DEINITIALIZED;
		if (point.stream->context->broken != CUDA_SUCCESS)
			return point.stream->context->broken;
		fake_clock_wait_locked(point);
	}
	return point.stream ? point.stream->context->broken : CUDA_SUCCESS;
}

CUresult fake_wait_stream_locked(CUstream stream)
{
	/* The legacy stream has only been waited for when the others have been. */
	if (stream->kind == FAKE_STREAM_LEGACY)
		fake_enqueue_locked(stream, fake_op_new(FAKE_OP_NOTHING));
	return fake_wait_point_locked((struct fake_point){stream, stream->enqueued});
}

/* Streams that are made while it waits come to the head of the list: all work that was
 * enqueued at the call is behind it. */
CUresult fake_wait_context_locked(CUcontext context)
{
	for (CUstream s = context->streams; s; s = s->next)
		TRY(fake_wait_point_locked((struct fake_point){s, s->enqueued}));
	return CUDA_SUCCESS;
}

void fake_stream_drop_context_locked(CUcontext context)
{
	for (CUstream s = context->streams; s; s = s->next)
		s->destroyed = true;
	fake_news_locked();
}

CUresult do_cuStreamCreate(CUstream *stream, unsigned int flags)
{
	return do_cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult do_cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
	CUcontext context;
	INVALID_IF(!stream || flags > CU_STREAM_NON_BLOCKING);
	TRY(fake_current_locked(&context));
	*stream = create_locked(context, FAKE_STREAM_CREATED, flags);
	(*stream)->priority = priority;
	return CUDA_SUCCESS;
}

/* What is enqueued still runs. */
CUresult do_cuStreamDestroy_v2(CUstream stream)
{
	CUstream found;
	TRY(fake_stream_find_locked(stream, &found));
	if (found->kind != FAKE_STREAM_CREATED)
		return CUDA_ERROR_INVALID_HANDLE;
	(void)(found->capture && fake_capture_check_stream_locked(found));
	found->destroyed = true;
	fake_news_locked();
	return CUDA_SUCCESS;
}

CUresult do_cuStreamSynchronize(CUstream stream)
{
	TRY(fake_stream_find_locked(stream, &stream));
	TRY(fake_capture_check_stream_locked(stream));
	return fake_wait_stream_locked(stream);
}

CUresult do_cuStreamQuery(CUstream stream)
{
	TRY(fake_stream_find_locked(stream, &stream));
	TRY(fake_capture_check_stream_locked(stream));
	for (CUstream s = stream->context->streams; s; s = s->next)
		if ((s == stream || (stream->kind == FAKE_STREAM_LEGACY &&
					    fake_stream_is_blocking(s))) &&
			s->done < s->enqueued)
			return CUDA_ERROR_NOT_READY;
	return CUDA_SUCCESS;
}

CUresult do_cuStreamGetCtx(CUstream stream, CUcontext *context)
{
	INVALID_IF(!context);
	TRY(fake_stream_find_locked(stream, &stream));
	*context = stream->context;
	return CUDA_SUCCESS;
}

CUresult do_cuStreamGetCtx_v2(CUstream stream, CUcontext *context, CUgreenCtx *green)
{
	TRY(do_cuStreamGetCtx(stream, context));
	if (green)
		*green = NULL;
	return CUDA_SUCCESS;
}

CUresult do_cuStreamGetFlags(CUstream stream, unsigned int *flags)
{
	INVALID_IF(!flags);
	TRY(fake_stream_find_locked(stream, &stream));
	*flags = stream->flags;
	return CUDA_SUCCESS;
}

CUresult do_cuStreamGetPriority(CUstream stream, int *priority)
{
	INVALID_IF(!priority);
	TRY(fake_stream_find_locked(stream, &stream));
	*priority = stream->priority;
	return CUDA_SUCCESS;
}

CUresult do_cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
	INVALID_IF(!function);
	TRY(fake_stream_find_locked(stream, &stream));
	struct fake_op *op = fake_op_new(FAKE_OP_CALL);
	op->function = function;
	op->data = data;
	return fake_submit_locked(stream, op);
}

/* Events: points in streams; see driver.h.  Interprocess events are not imitated. */

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
	if (!fake_point_reached_locked(event->point) &&
		fake_number(FAKE_LIES) != FAKE_LIE_EVENT)
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
	if (event->point.stream && fake_number(FAKE_LIES) != FAKE_LIE_ORDER)
		fake_op_after(op, event->point);
	fake_enqueue_locked(stream, op);
	return CUDA_SUCCESS;
}

/* Operations of streams: how long they take and what they do; see driver.h. */

struct fake_op *fake_op_new(enum fake_op_kind kind)
{
	struct fake_op *op = fake_alloc(sizeof(*op));
	op->kind = kind;
	return op;
}

void fake_op_after(struct fake_op *op, struct fake_point point)
{
	size_t bytes = (op->after_count + 1) * sizeof(*op->after);
	struct fake_point *after = realloc(op->after, bytes);
	if (!after)
		fake_die("no memory");
	after[op->after_count++] = point;
	op->after = after;
}

void fake_op_free_locked(struct fake_op *op)
{
	fake_memory_release_locked(op->dst.memory);
	fake_memory_release_locked(op->src.memory);
	if (op->event)
		fake_event_unuse_locked(op->event);
	free(op->staging);
	free(op->after);
	free(op);
}

/* Of all streams, so that the delays of a run with one seed come from one sequence. */
static int64_t jitter_us(void)
{
	static _Atomic uint64_t drawn;
	int64_t most = fake_number(FAKE_JITTER_US);
	if (most == 0)
		return 0;
	/* splitmix64 */
	uint64_t x = (uint64_t)fake_number(FAKE_JITTER_SEED) +
		     (atomic_fetch_add(&drawn, 1) + 1) * UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (int64_t)((x ^ (x >> 31)) % (uint64_t)(most + 1));
}

static int64_t transfer_us(const struct fake_op *op)
{
	static const enum fake_number limits[] = {
		[FAKE_H2D] = FAKE_BANDWIDTH,
		[FAKE_D2H] = FAKE_BANDWIDTH,
		[FAKE_D2D] = FAKE_DEVICE_BANDWIDTH,
		[FAKE_PEER] = FAKE_PEER_BANDWIDTH,
		[FAKE_H2H] = FAKE_DEVICE_BANDWIDTH,
	};
	if (op->kind != FAKE_OP_COPY)
		return 0;
	int64_t limit = fake_number(limits[op->direction]);
	if (limit == 0)
		return 0;
	return (int64_t)((double)op->width * (double)op->height * 1e6 / (double)limit);
}

/* How long until a transfer that begins now has ended. */
static int64_t under_way_us(const struct fake_op *op)
{
	int64_t us = transfer_us(op), now = fake_now_ns() / 1000;
	if (us == 0 || op->direction != FAKE_H2D || !fake_number(FAKE_LINK_SHARED))
		return us;
	return (int64_t)fake_reserve(FAKE_LINK_FREE_US, (uint64_t)now, (uint64_t)us) - now;
}

static bool has_vanished(const struct fake_memory *memory)
{
	return fake_number(FAKE_VANISHES) && memory && memory->kind == FAKE_MEMORY_IMPORTED &&
	       fake_start_of(memory->owner) != memory->owner_start;
}

/* Whether what it reads and writes is still there; if not, that is what a real device calls
 * an illegal address, and the context does not survive it. */
static bool is_sound(const struct fake_op *op, CUstream stream)
{
	CUcontext context = stream->context;
	pthread_mutex_lock(&fake_lock);
	bool gone = (op->dst.memory && op->dst.memory->gone) ||
		    (op->src.memory && op->src.memory->gone);
	if (has_vanished(op->dst.memory) || has_vanished(op->src.memory)) {
		fake_count(FAKE_VANISHED_USES, 1);
		gone |= fake_number(FAKE_VANISHES) == 1;
	}
	/* What a reset found under way after an error is no part of the next life. */
	bool usable = context->alive && context->life == stream->life &&
		      context->broken == CUDA_SUCCESS;
	if (gone && usable) {
		fake_count(FAKE_LATE_USES, 1);
		fake_context_break_locked(context, CUDA_ERROR_ILLEGAL_ADDRESS);
	}
	pthread_mutex_unlock(&fake_lock);
	return usable && !gone;
}

/* Of FAKE_LIE_BYTE: bytes that a copy has to have more than. */
#define WRONG_FROM ((size_t)16 << 20)

static void run_copy(struct fake_op *op)
{
	for (size_t row = 0; row < op->height; row++)
		memcpy(op->dst.bytes + row * op->dst.pitch, op->src.bytes + row * op->src.pitch,
			op->width);
	struct fake_memory *from = op->src.memory;
	if (fake_number(FAKE_LIES) == FAKE_LIE_BYTE && op->direction == FAKE_H2D &&
		op->width > WRONG_FROM)
		op->dst.bytes[op->width - 1] ^= 1;
	for (size_t row = 0; row < op->height && has_vanished(from); row++)
		memset(op->dst.bytes + row * op->dst.pitch, FAKE_POISON, op->width);
	if (from && from->kind == FAKE_MEMORY_IMPORTED && atomic_load(&from->shared->freed))
		fake_count(FAKE_POISONED_READS, 1);
}

void fake_op_run(struct fake_op *op, CUstream stream)
{
	/* A mark in a stream costs a device next to nothing. */
	if (op->kind == FAKE_OP_COPY || op->kind == FAKE_OP_FILL)
		fake_work_us(
			stream, fake_number(FAKE_DELAY_US) + jitter_us() + under_way_us(op));
	if (!is_sound(op, stream))
		return;
	switch (op->kind) {
	case FAKE_OP_COPY:
		run_copy(op);
		break;
	case FAKE_OP_FILL:
		memset(op->dst.bytes, op->fill, op->width);
		break;
	case FAKE_OP_CALL:
		op->function(op->data);
		break;
	case FAKE_OP_EVENT:
	case FAKE_OP_NOTHING:
		break;
	}
}
