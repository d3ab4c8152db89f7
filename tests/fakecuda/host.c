/* SPDX-License-Identifier: MIT */
/* Host memory that the driver knows, and what it says of any pointer. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct fake_memory *add_locked(enum fake_memory_kind kind, void *address, size_t bytes,
	CUcontext context, unsigned flags)
{
	struct fake_memory *memory = fake_alloc(sizeof(*memory));
	memory->kind = kind;
	memory->address = (uintptr_t)address;
	memory->bytes = address;
	memory->size = bytes;
	memory->context = context;
	memory->flags = flags;
	fake_memory_add_locked(memory);
	return memory;
}

CUresult do_cuMemHostAlloc(void **address, size_t bytes, unsigned int flags)
{
	CUcontext context;
	INVALID_IF(!address || bytes == 0 || flags > 7);
	TRY(fake_current_locked(&context));
	TRY(fake_capture_forbids_locked());
	size_t mapped = fake_page_round(bytes);
	void *map =
		mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	add_locked(FAKE_MEMORY_HOST, map, bytes, context, flags)->mapped = mapped;
	*address = map;
	return CUDA_SUCCESS;
}

/* Take away what begins at @address, when all work with it is done. */
static CUresult give_up(void *address, enum fake_memory_kind kind, CUresult missing)
{
	CUcontext context;
	TRY(fake_current_locked(&context));
	struct fake_memory *memory = fake_memory_at_locked((uintptr_t)address, kind);
	if (!memory)
		return missing;
	TRY(fake_capture_forbids_locked());
	CUresult r = fake_wait_context_locked(memory->context);
	/* Another thread may have freed it meanwhile. */
	if (fake_memory_at_locked((uintptr_t)address, kind) == memory)
		fake_memory_remove_locked(memory);
	return r;
}

CUresult do_cuMemFreeHost(void *address)
{
	if (!address)
		return CUDA_SUCCESS;
	return give_up(address, FAKE_MEMORY_HOST, CUDA_ERROR_INVALID_VALUE);
}

enum mapping {
	NOT_MAPPED,
	READ_ONLY,
	WRITABLE,
};

/* How the program has mapped a range: the weakest of what /proc/self/maps says. */
static enum mapping mapping_of(uintptr_t begin, uintptr_t end)
{
	enum mapping least = WRITABLE;
	char *line = NULL;
	size_t size = 0;
	unsigned long from, to;
	char mode[5];
	FILE *file = fopen("/proc/self/maps", "re");
	if (!file)
		return WRITABLE;
	while (begin < end && getline(&line, &size, file) > 0) {
		if (sscanf(line, "%lx-%lx %4s", &from, &to, mode) != 3 || to <= begin)
			continue;
		if (from > begin || mode[0] != 'r')
			break;
		if (mode[1] != 'w')
			least = READ_ONLY;
		begin = to;
	}
	free(line);
	fclose(file);
	return begin < end ? NOT_MAPPED : least;
}

static CUresult may_register(uintptr_t begin, size_t bytes, unsigned flags)
{
	if ((flags & CU_MEMHOSTREGISTER_READ_ONLY) && fake_number(FAKE_NO_READ_ONLY_REGISTER))
		return CUDA_ERROR_NOT_SUPPORTED;
	switch (mapping_of(begin, begin + bytes)) {
	case WRITABLE:
		return CUDA_SUCCESS;
	case READ_ONLY:
		return flags & CU_MEMHOSTREGISTER_READ_ONLY ? CUDA_SUCCESS
							    : CUDA_ERROR_INVALID_VALUE;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult do_cuMemHostRegister_v2(void *address, size_t bytes, unsigned int flags)
{
	CUcontext context;
	uintptr_t begin = (uintptr_t)address;
	INVALID_IF(!address || bytes == 0 || flags > 15 || begin + bytes < begin);
	fake_sleep_us_locked(fake_number(FAKE_REGISTER_US));
	TRY(fake_current_locked(&context));
	TRY(fake_capture_forbids_locked());
	if (fake_memory_overlaps_locked(begin, bytes))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	TRY(may_register(begin, bytes, flags));
	add_locked(FAKE_MEMORY_PINNED, address, bytes, context, flags);
	return CUDA_SUCCESS;
}

CUresult do_cuMemHostUnregister(void *address)
{
	bool allocated = fake_memory_find_locked((uintptr_t)address, 1) != NULL;
	return give_up(address, FAKE_MEMORY_PINNED,
		allocated ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

CUresult do_cuMemHostGetDevicePointer_v2(
	CUdeviceptr *pointer, void *address, unsigned int flags)
{
	struct fake_memory *memory = fake_memory_find_locked((uintptr_t)address, 1);
	INVALID_IF(!pointer || flags != 0 || !memory || fake_memory_is_device(memory));
	/* One address space: the device uses the host's address. */
	*pointer = (uintptr_t)address;
	return CUDA_SUCCESS;
}

CUresult do_cuMemHostGetFlags(unsigned int *flags, void *address)
{
	struct fake_memory *memory = fake_memory_find_locked((uintptr_t)address, 1);
	INVALID_IF(!flags || !memory || memory->kind != FAKE_MEMORY_HOST);
	*flags = memory->flags | CU_MEMHOSTALLOC_DEVICEMAP;
	return CUDA_SUCCESS;
}

static int ordinal_of(const struct fake_memory *memory)
{
	if (!fake_memory_is_device(memory))
		return memory->context->device;
	/* Imported memory may be of a device that this process does not see. */
	for (int i = 0; i < fake_visible_count(); i++)
		if (fake_visible(i) == memory->physical)
			return i;
	return -2;
}

static CUresult tell(const struct fake_memory *m, CUpointer_attribute attribute,
	CUdeviceptr pointer, void *data)
{
	bool device = fake_memory_is_device(m);
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)data = m->context;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(CUmemorytype *)data = device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)data = pointer;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (device)
			return CUDA_ERROR_INVALID_VALUE;
		*(void **)data = (void *)(uintptr_t)pointer;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(unsigned long long *)data = m->id;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = ordinal_of(m);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)data = m->address;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)data = m->size;
		return CUDA_SUCCESS;
	/* Booleans are bytes, unlike all else. */
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(_Bool *)data = m->kind == FAKE_MEMORY_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*(_Bool *)data = false;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(_Bool *)data = true;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(unsigned long long *)data = 0;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult do_cuPointerGetAttribute(
	void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
	CUcontext context;
	INVALID_IF(!data);
	TRY(fake_current_locked(&context));
	struct fake_memory *memory = fake_memory_find_locked(pointer, 1);
	return memory ? tell(memory, attribute, pointer, data) : CUDA_ERROR_INVALID_VALUE;
}

/* What an attribute is of memory that CUDA has never heard of. */
static void tell_unknown(CUpointer_attribute attribute, void *data)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)data = 0;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = -2;
		break;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(_Bool *)data = false;
		break;
	default:
		*(uint64_t *)data = 0;
	}
}

/* Unlike the call for one attribute, it does not fail for a pointer of the host's own. */
CUresult do_cuPointerGetAttributes(
	unsigned int count, CUpointer_attribute *attributes, void **data, CUdeviceptr pointer)
{
	CUcontext context;
	INVALID_IF(count == 0 || !attributes || !data);
	TRY(fake_current_locked(&context));
	struct fake_memory *memory = fake_memory_find_locked(pointer, 1);
	for (unsigned i = 0; i < count; i++)
		if (!memory || tell(memory, attributes[i], pointer, data[i]) != CUDA_SUCCESS)
			tell_unknown(attributes[i], data[i]);
	return CUDA_SUCCESS;
}
