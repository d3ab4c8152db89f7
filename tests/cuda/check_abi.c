/* SPDX-License-Identifier: MIT */
/* hooks/cuda/abi.h against a real cuda.h; compiled only, where there is one. */
#include "hooks/cuda/abi.h"

#include <cuda.h>

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

/* Parameters: pointers to other types are told apart by their number and place only. */
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
	(void)cuEventRecord(any, any);
	(void)cuThreadExchangeStreamCaptureMode(any);
}
