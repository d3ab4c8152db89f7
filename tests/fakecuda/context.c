/* SPDX-License-Identifier: MIT */
/*
 * Contexts.  A thread has a stack of current ones.  A context that was destroyed, or a primary
 * one that was reset, stays on the stacks it is on, and every use of it there is an error.
 */
#include "driver.h"

#define MOST_DEPTH 64

static CUcontext contexts; /* all ever made */
static CUcontext primaries[FAKE_MOST_DEVICES];

static _Thread_local struct {
	CUcontext of[MOST_DEPTH];
	int depth;
} stack;

CUcontext fake_contexts_locked(void)
{
	return contexts;
}

CUresult fake_context_check_locked(CUcontext context)
{
	for (CUcontext c = contexts; c; c = c->next) {
		if (c != context)
			continue;
		if (!c->alive)
			return CUDA_ERROR_CONTEXT_IS_DESTROYED;
		return c->broken;
	}
	return CUDA_ERROR_INVALID_CONTEXT;
}

CUresult fake_current_locked(CUcontext *ret_context)
{
	CUcontext context = stack.depth > 0 ? stack.of[stack.depth - 1] : NULL;
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	TRY(fake_context_check_locked(context));
	*ret_context = context;
	return CUDA_SUCCESS;
}

void fake_context_break_locked(CUcontext context, CUresult error)
{
	if (context->broken == CUDA_SUCCESS)
		context->broken = error;
	fake_news_locked();
}

static CUcontext create_locked(CUdevice device, unsigned flags, bool primary)
{
	CUcontext context = fake_alloc(sizeof(*context));
	context->device = device;
	context->flags = flags;
	context->primary = primary;
	context->alive = true;
	context->next = contexts;
	contexts = context;
	return context;
}

/* What was under way is finished first, as long as the device is not broken. */
static void destroy_locked(CUcontext context)
{
	(void)fake_wait_context_locked(context);
	context->alive = false;
	fake_stream_drop_context_locked(context);
	fake_memory_drop_context_locked(context);
}

CUresult do_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	INVALID_IF(!context);
	WANT_DEVICE(device);
	CUcontext primary = primaries[device];
	if (!primary)
		primary = primaries[device] = create_locked(device, 0, true);
	if (!primary->alive) {
		/* The same handle, a new life. */
		primary->broken = CUDA_SUCCESS;
		primary->peers = 0;
		primary->alive = true;
		primary->life++;
	}
	primary->retained++;
	*context = primary;
	return CUDA_SUCCESS;
}

CUresult do_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	WANT_DEVICE(device);
	CUcontext primary = primaries[device];
	if (!primary || primary->retained == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (--primary->retained == 0 && primary->alive)
		destroy_locked(primary);
	return CUDA_SUCCESS;
}

/* Whoever else has retained it has still done so, and can use it when it is retained anew. */
CUresult do_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	WANT_DEVICE(device);
	if (primaries[device] && primaries[device]->alive)
		destroy_locked(primaries[device]);
	return CUDA_SUCCESS;
}

/* Of CUDA 7; the same, as far as this goes. */
CUresult do_cuDevicePrimaryCtxRelease(CUdevice device)
{
	return do_cuDevicePrimaryCtxRelease_v2(device);
}

CUresult do_cuDevicePrimaryCtxReset(CUdevice device)
{
	return do_cuDevicePrimaryCtxReset_v2(device);
}

CUresult do_cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
	INVALID_IF(!flags || !active);
	WANT_DEVICE(device);
	*flags = primaries[device] ? primaries[device]->flags : 0;
	*active = primaries[device] && primaries[device]->alive;
	return CUDA_SUCCESS;
}

CUresult do_cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
	INVALID_IF(!context);
	WANT_DEVICE(device);
	if (stack.depth == MOST_DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*context = create_locked(device, flags, false);
	stack.of[stack.depth++] = *context;
	return CUDA_SUCCESS;
}

CUresult do_cuCtxDestroy_v2(CUcontext context)
{
	CUresult r = fake_context_check_locked(context);
	if (r != CUDA_SUCCESS && (!context || r != context->broken))
		return r;
	if (context->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	destroy_locked(context);
	/* Popped where it is the calling thread's; others keep it, destroyed. */
	if (stack.depth > 0 && stack.of[stack.depth - 1] == context)
		stack.depth--;
	return CUDA_SUCCESS;
}

CUresult do_cuCtxGetCurrent(CUcontext *context)
{
	INVALID_IF(!context);
	*context = stack.depth > 0 ? stack.of[stack.depth - 1] : NULL;
	return CUDA_SUCCESS;
}

CUresult do_cuCtxSetCurrent(CUcontext context)
{
	if (context)
		TRY(fake_context_check_locked(context));
	if (stack.depth > 0)
		stack.depth--;
	if (context)
		stack.of[stack.depth++] = context;
	return CUDA_SUCCESS;
}

CUresult do_cuCtxPushCurrent_v2(CUcontext context)
{
	TRY(fake_context_check_locked(context));
	if (stack.depth == MOST_DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stack.of[stack.depth++] = context;
	return CUDA_SUCCESS;
}

CUresult do_cuCtxPopCurrent_v2(CUcontext *context)
{
	if (stack.depth == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	CUcontext top = stack.of[--stack.depth];
	if (context)
		*context = top;
	return CUDA_SUCCESS;
}

CUresult do_cuCtxGetDevice(CUdevice *device)
{
	return do_cuCtxGetDevice_v2(device, NULL);
}

/* @context, or with NULL the current one, that is alive; *ret_context is set only then. */
static CUresult named_or_current_locked(CUcontext context, CUcontext *ret_context)
{
	if (!context)
		return fake_current_locked(ret_context);
	TRY(fake_context_check_locked(context));
	*ret_context = context;
	return CUDA_SUCCESS;
}

CUresult do_cuCtxGetDevice_v2(CUdevice *device, CUcontext context)
{
	INVALID_IF(!device);
	TRY(named_or_current_locked(context, &context));
	*device = context->device;
	return CUDA_SUCCESS;
}

CUresult do_cuCtxSynchronize(void)
{
	return do_cuCtxSynchronize_v2(NULL);
}

CUresult do_cuCtxSynchronize_v2(CUcontext context)
{
	TRY(named_or_current_locked(context, &context));
	TRY(fake_capture_check_context_locked(context));
	return fake_wait_context_locked(context);
}

CUresult do_cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	CUcontext context;
	INVALID_IF(flags != 0);
	TRY(fake_current_locked(&context));
	TRY(fake_context_check_locked(peer));
	uint64_t bit = UINT64_C(1) << peer->device;
	if (context->device == peer->device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!fake_can_reach(fake_visible(context->device), fake_visible(peer->device)))
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	if (context->peers & bit)
		return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	context->peers |= bit;
	return CUDA_SUCCESS;
}
