/* SPDX-License-Identifier: MIT */
/*
 * Device memory of other processes, by handle.  A handle holds for the base of an allocation
 * that lives; the exporter cannot open its own; what is open in a context already is counted;
 * for each device of each other process one context per own device may open handles.
 *
 * The manual does not say which error an importer gets when the exporter is gone, has freed
 * the memory, or is out of reach; here it is MAP_FAILED, and for the last one
 * PEER_ACCESS_UNSUPPORTED.  A second context gets INVALID_CONTEXT.
 *
 * The memory of an exporter that was killed stays readable for those who have it open, which
 * nobody has promised of the real driver: a test must not rely on it.  FAKECUDA_VANISHES takes
 * it away.
 */
#include "driver.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HANDLE_MAGIC UINT32_C(0x49504346)

struct handle {
	uint32_t magic;
	int32_t pid, fd, physical;
	uint64_t start;
	CUuuid uuid;
	uint64_t id, size;
	uint32_t generation, reserved;
};

_Static_assert(sizeof(struct handle) == sizeof(CUipcMemHandle), "a handle has 64 bytes");

CUresult do_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer)
{
	CUcontext context;
	INVALID_IF(!handle);
	if (fake_number(FAKE_NO_IPC))
		return CUDA_ERROR_NOT_SUPPORTED;
	TRY(fake_current_locked(&context));
	struct fake_memory *memory = fake_memory_at_locked(pointer, FAKE_MEMORY_DEVICE);
	INVALID_IF(!memory);
	struct handle h = {.magic = HANDLE_MAGIC,
		.pid = getpid(),
		.fd = memory->fd,
		.physical = memory->physical,
		.start = fake_start_of(getpid()),
		.id = memory->id,
		.size = memory->size,
		.generation = memory->shared->generation};
	fake_uuid_of(memory->physical, &h.uuid);
	memcpy(handle, &h, sizeof(h));
	fake_count(FAKE_IPC_EXPORTS, 1);
	return CUDA_SUCCESS;
}

static bool is_of(const struct fake_memory *m, const struct handle *h)
{
	return m->kind == FAKE_MEMORY_IMPORTED && m->owner == h->pid &&
	       m->owner_start == h->start && m->physical == h->physical;
}

/* Look at what is open already.  Sets *ret_memory if it is this very allocation. */
static CUresult look_locked(
	CUcontext context, const struct handle *h, struct fake_memory **ret_memory)
{
	for (struct fake_memory *m = fake_memory_first_locked(); m; m = m->next) {
		if (!is_of(m, h))
			continue;
		if (m->context != context && m->context->device == context->device)
			return CUDA_ERROR_INVALID_CONTEXT;
		if (m->context == context && m->id == h->id)
			*ret_memory = m;
	}
	return CUDA_SUCCESS;
}

/* The exporter's file, as long as that process lives. */
static int open_file(const struct handle *h)
{
	char path[64];
	struct stat st;
	if (fake_start_of(h->pid) != h->start)
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)h->pid, (int)h->fd);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 &&
		(size_t)st.st_size == fake_page_round(h->size) + fake_page_round(1))
		return fd;
	close(fd);
	return -1;
}

static CUresult map_locked(
	CUcontext context, const struct handle *h, struct fake_memory **ret_memory)
{
	struct fake_memory *memory = fake_alloc(sizeof(*memory));
	memory->kind = FAKE_MEMORY_IMPORTED;
	memory->context = context;
	memory->physical = h->physical;
	memory->size = h->size;
	memory->id = h->id;
	memory->owner = h->pid;
	memory->owner_start = h->start;
	memory->fd = open_file(h);
	bool mapped = memory->fd >= 0 && fake_memory_map(memory);
	if (memory->fd >= 0)
		close(memory->fd);
	if (!mapped) {
		free(memory);
		return CUDA_ERROR_MAP_FAILED;
	}
	fake_memory_add_locked(memory);
	/* The exporter sets freed before it looks who there is. */
	fake_memory_import(memory);
	if (atomic_load(&memory->shared->freed) ||
		!fake_memory_is_export(memory->shared, h->id, h->generation)) {
		fake_memory_remove_locked(memory);
		return CUDA_ERROR_MAP_FAILED;
	}
	*ret_memory = memory;
	return CUDA_SUCCESS;
}

static CUresult open_locked(const struct handle *h, struct fake_memory **ret_memory)
{
	CUcontext context;
	struct fake_memory *memory = NULL;
	TRY(fake_current_locked(&context));
	TRY(fake_capture_forbids_locked());
	if (h->pid == getpid() && h->start == fake_start_of(h->pid))
		return CUDA_ERROR_INVALID_CONTEXT;
	int own = fake_visible(context->device);
	if (own != h->physical && !fake_can_reach(own, h->physical))
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	TRY(look_locked(context, h, &memory));
	if (!memory)
		TRY(map_locked(context, h, &memory));
	fake_count(memory->opens++ == 0 ? FAKE_IPC_OPENS : FAKE_IPC_REOPENS, 1);
	*ret_memory = memory;
	return CUDA_SUCCESS;
}

CUresult do_cuIpcOpenMemHandle_v2(
	CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags)
{
	struct handle h;
	CUuuid uuid;
	struct fake_memory *memory;
	INVALID_IF(!pointer || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	if (fake_number(FAKE_NO_IPC))
		return CUDA_ERROR_NOT_SUPPORTED;
	memcpy(&h, &handle, sizeof(h));
	if (h.magic != HANDLE_MAGIC || h.physical < 0 || h.physical >= FAKE_MOST_DEVICES)
		return CUDA_ERROR_INVALID_HANDLE;
	/* Both processes must have been told of the same machine. */
	fake_uuid_of(h.physical, &uuid);
	if (memcmp(&uuid, &h.uuid, sizeof(uuid)) != 0)
		return CUDA_ERROR_INVALID_HANDLE;
	if (fake_number(FAKE_LIES) == FAKE_LIE_DIES)
		raise(SIGSEGV);
	while (fake_number(FAKE_LIES) == FAKE_LIE_HANGS)
		pause();
	fake_sleep_us_locked(fake_number(FAKE_IPC_OPEN_US));
	TRY(open_locked(&h, &memory));
	*pointer = memory->address;
	return CUDA_SUCCESS;
}

CUresult do_cuIpcOpenMemHandle(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags)
{
	return do_cuIpcOpenMemHandle_v2(pointer, handle, flags);
}

/* Nothing is waited for: a copy that still runs then is the caller's mistake, and is caught
 * as one (counter late_uses, error 700 in the context). */
CUresult do_cuIpcCloseMemHandle(CUdeviceptr pointer)
{
	CUcontext context;
	fake_sleep_us_locked(fake_number(FAKE_IPC_CLOSE_US));
	TRY(fake_current_locked(&context));
	struct fake_memory *memory = fake_memory_at_locked(pointer, FAKE_MEMORY_IMPORTED);
	INVALID_IF(!memory);
	fake_count(FAKE_IPC_CLOSES, 1);
	if (--memory->opens == 0)
		fake_memory_remove_locked(memory);
	return CUDA_SUCCESS;
}

/* ---- by descriptors --------------------------------------------------------------------- */

CUresult do_cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
	CUmemAllocationHandleType type, unsigned long long flags)
{
	struct fake_memory *memory = fake_memory_of_handle_locked(handle);
	INVALID_IF(!shareable || !memory || memory->kind != FAKE_MEMORY_DEVICE || flags != 0 ||
		   type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	int fd = fcntl(memory->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	*(int *)shareable = fd;
	return CUDA_SUCCESS;
}

/* Kept by whoever has it, unlike what is opened by a handle. */
CUresult do_cuMemImportFromShareableHandle(
	CUmemGenericAllocationHandle *handle, void *shareable, CUmemAllocationHandleType type)
{
	CUcontext context;
	struct stat st;
	int fd = (int)(intptr_t)shareable;
	INVALID_IF(!handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
		   fstat(fd, &st) < 0 || (size_t)st.st_size <= fake_page_round(1));
	TRY(fake_current_locked(&context));
	struct fake_memory *memory = fake_alloc(sizeof(*memory));
	memory->kind = FAKE_MEMORY_IMPORTED;
	memory->context = context;
	memory->physical = fake_visible(context->device);
	memory->size = (size_t)st.st_size - fake_page_round(1);
	memory->owner = getpid();
	memory->owner_start = fake_start_of(getpid());
	memory->fd = fd;
	if (!fake_memory_map(memory)) {
		free(memory);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	fake_memory_add_locked(memory);
	fake_memory_import(memory);
	*handle = memory->handle = memory->address;
	return CUDA_SUCCESS;
}
