/* SPDX-License-Identifier: MIT */
/*
 * Contexts.  A thread has a stack of current ones.  A context that was destroyed, or a primary
 * one that was reset, stays on the stacks it is on, and every use of it there is an error.
 */
#include "driver.h"

#define MOST_DEPTH 64

static CUcontext contexts; /* all ever made */
static CUcontext primaries[FAKE_MOST_DEVICES];
static unsigned primary_flags[FAKE_MOST_DEVICES];

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
	CUresult r = fake_context_check_locked(context);
	if (r == CUDA_SUCCESS)
		*ret_context = context;
	return r;
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
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	if (!fake_device_is_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&fake_lock);
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
	primary->flags = primary_flags[device];
	primary->retained++;
	pthread_mutex_unlock(&fake_lock);
	*context = primary;
	return CUDA_SUCCESS;
}

CUresult do_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	CUresult r = CUDA_SUCCESS;
	if (!fake_device_is_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&fake_lock);
	CUcontext primary = primaries[device];
	if (!primary || primary->retained == 0)
		r = CUDA_ERROR_INVALID_CONTEXT;
	else if (--primary->retained == 0 && primary->alive)
		destroy_locked(primary);
	pthread_mutex_unlock(&fake_lock);
	return r;
}

/* Whoever else has retained it has still done so, and can use it when it is retained anew. */
CUresult do_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	if (!fake_device_is_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&fake_lock);
	if (primaries[device] && primaries[device]->alive)
		destroy_locked(primaries[device]);
	pthread_mutex_unlock(&fake_lock);
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

CUresult do_cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
	if (!fake_device_is_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&fake_lock);
	primary_flags[device] = flags;
	if (primaries[device])
		primaries[device]->flags = flags;
	pthread_mutex_unlock(&fake_lock);
	return CUDA_SUCCESS;
}

CUresult do_cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	if (!fake_device_is_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&fake_lock);
	*flags = primary_flags[device];
	*active = primaries[device] && primaries[device]->alive;
	pthread_mutex_unlock(&fake_lock);
	return CUDA_SUCCESS;
}

CUresult do_cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	if (!fake_device_is_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (stack.depth == MOST_DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&fake_lock);
	*context = create_locked(device, flags, false);
	pthread_mutex_unlock(&fake_lock);
	stack.of[stack.depth++] = *context;
	return CUDA_SUCCESS;
}

CUresult do_cuCtxCreate_v4(
	CUcontext *context, CUctxCreateParams *params, unsigned int flags, CUdevice device)
{
	/* Execution affinity and graphics interoperability are not imitated. */
	if (params)
		return CUDA_ERROR_NOT_SUPPORTED;
	return do_cuCtxCreate_v2(context, flags, device);
}

CUresult do_cuCtxDestroy_v2(CUcontext context)
{
	pthread_mutex_lock(&fake_lock);
	CUresult r = fake_context_check_locked(context);
	if (r == CUDA_SUCCESS || (context && r == context->broken)) {
		r = CUDA_SUCCESS;
		if (context->primary)
			r = CUDA_ERROR_INVALID_CONTEXT;
		else
			destroy_locked(context);
	}
	pthread_mutex_unlock(&fake_lock);
	/* Popped where it is the calling thread's; others keep it, destroyed. */
	if (r == CUDA_SUCCESS && stack.depth > 0 && stack.of[stack.depth - 1] == context)
		stack.depth--;
	return r;
}

CUresult do_cuCtxGetCurrent(CUcontext *context)
{
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	*context = stack.depth > 0 ? stack.of[stack.depth - 1] : NULL;
	return CUDA_SUCCESS;
}

static CUresult usable(CUcontext context)
{
	pthread_mutex_lock(&fake_lock);
	CUresult r = fake_context_check_locked(context);
	pthread_mutex_unlock(&fake_lock);
	return r;
}

CUresult do_cuCtxSetCurrent(CUcontext context)
{
	CUresult r = context ? usable(context) : CUDA_SUCCESS;
	if (r != CUDA_SUCCESS)
		return r;
	if (stack.depth > 0)
		stack.depth--;
	if (context)
		stack.of[stack.depth++] = context;
	return CUDA_SUCCESS;
}

CUresult do_cuCtxPushCurrent_v2(CUcontext context)
{
	CUresult r = usable(context);
	if (r != CUDA_SUCCESS)
		return r;
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
	CUresult r = fake_context_check_locked(context);
	if (r == CUDA_SUCCESS)
		*ret_context = context;
	return r;
}

CUresult do_cuCtxGetDevice_v2(CUdevice *device, CUcontext context)
{
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&fake_lock);
	CUresult r = named_or_current_locked(context, &context);
	if (r == CUDA_SUCCESS)
		*device = context->device;
	pthread_mutex_unlock(&fake_lock);
	return r;
}

CUresult do_cuCtxGetFlags(unsigned int *flags)
{
	CUcontext context;
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&fake_lock);
	CUresult r = fake_current_locked(&context);
	if (r == CUDA_SUCCESS)
		*flags = context->flags;
	pthread_mutex_unlock(&fake_lock);
	return r;
}

CUresult do_cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&fake_lock);
	CUresult r = named_or_current_locked(context, &context);
	if (r == CUDA_SUCCESS)
		*version = 3020;
	pthread_mutex_unlock(&fake_lock);
	return r;
}

CUresult do_cuCtxSynchronize(void)
{
	return do_cuCtxSynchronize_v2(NULL);
}

CUresult do_cuCtxSynchronize_v2(CUcontext context)
{
	pthread_mutex_lock(&fake_lock);
	CUresult r = named_or_current_locked(context, &context);
	if (r == CUDA_SUCCESS)
		r = fake_capture_check_context_locked(context);
	if (r == CUDA_SUCCESS)
		r = fake_wait_context_locked(context);
	pthread_mutex_unlock(&fake_lock);
	return r;
}

static CUresult change_peer(CUcontext peer, bool enable)
{
	CUcontext context;
	pthread_mutex_lock(&fake_lock);
	CUresult r = fake_current_locked(&context);
	if (r == CUDA_SUCCESS)
		r = fake_context_check_locked(peer);
	if (r == CUDA_SUCCESS) {
		uint64_t bit = UINT64_C(1) << peer->device;
		if (context->device == peer->device)
			r = CUDA_ERROR_INVALID_DEVICE;
		else if (!fake_can_reach(
				 fake_visible(context->device), fake_visible(peer->device)))
			r = CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
		else if (enable && (context->peers & bit))
			r = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
		else if (!enable && !(context->peers & bit))
			r = CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
		else
			context->peers ^= bit;
	}
	pthread_mutex_unlock(&fake_lock);
	return r;
}

CUresult do_cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	return flags != 0 ? CUDA_ERROR_INVALID_VALUE : change_peer(peer, true);
}

CUresult do_cuCtxDisablePeerAccess(CUcontext peer)
{
	return change_peer(peer, false);
}
