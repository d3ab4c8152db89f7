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
