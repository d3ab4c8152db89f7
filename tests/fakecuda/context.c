/* SPDX-License-Identifier: MIT */
/*
 * The devices that the settings describe, and their contexts.  A thread has a stack of current
 * ones.  A context that was destroyed, or a primary one that was reset, stays on the stacks it
 * is on, and every use of it there is an error.
 */
#include "driver.h"

#include <stdio.h>
#include <string.h>

/* ---- devices ----------------------------------------------------------------------------- */

bool fake_device_is_valid(CUdevice device)
{
	return device >= 0 && device < fake_visible_count();
}

void fake_uuid_of(int physical, CUuuid *ret_uuid)
{
	/* Slices belong to one GPU. */
	int gpu = fake_instance(physical) != 0 ? 0 : physical;
	memset(ret_uuid, 0, sizeof(*ret_uuid));
	memcpy(ret_uuid->bytes, "FAKECUDA-GPU", 12);
	ret_uuid->bytes[12] = (char)gpu;
	ret_uuid->bytes[15] = (char)fake_instance(physical);
}

CUresult do_cuDeviceGetCount(int *count)
{
	INVALID_IF(!count);
	*count = fake_visible_count();
	return CUDA_SUCCESS;
}

CUresult do_cuDeviceGet(CUdevice *device, int ordinal)
{
	INVALID_IF(!device);
	WANT_DEVICE(ordinal);
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult do_cuDeviceGetName(char *name, int size, CUdevice device)
{
	INVALID_IF(!name || size <= 0);
	WANT_DEVICE(device);
	snprintf(name, (size_t)size, "Software stand-in, not a GPU (%d)", fake_visible(device));
	return CUDA_SUCCESS;
}

/* The first version gives a slice the name of its GPU, the second one its own. */
CUresult do_cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	TRY(do_cuDeviceGetUuid_v2(uuid, device));
	uuid->bytes[15] = 0;
	return CUDA_SUCCESS;
}

CUresult do_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	INVALID_IF(!uuid);
	WANT_DEVICE(device);
	fake_uuid_of(fake_visible(device), uuid);
	return CUDA_SUCCESS;
}

static int attribute_of(CUdevice_attribute attribute, int physical)
{
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		return 1024;
	case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
		return 32;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
	case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
	case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
	case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
	case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
	case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
		return 1;
	case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
		return fake_number(FAKE_REGISTERED_APART) == 0;
	case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED:
		return fake_number(FAKE_NO_READ_ONLY_REGISTER) == 0;
	case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
		return fake_number(FAKE_HOST_PAGE_TABLES) != 0 ||
		       fake_number(FAKE_PAGEABLE_LATE) != 0;
	case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
		return fake_number(FAKE_HOST_PAGE_TABLES) != 0;
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
		return physical + 1;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		return 9;
	/* No events of other processes; there are no such calls here. */
	case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
	default:
		return 0;
	}
}

CUresult do_cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	INVALID_IF(!value || (int)attribute <= 0);
	WANT_DEVICE(device);
	*value = attribute_of(attribute, fake_visible(device));
	return CUDA_SUCCESS;
}

CUresult do_cuDeviceGetPCIBusId(char *text, int size, CUdevice device)
{
	INVALID_IF(!text || size <= 0);
	WANT_DEVICE(device);
	snprintf(text, (size_t)size, "0000:%02X:00.0", (unsigned)fake_visible(device) + 1);
	return CUDA_SUCCESS;
}

CUresult do_cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
	INVALID_IF(!can);
	WANT_DEVICE(device);
	WANT_DEVICE(peer);
	*can = device != peer && fake_can_reach(fake_visible(device), fake_visible(peer));
	return CUDA_SUCCESS;
}

CUresult do_cuDeviceGetP2PAttribute(
	int *value, CUdevice_P2PAttribute attribute, CUdevice device, CUdevice peer)
{
	int can;
	INVALID_IF(!value || attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
		   attribute > CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED);
	TRY(do_cuDeviceCanAccessPeer(&can, device, peer));
	if (device == peer)
		return CUDA_ERROR_INVALID_DEVICE;
	*value = attribute == CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ? 0 : can;
	return CUDA_SUCCESS;
}

/* ---- names of errors --------------------------------------------------------------------- */

static const struct {
	CUresult error;
	const char *name, *text;
} errors[] = {
#define X(name, number, text) {name, #name, text},
	FAKE_ERRORS(X)
#undef X
};

static CUresult describe(CUresult error, const char **ret_text, bool name)
{
	INVALID_IF(!ret_text);
	*ret_text = NULL;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (errors[i].error == error) {
			*ret_text = name ? errors[i].name : errors[i].text;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult do_cuGetErrorName(CUresult error, const char **text)
{
	return describe(error, text, true);
}

CUresult do_cuGetErrorString(CUresult error, const char **text)
{
	return describe(error, text, false);
}

/* ---- contexts ---------------------------------------------------------------------------- */

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
