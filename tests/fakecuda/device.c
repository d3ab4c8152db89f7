/* SPDX-License-Identifier: MIT */
/* The devices that the settings describe, and the names of errors. */
#include "driver.h"

#include <stdio.h>
#include <string.h>

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
