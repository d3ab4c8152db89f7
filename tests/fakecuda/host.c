/* SPDX-License-Identifier: MIT */
/* Host memory that the driver knows, and what it says of any pointer. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

CUresult do_cuMemHostAlloc(void **address, size_t bytes, unsigned int flags)
{
	CUcontext context;
	if (!address || bytes == 0 || flags > 7)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&fake_lock);
	CUresult r = fake_current_locked(&context);
	if (r == CUDA_SUCCESS)
		r = fake_capture_forbids_locked();
	if (r == CUDA_SUCCESS) {
		size_t mapped = fake_page_round(bytes);
		void *map = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (map == MAP_FAILED) {
			r = CUDA_ERROR_OUT_OF_MEMORY;
		} else {
			struct fake_memory *memory = fake_alloc(sizeof(*memory));
			memory->kind = FAKE_MEMORY_HOST;
			memory->address = (uintptr_t)map;
			memory->bytes = map;
			memory->size = bytes;
			memory->mapped = mapped;
			memory->context = context;
			memory->flags = flags;
			fake_memory_add_locked(memory);
			*address = map;
		}
	}
	pthread_mutex_unlock(&fake_lock);
	return r;
}

CUresult do_cuMemAllocHost_v2(void **address, size_t bytes)
{
	return do_cuMemHostAlloc(address, bytes, 0);
}

/* The memory that begins at @address and is of this kind. */
static struct fake_memory *at_locked(void *address, enum fake_memory_kind kind)
{
	struct fake_memory *memory = fake_memory_find_locked((uintptr_t)address, 1);
	if (!memory || memory->kind != kind || memory->address != (uintptr_t)address)
		return NULL;
	return memory;
}

/* Take away what begins at @address, when all work with it is done. */
static CUresult give_up(void *address, enum fake_memory_kind kind, CUresult missing)
{
	CUcontext context;
	pthread_mutex_lock(&fake_lock);
	CUresult r = fake_current_locked(&context);
	struct fake_memory *memory = r == CUDA_SUCCESS ? at_locked(address, kind) : NULL;
	if (r == CUDA_SUCCESS && !memory)
		r = missing;
	if (r == CUDA_SUCCESS)
		r = fake_capture_forbids_locked();
	if (r == CUDA_SUCCESS) {
		r = fake_wait_context_locked(memory->context);
		if (at_locked(address, kind) == memory)
			fake_memory_remove_locked(memory);
	}
	pthread_mutex_unlock(&fake_lock);
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
	if (!address || bytes == 0 || flags > 15 || begin + bytes < begin)
		return CUDA_ERROR_INVALID_VALUE;
	fake_sleep_us(fake_number(FAKE_REGISTER_US));
	pthread_mutex_lock(&fake_lock);
	CUresult r = fake_current_locked(&context);
	if (r == CUDA_SUCCESS)
		r = fake_capture_forbids_locked();
	if (r == CUDA_SUCCESS && fake_memory_overlaps_locked(begin, bytes))
		r = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	if (r == CUDA_SUCCESS)
		r = may_register(begin, bytes, flags);
	if (r == CUDA_SUCCESS) {
		struct fake_memory *memory = fake_alloc(sizeof(*memory));
		memory->kind = FAKE_MEMORY_PINNED;
		memory->address = begin;
		memory->bytes = address;
		memory->size = bytes;
		memory->context = context;
		memory->flags = flags;
		fake_memory_add_locked(memory);
	}
	pthread_mutex_unlock(&fake_lock);
	return r;
}

CUresult do_cuMemHostUnregister(void *address)
{
	pthread_mutex_lock(&fake_lock);
	bool allocated = fake_memory_find_locked((uintptr_t)address, 1) != NULL;
	pthread_mutex_unlock(&fake_lock);
	return give_up(address, FAKE_MEMORY_PINNED,
		allocated ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

CUresult do_cuMemHostGetDevicePointer_v2(
	CUdeviceptr *pointer, void *address, unsigned int flags)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	if (!pointer || flags != 0)
		return r;
	pthread_mutex_lock(&fake_lock);
	struct fake_memory *memory = fake_memory_find_locked((uintptr_t)address, 1);
	if (memory && !fake_memory_is_device(memory)) {
		/* One address space: the device uses the host's address. */
		*pointer = (uintptr_t)address;
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&fake_lock);
	return r;
}

CUresult do_cuMemHostGetFlags(unsigned int *flags, void *address)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	if (!flags)
		return r;
	pthread_mutex_lock(&fake_lock);
	struct fake_memory *memory = fake_memory_find_locked((uintptr_t)address, 1);
	if (memory && memory->kind == FAKE_MEMORY_HOST) {
		*flags = memory->flags | CU_MEMHOSTALLOC_DEVICEMAP;
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&fake_lock);
	return r;
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
	if (!data)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&fake_lock);
	CUresult r = fake_current_locked(&context);
	struct fake_memory *memory = fake_memory_find_locked(pointer, 1);
	if (r == CUDA_SUCCESS)
		r = memory ? tell(memory, attribute, pointer, data) : CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&fake_lock);
	return r;
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
	if (count == 0 || !attributes || !data)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&fake_lock);
	CUresult r = fake_current_locked(&context);
	struct fake_memory *memory = fake_memory_find_locked(pointer, 1);
	for (unsigned i = 0; r == CUDA_SUCCESS && i < count; i++)
		if (!memory || tell(memory, attributes[i], pointer, data[i]) != CUDA_SUCCESS)
			tell_unknown(attributes[i], data[i]);
	pthread_mutex_unlock(&fake_lock);
	return r;
}
