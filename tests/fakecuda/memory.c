/* SPDX-License-Identifier: MIT */
/*
 * Device memory: one anonymous file per allocation, so that other processes can map it through
 * /proc and nothing is left when the last of them ends.  A device address is a reservation
 * that the host cannot touch.  Behind the bytes lies a page of struct fake_shared.
 *
 * And host memory that the driver knows.
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAGIC    UINT64_C(0x66616b6563756461)
#define GRANULE  ((size_t)2 << 20) /* larger allocations begin at a multiple of it */
#define PITCH    ((size_t)512)     /* rows begin at a multiple of it */
#define SMALLEST ((size_t)512)     /* and every one takes a multiple of it */

static struct fake_memory *memories;
static uint64_t last_id;
static size_t own_use[FAKE_MOST_DEVICES]; /* bytes of this process, by visible device */

/* What an allocation costs of the device's memory. */
static size_t taken(size_t bytes)
{
	return (bytes + SMALLEST - 1) / SMALLEST * SMALLEST;
}

/* FAKECUDA_MEMORY_SHARED is for machines with one device, all users of which count together. */
static size_t in_use(int device)
{
	return fake_number(FAKE_MEMORY_SHARED) ? (size_t)fake_counted(FAKE_USED_BYTES)
					       : own_use[device];
}

static void use(int device, int64_t bytes)
{
	own_use[device] += (size_t)bytes;
	fake_count(FAKE_USED_BYTES, (uint64_t)bytes);
}

size_t fake_page_round(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	return (bytes + page - 1) / page * page;
}

bool fake_memory_is_device(const struct fake_memory *memory)
{
	return memory->kind == FAKE_MEMORY_DEVICE || memory->kind == FAKE_MEMORY_IMPORTED;
}

struct fake_memory *fake_memory_find_locked(uintptr_t address, size_t bytes)
{
	for (struct fake_memory *m = memories; m; m = m->next) {
		uintptr_t offset = address - m->address;
		if (address >= m->address && offset < m->size && bytes <= m->size - offset)
			return m;
	}
	return NULL;
}

struct fake_memory *fake_memory_at_locked(uintptr_t address, enum fake_memory_kind kind)
{
	struct fake_memory *memory = fake_memory_find_locked(address, 1);
	return memory && memory->kind == kind && memory->address == address ? memory : NULL;
}

struct fake_memory *fake_memory_first_locked(void)
{
	return memories;
}

bool fake_memory_overlaps_locked(uintptr_t address, size_t bytes)
{
	for (struct fake_memory *m = memories; m; m = m->next)
		if (address < m->address + m->size && m->address < address + bytes)
			return true;
	return false;
}

void fake_memory_add_locked(struct fake_memory *memory)
{
	memory->refs = 1;
	if (memory->id == 0)
		memory->id = ++last_id;
	memory->next = memories;
	memories = memory;
}

static void unmap(struct fake_memory *memory)
{
	/* Registered memory is the program's. */
	if (memory->kind != FAKE_MEMORY_PINNED)
		munmap(memory->bytes, memory->mapped);
}

void fake_memory_release_locked(struct fake_memory *memory)
{
	if (!memory || --memory->refs > 0)
		return;
	unmap(memory);
	free(memory);
}

void fake_memory_import(struct fake_memory *memory)
{
	for (int i = 0; i < FAKE_IMPORTERS; i++) {
		struct fake_importer *importer = &memory->shared->importers[i];
		int32_t nobody = 0;
		if (!atomic_compare_exchange_strong(&importer->pid, &nobody, getpid()))
			continue;
		atomic_store(&importer->start, fake_start_of(getpid()));
		memory->importer = importer;
		return;
	}
	fake_die("more than %d have the same memory mapped", FAKE_IMPORTERS);
}

static void end_import(struct fake_memory *memory)
{
	if (memory->importer) {
		atomic_store(&memory->importer->start, 0);
		atomic_store(&memory->importer->pid, 0);
	}
	memory->importer = NULL;
}

void fake_memory_end_imports_locked(void)
{
	for (struct fake_memory *m = memories; m; m = m->next)
		end_import(m);
}

/* Whether another process has it mapped that lives: of the dead nothing is. */
static bool is_open(struct fake_shared *shared)
{
	for (int i = 0; i < FAKE_IMPORTERS; i++) {
		int32_t pid = atomic_load(&shared->importers[i].pid);
		uint64_t start = atomic_load(&shared->importers[i].start);
		uint64_t now = pid ? fake_start_of(pid) : 0;
		if (now && (start == 0 || start == now))
			return true;
	}
	return false;
}

/* Those who still have it mapped shall see that they use what is not theirs any more. */
static void end_export(struct fake_memory *memory)
{
	atomic_store(&memory->shared->freed, 1);
	if (is_open(memory->shared)) {
		memset(memory->bytes, FAKE_POISON, memory->size);
		fake_count(FAKE_FREED_WHILE_OPEN, 1);
	}
	close(memory->fd);
}

void fake_memory_remove_locked(struct fake_memory *memory)
{
	struct fake_memory **place = &memories;
	while (*place != memory)
		place = &(*place)->next;
	*place = memory->next;
	memory->gone = true;
	if (fake_memory_is_device(memory))
		munmap((void *)memory->address, memory->mapped);
	if (memory->kind == FAKE_MEMORY_DEVICE) {
		use(memory->context->device, -(int64_t)taken(memory->size));
		end_export(memory);
	}
	if (memory->kind == FAKE_MEMORY_IMPORTED)
		end_import(memory);
	fake_memory_release_locked(memory);
}

void fake_memory_drop_context_locked(CUcontext context)
{
	struct fake_memory *next;
	for (struct fake_memory *m = memories; m; m = next) {
		next = m->next;
		if (m->context == context)
			fake_memory_remove_locked(m);
	}
}

/* An aligned reservation that nobody can read or write. */
static void *reserve(size_t bytes)
{
	size_t align = bytes >= GRANULE ? GRANULE : 0;
	unsigned char *all = mmap(NULL, bytes + align, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (all == MAP_FAILED)
		return NULL;
	if (align == 0)
		return all;
	size_t before = (align - (uintptr_t)all % align) % align;
	if (before > 0)
		munmap(all, before);
	if (align > before)
		munmap(all + before + bytes, align - before);
	return all + before;
}

bool fake_memory_map(struct fake_memory *memory)
{
	size_t page = fake_page_round(1);
	memory->mapped = fake_page_round(memory->size) + page;
	bool own = memory->kind == FAKE_MEMORY_IMPORTED &&
		   fake_number(FAKE_LIES) == FAKE_LIE_PRIVATE;
	void *bytes = mmap(NULL, memory->mapped, PROT_READ | PROT_WRITE,
		own ? MAP_PRIVATE : MAP_SHARED, memory->fd, 0);
	if (bytes == MAP_FAILED)
		return false;
	void *address = reserve(memory->mapped);
	if (!address) {
		munmap(bytes, memory->mapped);
		return false;
	}
	memory->bytes = bytes;
	memory->address = (uintptr_t)address;
	memory->shared = (struct fake_shared *)(memory->bytes + memory->mapped - page);
	return true;
}

static CUresult alloc_locked(CUcontext context, size_t bytes, struct fake_memory **ret_memory)
{
	size_t total = (size_t)fake_number(FAKE_MEMORY);
	size_t used = in_use(context->device);
	if (bytes > total || used > total || taken(bytes) > total - used)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct fake_memory *memory = fake_alloc(sizeof(*memory));
	memory->kind = FAKE_MEMORY_DEVICE;
	memory->context = context;
	memory->physical = fake_visible(context->device);
	memory->size = bytes;
	memory->fd = memfd_create("tsshim-fakecuda", MFD_CLOEXEC);
	if (memory->fd < 0 ||
		ftruncate(memory->fd, (off_t)(fake_page_round(bytes) + fake_page_round(1))) !=
			0 ||
		!fake_memory_map(memory)) {
		if (memory->fd >= 0)
			close(memory->fd);
		free(memory);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	fake_memory_add_locked(memory);
	memory->shared->id = memory->id;
	memory->shared->generation = (uint32_t)memory->id;
	memory->shared->magic = MAGIC;
	use(context->device, (int64_t)taken(bytes));
	*ret_memory = memory;
	return CUDA_SUCCESS;
}

CUresult do_cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
	CUcontext context;
	struct fake_memory *memory;
	INVALID_IF(!pointer || bytes == 0);
	TRY(fake_current_locked(&context));
	TRY(fake_capture_forbids_locked());
	TRY(alloc_locked(context, bytes, &memory));
	*pointer = memory->address;
	fake_count(FAKE_ALLOCATIONS, 1);
	fake_count(FAKE_ALLOCATED_BYTES, bytes);
	return CUDA_SUCCESS;
}

/* All that is under way in the context is waited for, as the real one does. */
CUresult do_cuMemFree_v2(CUdeviceptr pointer)
{
	CUcontext context;
	TRY(fake_current_locked(&context));
	if (pointer == 0)
		return CUDA_SUCCESS;
	TRY(fake_capture_forbids_locked());
	struct fake_memory *memory = fake_memory_at_locked(pointer, FAKE_MEMORY_DEVICE);
	INVALID_IF(!memory);
	CUresult r = fake_wait_context_locked(memory->context);
	/* Another thread may have freed it meanwhile. */
	if (fake_memory_find_locked(pointer, 1) == memory)
		fake_memory_remove_locked(memory);
	fake_count(FAKE_FREES, 1);
	return r;
}

CUresult do_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer)
{
	CUcontext context;
	TRY(fake_current_locked(&context));
	struct fake_memory *memory = fake_memory_find_locked(pointer, 1);
	if (!memory || !fake_memory_is_device(memory))
		return CUDA_ERROR_NOT_FOUND;
	if (base)
		*base = memory->address;
	if (bytes)
		*bytes = memory->size;
	return CUDA_SUCCESS;
}

CUresult do_cuMemGetInfo_v2(size_t *available, size_t *total)
{
	CUcontext context;
	INVALID_IF(!available || !total);
	TRY(fake_current_locked(&context));
	*total = (size_t)fake_number(FAKE_MEMORY);
	size_t used = in_use(context->device);
	*available = used < *total ? *total - used : 0;
	return CUDA_SUCCESS;
}

bool fake_memory_is_export(const struct fake_shared *shared, uint64_t id, uint32_t generation)
{
	return shared->magic == MAGIC && shared->id == id && shared->generation == generation;
}

/* The other ways to allocate.  A pool keeps nothing here, and memory is there when the call
 * returns (which a stream-ordered one may be).  Physical memory has an address of its own until
 * it is mapped at another one, which it is as a whole. */
CUresult do_cuMemAllocPitch_v2(
	CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned int element)
{
	INVALID_IF(!pitch || width == 0 || height == 0 ||
		   (element != 4 && element != 8 && element != 16));
	*pitch = (width + PITCH - 1) / PITCH * PITCH;
	return do_cuMemAlloc_v2(pointer, *pitch * height);
}

CUresult do_cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
	TRY(fake_stream_find_locked(stream, &stream));
	return do_cuMemAlloc_v2(pointer, bytes);
}

/* There is one for each device. */
static char pools[FAKE_MOST_DEVICES];

CUresult do_cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
	INVALID_IF(!pool);
	WANT_DEVICE(device);
	*pool = (CUmemoryPool)(void *)&pools[device];
	return CUDA_SUCCESS;
}

CUresult do_cuMemAllocFromPoolAsync(
	CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	uintptr_t at = (uintptr_t)pool - (uintptr_t)pools;
	return at < sizeof(pools) ? do_cuMemAllocAsync(pointer, bytes, stream)
				  : CUDA_ERROR_INVALID_VALUE;
}

/* Waits for more than it must. */
CUresult do_cuMemFreeAsync(CUdeviceptr pointer, CUstream stream)
{
	TRY(fake_stream_find_locked(stream, &stream));
	return do_cuMemFree_v2(pointer);
}

CUresult do_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
	const CUmemAllocationProp *properties, unsigned long long flags)
{
	CUdeviceptr pointer;
	INVALID_IF(!handle || !properties || flags != 0);
	TRY(do_cuMemAlloc_v2(&pointer, bytes));
	fake_memory_at_locked(pointer, FAKE_MEMORY_DEVICE)->handle = pointer;
	*handle = pointer;
	return CUDA_SUCCESS;
}

/* What is mapped at an address stays. */
CUresult do_cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct fake_memory *memory = fake_memory_of_handle_locked(handle);
	INVALID_IF(!memory);
	return memory->address == handle ? do_cuMemFree_v2(handle) : CUDA_SUCCESS;
}

struct fake_memory *fake_memory_of_handle_locked(uint64_t handle)
{
	for (struct fake_memory *m = memories; m; m = m->next)
		if (m->handle && m->handle == handle)
			return m;
	return NULL;
}

CUresult do_cuMemGetAllocationGranularity(size_t *granularity,
	const CUmemAllocationProp *properties, CUmemAllocationGranularity_flags option)
{
	INVALID_IF(!granularity || !properties || (unsigned)option > 1);
	*granularity = GRANULE;
	return CUDA_SUCCESS;
}

/* With room for struct fake_shared. */
CUresult do_cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes, size_t alignment,
	CUdeviceptr address, unsigned long long flags)
{
	INVALID_IF(!pointer || bytes == 0 || bytes % GRANULE != 0 || flags != 0);
	*pointer = (uintptr_t)reserve(bytes + fake_page_round(1));
	return *pointer ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult do_cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset,
	CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct fake_memory *memory = fake_memory_of_handle_locked(handle);
	INVALID_IF(!memory || memory->address != handle || offset != 0 || flags != 0 ||
		   bytes != memory->size);
	munmap((void *)memory->address, memory->mapped);
	memory->address = pointer;
	return CUDA_SUCCESS;
}

CUresult do_cuMemSetAccess(
	CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
	struct fake_memory *memory = fake_memory_find_locked(pointer, bytes);
	INVALID_IF(!memory || !access || count == 0);
	return CUDA_SUCCESS;
}

/* ---- host memory that the driver knows, and what it says of any pointer ------------------ */

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
