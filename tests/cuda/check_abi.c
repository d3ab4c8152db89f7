/* SPDX-License-Identifier: MIT */
/*
 * hooks/cuda/cuda_driver.h against a real cuda.h; compiled only (tests/e2e/cuda_header.py), as
 * programs include it, and with __CUDA_API_VERSION_INTERNAL: then it declares every symbol of
 * the driver under its own name, from 13.0 on with both versions of the batch.
 */
#include "hooks/cuda/cuda_driver.h"

#include <cuda.h>
#include <stddef.h>

#define SAME(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #theirs)

SAME(sizeof(ts_cu_result), sizeof(CUresult));
SAME(sizeof(ts_cu_device), sizeof(CUdevice));
SAME(sizeof(ts_cu_pointer), sizeof(CUdeviceptr));
SAME(sizeof(ts_cu_context), sizeof(CUcontext));
SAME(sizeof(ts_cu_stream), sizeof(CUstream));
SAME(sizeof(ts_cu_event), sizeof(CUevent));
SAME(sizeof(struct ts_cu_ipc_handle), sizeof(CUipcMemHandle));
SAME(sizeof(struct ts_cu_uuid), sizeof(CUuuid));
SAME(sizeof(int), sizeof(CUpointer_attribute));
SAME(sizeof(int), sizeof(CUstreamCaptureStatus));
SAME(sizeof(int), sizeof(CUdriverProcAddressQueryResult));
SAME(sizeof(uint64_t), sizeof(cuuint64_t));
SAME(TS_CU_SUCCESS, CUDA_SUCCESS);
SAME(TS_CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(TS_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(sizeof(unsigned long long), sizeof(CUmemGenericAllocationHandle));
SAME(TS_CU_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
SAME(TS_CU_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
SAME(TS_CU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(TS_CU_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
SAME(TS_CU_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(TS_CU_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME(TS_CU_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(TS_CU_ATTRIBUTE_RANGE_START, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SAME(TS_CU_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SAME(TS_CU_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);
SAME(TS_CU_HOST_PAGE_TABLES, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
SAME(TS_CU_USE_REGISTERED, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
SAME(TS_CU_REGISTER_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
SAME(TS_CU_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(TS_CU_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(TS_CU_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(TS_CU_IPC_LAZY_PEER_ACCESS, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
SAME(TS_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME((uintptr_t)TS_CU_STREAM_LEGACY, (uintptr_t)CU_STREAM_LEGACY);
SAME((uintptr_t)TS_CU_STREAM_PER_THREAD, (uintptr_t)CU_STREAM_PER_THREAD);

#if CUDA_VERSION >= 12080
#define ATTRIBUTE(ours, theirs)                                 \
	SAME(offsetof(struct ts_cu_copy_attributes, ours),      \
		offsetof(CUmemcpyAttributes, theirs));          \
	SAME(sizeof(((struct ts_cu_copy_attributes *)0)->ours), \
		sizeof(((CUmemcpyAttributes *)0)->theirs))
SAME(sizeof(struct ts_cu_copy_attributes), sizeof(CUmemcpyAttributes));
ATTRIBUTE(order, srcAccessOrder);
ATTRIBUTE(from, srcLocHint);
ATTRIBUTE(from.type, srcLocHint.type);
ATTRIBUTE(to, dstLocHint);
ATTRIBUTE(to.type, dstLocHint.type);
ATTRIBUTE(flags, flags);
SAME(TS_CU_ORDER_STREAM, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
SAME(TS_CU_ORDER_CALL, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL);
SAME(TS_CU_ORDER_ANY, CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
SAME(TS_CU_LOCATION_NONE, CU_MEM_LOCATION_TYPE_INVALID);
#endif

/*
 * Parameters: pointers to other types are told apart by their number and place only, and a
 * result that is no CUresult would be another type.
 */
#define CALL(symbol, ...) SAME(sizeof(ts_cu_result), sizeof(symbol(__VA_ARGS__)))

#ifdef __CUDA_API_VERSION_INTERNAL

#define CALL_copy(symbol)        CALL(symbol, 0, 0, bytes) /* addresses, or pointers */
#define CALL_copy_async(symbol)  CALL(symbol, 0, 0, bytes, any)
#define CALL_batch(symbol)       CALL(symbol, to, to, sizes, bytes, any, sizes, bytes, sizes, any)
#define CALL_batch_v2(symbol)    CALL(symbol, to, to, sizes, bytes, any, sizes, bytes, any)
#define CALL_alloc(symbol)       CALL(symbol, to, bytes)
#define CALL_alloc_rows(symbol)  CALL(symbol, to, sizes, bytes, bytes, 4u)
#define CALL_alloc_async(symbol) CALL(symbol, to, bytes, any)
#define CALL_alloc_pool(symbol)  CALL(symbol, to, bytes, any, any)
#define CALL_create(symbol)      CALL(symbol, any, bytes, any, (uint64_t)0)
#define CALL_resolve(symbol)     CALL(symbol, "", any, 0, (uint64_t)0)
#define CALL_resolve_v2(symbol)  CALL(symbol, "", any, 0, (uint64_t)0, any)
#define CALL_end(symbol)         CALL(symbol, (ts_cu_device)0)
#define CALL_reset(symbol)       CALL(symbol, (ts_cu_device)0)

/* Some drivers export it; no header tells. */
CUresult cuGetProcAddress_v2_ptsz(const char *name, void **ret_function, int version,
	cuuint64_t flags, CUdriverProcAddressQueryResult *ret_status);

#define CHECK(symbol, kind, which) CALL_##kind(symbol);

void check_all(void *any, CUdeviceptr *to, size_t *sizes, size_t bytes, ts_cu_pointer at);
void check_all(void *any, CUdeviceptr *to, size_t *sizes, size_t bytes, ts_cu_pointer at)
{
	(void)any, (void)to, (void)sizes, (void)bytes, (void)at;
	TS_CUDA_HOOKED(CHECK)
}

#else

static __attribute__((unused)) void call_all(void *any, size_t bytes, ts_cu_pointer at)
{
	size_t *sizes = any;
	CUipcMemHandle handle = {{0}};
	(void)cuMemcpyHtoD(at, any, bytes);
	(void)cuMemcpyHtoDAsync(at, any, bytes, any);
	(void)cuMemcpy(at, at, bytes);
	(void)cuMemcpyAsync(at, at, bytes, any);
	(void)cuMemcpyDtoDAsync(at, at, bytes, any);
	(void)cuMemcpyDtoHAsync(any, at, bytes, any);
	(void)cuMemcpyDtoH(any, at, bytes);
	(void)cuMemHostRegister(any, bytes, 1u);
	(void)cuMemHostUnregister(any);
#if CUDA_VERSION >= 13000
	(void)cuMemcpyBatchAsync(any, any, sizes, bytes, any, sizes, bytes, any);
#elif CUDA_VERSION >= 12080
	(void)cuMemcpyBatchAsync(any, any, sizes, bytes, any, sizes, bytes, sizes, any);
#endif
	(void)cuMemAlloc(any, bytes);
	(void)cuMemGetAddressRange(any, sizes, at);
	(void)cuMemAllocPitch(any, sizes, bytes, bytes, 4u);
	(void)cuMemAllocAsync(any, bytes, any);
	(void)cuMemAllocFromPoolAsync(any, bytes, any, any);
	(void)cuMemCreate(any, bytes, any, (uint64_t)0);
	(void)cuGetProcAddress("", any, 0, (uint64_t)0, any);
	(void)cuStreamIsCapturing(any, any);
	(void)cuStreamGetCtx(any, any);
	(void)cuStreamQuery(any);
	(void)cuIpcOpenMemHandle(any, handle, 1u);
	(void)cuPointerGetAttributes(1u, any, any, at);
	(void)cuDevicePrimaryCtxGetState((ts_cu_device)0, any, any);
	(void)cuDevicePrimaryCtxRetain(any, (ts_cu_device)0);
	(void)cuDeviceGetUuid(any, (ts_cu_device)0);
	(void)cuDriverGetVersion(any);
	(void)cuEventRecord(any, any);
	(void)cuThreadExchangeStreamCaptureMode(any);
}

#endif
