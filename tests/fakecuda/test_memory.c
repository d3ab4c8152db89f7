/* SPDX-License-Identifier: MIT */
/* Memory: what the driver knows of addresses, and its use by other processes. */
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES 10000u

static void allocations(void)
{
	test_begin(0);
	CUdeviceptr a, b, base;
	size_t size, available, total;
	IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&a, (1 << 20) + 1));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(&a, 0));
	OK(cuMemAlloc_v2(&a, (1 << 20) - 512));
	OK(cuMemAlloc_v2(&b, 1));
	IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&base, 1));
	OK(cuMemGetInfo_v2(&available, &total));
	CHECK(available == 0 && total == 1 << 20);
	OK(cuMemGetAddressRange_v2(&base, &size, a + 5));
	CHECK(base == a && size == (1 << 20) - 512);
	IS(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange_v2(&base, &size, a + size));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(a + 1));
	OK(cuMemFree_v2(a));
	OK(cuMemFree_v2(0));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(a));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD_v2(b, a, 1));
	OK(cuMemGetInfo_v2(&available, &total));
	CHECK(available == (1 << 20) - 512);
	OK(cuMemFree_v2(b));
}

static void other_allocations(void)
{
	test_begin(0);
	CUdeviceptr rows, memory;
	CUmemoryPool pool;
	CUmemGenericAllocationHandle handle;
	const CUmemAllocationProp *properties = (const CUmemAllocationProp *)"";
	size_t pitch;
	OK(cuMemAllocPitch_v2(&rows, &pitch, 513, 1000, 4));
	CHECK(pitch == 1024);
	IS(CUDA_ERROR_INVALID_VALUE, cuMemAllocPitch_v2(&rows, &pitch, 513, 1000, 5));
	IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocPitch_v2(&memory, &pitch, 513, 25, 4));
	IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&memory, 25000, NULL));
	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&memory, 25000, pool, NULL));
	IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&handle, 25000, properties, 0));
	OK(cuMemFree_v2(rows));
	OK(cuMemAllocAsync(&memory, 25000, NULL));
	IS(CUDA_ERROR_INVALID_HANDLE, cuMemFreeAsync(memory, (CUstream)&pitch));
	OK(cuMemFreeAsync(memory, NULL));
	OK(cuMemAllocFromPoolAsync_ptsz(&memory, 25000, pool, NULL));
	IS(CUDA_ERROR_INVALID_VALUE,
		cuMemAllocFromPoolAsync(&memory, 1, (CUmemoryPool)&pitch, NULL));
	OK(cuMemFree_v2(memory));
	OK(cuMemCreate(&handle, 25000, properties, 0));
	OK(cuMemRelease(handle));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemRelease(0));
}

static void free_waits(void)
{
	test_begin(0);
	CUstream stream;
	CUdeviceptr a = test_device(BYTES, 1), b = test_device(BYTES, 2);
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemcpyDtoDAsync_v2(b, a, BYTES, stream));
	OK(cuMemFree_v2(a));
	OK(cuStreamQuery(stream));
	CHECK(test_value(b, BYTES) == 1);
	CHECK(test_counter("late_uses") == 0);
}

static unsigned char *map(int protection)
{
	void *memory = mmap(NULL, 3 * 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	return memory;
}

static void registration(void)
{
	test_begin(0);
	unsigned char *memory = map(PROT_READ | PROT_WRITE), *fixed = map(PROT_READ);
	unsigned char *pinned = test_pinned(BYTES, 1);
	unsigned flags;
	OK(cuMemHostRegister_v2(memory + 100, 4096, CU_MEMHOSTREGISTER_PORTABLE));
	IS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
		cuMemHostRegister_v2(memory + 100, 4096, 0));
	IS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
		cuMemHostRegister_v2(memory + 4000, 4096, 0));
	IS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister_v2(pinned, 1, 0));
	OK(cuMemHostRegister_v2(memory + 8192, 4096, 0));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister(pinned));
	IS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(fixed));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister(memory + 101));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(memory + 100));
	OK(cuMemHostUnregister(memory + 100));
	OK(cuMemHostRegister_v2(memory, 8192, 0));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister_v2(fixed, 4096, 0));
	OK(cuMemHostRegister_v2(fixed, 4096, CU_MEMHOSTREGISTER_READ_ONLY));
	OK(cuMemHostUnregister(fixed));
	munmap(fixed, 3 * 4096);
	IS(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister_v2(fixed, 4096, 0));
	OK(cuMemHostGetFlags(&flags, pinned));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemHostGetFlags(&flags, &flags));
	OK(cuMemFreeHost(pinned));
	OK(cuMemFreeHost(NULL));
}

static void no_read_only(void)
{
	test_begin(0);
	int can = -1;
	OK(cuDeviceGetAttribute(
		&can, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 0));
	CHECK(can == 0);
	IS(CUDA_ERROR_NOT_SUPPORTED,
		cuMemHostRegister_v2(map(PROT_READ), 4096, CU_MEMHOSTREGISTER_READ_ONLY));
}

static void attributes(void)
{
	CUcontext context = test_begin(0), got;
	CUdeviceptr device = test_device(BYTES, 1), address;
	unsigned char *pinned = test_pinned(BYTES, 2);
	CUmemorytype type;
	size_t size;
	int ordinal;
	_Bool yes[8];
	memset(yes, 1, sizeof(yes));
	OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device + 9));
	CHECK(type == CU_MEMORYTYPE_DEVICE);
	OK(cuPointerGetAttribute(
		&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)pinned + 9));
	CHECK(type == CU_MEMORYTYPE_HOST);
	OK(cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_CONTEXT, device));
	CHECK(got == context);
	OK(cuPointerGetAttribute(&address, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, device + 9));
	OK(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, device + 9));
	CHECK(address == device && size == BYTES);
	/* A boolean is one byte: the next one stays. */
	OK(cuPointerGetAttribute(yes, CU_POINTER_ATTRIBUTE_IS_MANAGED, device));
	CHECK(!yes[0] && yes[1]);
	OK(cuPointerGetAttribute(
		yes, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, (uintptr_t)pinned));
	CHECK(!yes[0] && yes[1]);
	IS(CUDA_ERROR_INVALID_VALUE,
		cuPointerGetAttribute(&address, CU_POINTER_ATTRIBUTE_HOST_POINTER, device));
	OK(cuMemHostGetDevicePointer_v2(&address, pinned, 0));
	CHECK(address == (uintptr_t)pinned);
	/* The host's own memory is an error in one call and nothing in the other. */
	IS(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, 2, (uintptr_t)&type));
	CUpointer_attribute wanted[] = {2, 9};
	void *data[] = {&type, &ordinal};
	OK(cuPointerGetAttributes(2, wanted, data, (uintptr_t)&type));
	CHECK(type == 0 && ordinal == -2);
	OK(cuPointerGetAttributes(2, wanted, data, device));
	CHECK(type == CU_MEMORYTYPE_DEVICE && ordinal == 0);
}

static CUipcMemHandle receive_handle(int fd)
{
	CUipcMemHandle handle;
	test_receive(fd, &handle, sizeof(handle));
	return handle;
}

static CUdeviceptr open_handle(CUipcMemHandle handle)
{
	CUdeviceptr pointer;
	OK(cuIpcOpenMemHandle_v2(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	return pointer;
}

/* Tell the other process, and wait until it has done so. */
static void ask(int fd, char word)
{
	test_send(fd, &word, 1);
	test_receive(fd, &word, 1);
}

static void let_go(int fd, pid_t pid)
{
	test_send(fd, "e", 1);
	test_join(pid);
}

/* The other process allocates, and frees when it is told to. */
static void export(int fd)
{
	char word;
	CUipcMemHandle handle;
	test_begin(0);
	CUdeviceptr device = test_device(BYTES, 5);
	OK(cuIpcGetMemHandle(&handle, device));
	test_send(fd, &handle, sizeof(handle));
	test_receive(fd, &word, 1);
	if (word == 'f')
		OK(cuMemFree_v2(device));
	else
		CHECK(test_value(device, BYTES) == 6);
	ask(fd, word);
}

static void opened(void)
{
	int fd;
	CUdeviceptr again, own;
	CUcontext other;
	CUipcMemHandle handle, mine;
	pid_t pid = test_fork(export, &fd);
	test_begin(0);
	handle = receive_handle(fd);
	IS(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle_v2(&again, handle, 0));
	CUdeviceptr pointer = open_handle(handle);
	CHECK(test_value(pointer, BYTES) == 5);
	CHECK(open_handle(handle) == pointer);
	CHECK(test_counter("ipc_opens") == 1 && test_counter("ipc_reopens") == 1);
	/* Only one context may have it. */
	OK(cuCtxCreate_v2(&other, 0, 0));
	IS(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle(&again, handle, 1));
	OK(cuCtxDestroy_v2(other));
	OK(cuMemsetD8_v2(pointer, 6, BYTES));
	OK(cuCtxSynchronize());
	ask(fd, 'c');
	OK(cuIpcCloseMemHandle(pointer));
	CHECK(test_value(pointer, BYTES) == 6);
	IS(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(pointer + 1));
	OK(cuIpcCloseMemHandle(pointer));
	IS(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(pointer));
	/* One's own, an address inside, memory that is not one's to give away, nonsense. */
	own = test_device(BYTES, 1);
	OK(cuIpcGetMemHandle(&mine, own));
	IS(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle_v2(&again, mine, 1));
	IS(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&mine, own + 512));
	pointer = open_handle(handle);
	IS(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&mine, pointer));
	memset(&mine, 1, sizeof(mine));
	IS(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenMemHandle_v2(&again, mine, 1));
	/* Of a process that had the same number before. */
	mine = handle;
	mine.reserved[16] ^= 1;
	IS(CUDA_ERROR_MAP_FAILED, cuIpcOpenMemHandle_v2(&again, mine, 1));
	let_go(fd, pid);
	/* The exporter is gone: what is open goes on, new ones do not. */
	OK(cuIpcCloseMemHandle(pointer));
	IS(CUDA_ERROR_MAP_FAILED, cuIpcOpenMemHandle_v2(&again, handle, 1));
}

static void freed_while_open(void)
{
	int fd;
	CUdeviceptr again;
	pid_t pid = test_fork(export, &fd);
	test_begin(0);
	CUipcMemHandle handle = receive_handle(fd);
	CUdeviceptr pointer = open_handle(handle);
	CHECK(test_value(pointer, BYTES) == 5);
	ask(fd, 'f');
	CHECK(test_counter("freed_while_open") == 1);
	CHECK(test_value(pointer, BYTES) == 0xDB);
	CHECK(test_counter("poisoned_reads") == 1);
	OK(cuIpcCloseMemHandle(pointer));
	IS(CUDA_ERROR_MAP_FAILED, cuIpcOpenMemHandle_v2(&again, handle, 1));
	let_go(fd, pid);
}

static void import(int fd)
{
	test_begin(0);
	(void)open_handle(receive_handle(fd));
	ask(fd, 'o');
}

/* Open until its process ends, in whatever way. */
static void freed_when_nobody_is_left(void)
{
	int fd;
	char word;
	CUipcMemHandle handle;
	pid_t pid = test_fork(import, &fd);
	test_begin(0);
	CUdeviceptr device = test_device(BYTES, 5);
	OK(cuIpcGetMemHandle(&handle, device));
	test_send(fd, &handle, sizeof(handle));
	test_receive(fd, &word, 1);
	let_go(fd, pid);
	OK(cuMemFree_v2(device));
	CHECK(test_counter("freed_while_open") == 0);
}

static void lend(int fd)
{
	char word;
	CUipcMemHandle handle;
	test_begin(0);
	OK(cuIpcGetMemHandle(&handle, test_device(BYTES, 5)));
	test_send(fd, &handle, sizeof(handle));
	test_receive(fd, &word, 1);
}

static CUdeviceptr borrow_of_the_dead(void)
{
	int fd;
	pid_t pid = test_fork(lend, &fd);
	test_begin(0);
	CUdeviceptr pointer = open_handle(receive_handle(fd));
	CHECK(test_value(pointer, BYTES) == 5);
	CHECK(test_counter("vanished_uses") == 0);
	let_go(fd, pid);
	return pointer;
}

static void vanished(void)
{
	CUdeviceptr pointer = borrow_of_the_dead(), own = test_device(BYTES, 1);
	OK(cuMemcpyDtoDAsync_v2(own, pointer, BYTES, NULL));
	IS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(NULL));
	CHECK(test_counter("vanished_uses") == 1);
}

static void vanished_unseen(void)
{
	CHECK(test_value(borrow_of_the_dead(), BYTES) == 0xDB);
	CHECK(test_counter("vanished_uses") == 1);
}

static void closed_too_early(void)
{
	int fd;
	pid_t pid = test_fork(export, &fd);
	test_begin(0);
	CUdeviceptr pointer = open_handle(receive_handle(fd)), own = test_device(BYTES, 1);
	OK(cuMemcpyDtoDAsync_v2(own, pointer, BYTES, NULL));
	OK(cuIpcCloseMemHandle(pointer));
	IS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
	CHECK(test_counter("late_uses") == 1);
	ask(fd, 'f');
	let_go(fd, pid);
}

/* Open what device 0 exports from each of the others. */
static void open_from(int device, CUresult expected)
{
	int fd;
	CUdeviceptr pointer, own;
	pid_t pid = test_fork(export, &fd);
	test_begin(device);
	CUipcMemHandle handle = receive_handle(fd);
	int64_t begin = test_now_us();
	IS(expected, cuIpcOpenMemHandle_v2(&pointer, handle, 1));
	CHECK(test_now_us() - begin >= 2000);
	if (expected == CUDA_SUCCESS) {
		own = test_device(BYTES, 1);
		OK(cuMemcpyDtoD_v2(own, pointer, BYTES));
		CHECK(test_value(own, BYTES) == 5);
		CHECK(test_counter("peer_copies") == (device != 0));
	}
	ask(fd, 'f');
	let_go(fd, pid);
}

static void same_device(void)
{
	open_from(0, CUDA_SUCCESS);
}

static void peer(void)
{
	open_from(1, CUDA_SUCCESS);
}

static void no_peer(void)
{
	open_from(1, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
}

static void slices(void)
{
	CUuuid first, second;
	int fd;
	CUdeviceptr pointer;
	pid_t pid = test_fork(export, &fd);
	test_begin(1);
	/* One GPU in the old identity, two in the new. */
	OK(cuDeviceGetUuid(&first, 0));
	OK(cuDeviceGetUuid(&second, 1));
	CHECK(memcmp(&first, &second, sizeof(first)) == 0);
	OK(cuDeviceGetUuid_v2(&first, 0));
	OK(cuDeviceGetUuid_v2(&second, 1));
	CHECK(memcmp(&first, &second, sizeof(first)) != 0);
	IS(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
		cuIpcOpenMemHandle_v2(&pointer, receive_handle(fd), 1));
	ask(fd, 'f');
	let_go(fd, pid);
}

static void no_ipc(void)
{
	CUipcMemHandle handle = {{0}};
	CUdeviceptr pointer;
	test_begin(0);
	IS(CUDA_ERROR_NOT_SUPPORTED, cuIpcGetMemHandle(&handle, test_device(BYTES, 1)));
	IS(CUDA_ERROR_NOT_SUPPORTED, cuIpcOpenMemHandle_v2(&pointer, handle, 1));
}

int main(void)
{
	static const struct test tests[] = {
		{"allocations and the end of memory", "MEMORY=1048576", allocations},
		{"the other ways to allocate", "MEMORY=1048576", other_allocations},
		{"memory is freed when it is not used any more", SLOW, free_waits},
		{"registered memory", "", registration},
		{"read-only memory that cannot be registered", "NO_READ_ONLY_REGISTER=1",
			no_read_only},
		{"what the driver says of an address", "", attributes},
		{"memory of another process", "", opened},
		{"is poisoned when that frees it", "", freed_while_open},
		{"but not for the dead", "", freed_when_nobody_is_left},
		{"gone with its exporter", "VANISHES=1", vanished},
		{"and nobody says so", "VANISHES=2", vanished_unseen},
		{"and must not be closed while it is used", SLOW, closed_too_early},
		{"opened in the same device", "DEVICES=2 IPC_OPEN_US=2000", same_device},
		{"in a peer", "DEVICES=2 IPC_OPEN_US=2000", peer},
		{"not in one that cannot reach it", "DEVICES=2 PEERS=0-1 IPC_OPEN_US=2000",
			no_peer},
		{"nor in another slice of the same GPU", "DEVICES=2 MIG=1,2", slices},
		{"a machine without IPC", "NO_IPC=1", no_ipc},
		{NULL, NULL, NULL},
	};
	return test_main(tests);
}
