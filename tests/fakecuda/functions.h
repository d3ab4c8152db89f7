/* SPDX-License-Identifier: MIT */
/*
 * Every function of the stand-in, once: what it exports, what cuGetProcAddress answers, what
 * the tests ask for, and what is compared with a real cuda.h derive from this table.
 *
 *	X(symbol, base, since, arguments, parameters...)
 *
 * symbol: the exported name; base: what cuGetProcAddress is asked for; since: the version of
 * CUDA that had this binary interface first, after cudaTypedefs.h.  The functions of the lists
 * PTDS and PTSZ are there a second time, with that suffix and per-thread default stream, since
 * 7.0.  S() makes of a stream that may be 0 the one that this variant means.
 */
#ifndef TS_TESTS_FAKECUDA_FUNCTIONS_H
#define TS_TESTS_FAKECUDA_FUNCTIONS_H

/* clang-format off */
/* No default stream is in question. */
#define FAKE_PLAIN(X) \
	X(cuInit, cuInit, 2000, (flags), unsigned int flags) \
	X(cuDriverGetVersion, cuDriverGetVersion, 2020, (version), int *version) \
	X(cuGetErrorName, cuGetErrorName, 6000, (error, text), CUresult error, const char **text) \
	X(cuGetErrorString, cuGetErrorString, 6000, (error, text), \
		CUresult error, const char **text) \
	FAKE_PLAIN_RESOLVERS(X) \
	X(cuGetExportTable, cuGetExportTable, 3000, (table, id), \
		const void **table, const CUuuid *id) \
	FAKE_PLAIN_DEVICE(X) FAKE_PLAIN_CONTEXT(X) FAKE_PLAIN_MEMORY(X) FAKE_PLAIN_STREAM(X)

#ifdef FAKE_OLD_RESOLVER
/* A driver that knows cuGetProcAddress of 11.3 only, so a newer runtime goes by dlsym. */
#define FAKE_PLAIN_RESOLVERS(X) \
	X(cuGetProcAddress, cuGetProcAddress, 11030, (symbol, function, version, flags), \
		const char *symbol, void **function, int version, cuuint64_t flags)
#else
#define FAKE_PLAIN_RESOLVERS(X) \
	X(cuGetProcAddress, cuGetProcAddress, 11030, (symbol, function, version, flags), \
		const char *symbol, void **function, int version, cuuint64_t flags) \
	FAKE_PLAIN_THREAD_RESOLVER(X) \
	X(cuGetProcAddress_v2, cuGetProcAddress, 12000, \
		(symbol, function, version, flags, status), \
		const char *symbol, void **function, int version, cuuint64_t flags, \
		CUdriverProcAddressQueryResult *status)
#endif

#ifdef FAKE_FUTURE
/* Some drivers have it, no header declares it: without flags it means threads' streams. */
#define FAKE_PLAIN_THREAD_RESOLVER(X) \
	X(cuGetProcAddress_v2_ptsz, cuGetProcAddress_v2_ptsz, 12000, \
		(symbol, function, version, flags, status), \
		const char *symbol, void **function, int version, cuuint64_t flags, \
		CUdriverProcAddressQueryResult *status)
#else
#define FAKE_PLAIN_THREAD_RESOLVER(X)
#endif

#define FAKE_PLAIN_DEVICE(X) \
	X(cuDeviceGetCount, cuDeviceGetCount, 2000, (count), int *count) \
	X(cuDeviceGet, cuDeviceGet, 2000, (device, ordinal), CUdevice *device, int ordinal) \
	X(cuDeviceGetName, cuDeviceGetName, 2000, (name, size, device), \
		char *name, int size, CUdevice device) \
	X(cuDeviceGetUuid, cuDeviceGetUuid, 9020, (uuid, device), CUuuid *uuid, CUdevice device) \
	X(cuDeviceGetUuid_v2, cuDeviceGetUuid, 11040, (uuid, device), \
		CUuuid *uuid, CUdevice device) \
	X(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000, (value, attribute, device), \
		int *value, CUdevice_attribute attribute, CUdevice device) \
	X(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, 4010, (text, size, device), \
		char *text, int size, CUdevice device) \
	X(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, 4000, (can, device, peer), \
		int *can, CUdevice device, CUdevice peer) \
	X(cuDeviceGetP2PAttribute, cuDeviceGetP2PAttribute, 8000, \
		(value, attribute, device, peer), \
		int *value, CUdevice_P2PAttribute attribute, CUdevice device, CUdevice peer)

#define FAKE_PLAIN_CONTEXT(X) \
	X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, (context, device), \
		CUcontext *context, CUdevice device) \
	X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000, (device), \
		CUdevice device) \
	X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 7000, (device), \
		CUdevice device) \
	X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000, (device), \
		CUdevice device) \
	X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, (device), \
		CUdevice device) \
	X(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000, \
		(device, flags, active), CUdevice device, unsigned int *flags, int *active) \
	X(cuCtxCreate_v2, cuCtxCreate, 3020, (context, flags, device), \
		CUcontext *context, unsigned int flags, CUdevice device) \
	X(cuCtxDestroy_v2, cuCtxDestroy, 4000, (context), CUcontext context) \
	X(cuCtxGetCurrent, cuCtxGetCurrent, 4000, (context), CUcontext *context) \
	X(cuCtxSetCurrent, cuCtxSetCurrent, 4000, (context), CUcontext context) \
	X(cuCtxPushCurrent_v2, cuCtxPushCurrent, 4000, (context), CUcontext context) \
	X(cuCtxPopCurrent_v2, cuCtxPopCurrent, 4000, (context), CUcontext *context) \
	X(cuCtxGetDevice, cuCtxGetDevice, 2000, (device), CUdevice *device) \
	X(cuCtxGetDevice_v2, cuCtxGetDevice, 13000, (device, context), \
		CUdevice *device, CUcontext context) \
	X(cuCtxSynchronize, cuCtxSynchronize, 2000, (), void) \
	X(cuCtxSynchronize_v2, cuCtxSynchronize, 13000, (context), CUcontext context) \
	X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000, (peer, flags), \
		CUcontext peer, unsigned int flags)

#define FAKE_PLAIN_MEMORY(X) \
	X(cuMemAlloc_v2, cuMemAlloc, 3020, (pointer, bytes), CUdeviceptr *pointer, size_t bytes) \
	X(cuMemAllocPitch_v2, cuMemAllocPitch, 3020, (pointer, pitch, width, height, element), \
		CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, \
		unsigned int element) \
	X(cuMemFree_v2, cuMemFree, 3020, (pointer), CUdeviceptr pointer) \
	X(cuMemCreate, cuMemCreate, 10020, (handle, bytes, properties, flags), \
		CUmemGenericAllocationHandle *handle, size_t bytes, \
		const CUmemAllocationProp *properties, unsigned long long flags) \
	X(cuMemRelease, cuMemRelease, 10020, (handle), CUmemGenericAllocationHandle handle) \
	X(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity, 10020, \
		(granularity, properties, option), size_t *granularity, \
		const CUmemAllocationProp *properties, CUmemAllocationGranularity_flags option) \
	X(cuMemAddressReserve, cuMemAddressReserve, 10020, \
		(pointer, bytes, alignment, address, flags), CUdeviceptr *pointer, size_t bytes, \
		size_t alignment, CUdeviceptr address, unsigned long long flags) \
	X(cuMemMap, cuMemMap, 10020, (pointer, bytes, offset, handle, flags), \
		CUdeviceptr pointer, size_t bytes, size_t offset, \
		CUmemGenericAllocationHandle handle, unsigned long long flags) \
	X(cuMemSetAccess, cuMemSetAccess, 10020, (pointer, bytes, access, count), \
		CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *access, size_t count) \
	X(cuMemExportToShareableHandle, cuMemExportToShareableHandle, 10020, \
		(shareable, handle, type, flags), void *shareable, \
		CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, \
		unsigned long long flags) \
	X(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle, 10020, \
		(handle, shareable, type), CUmemGenericAllocationHandle *handle, \
		void *shareable, CUmemAllocationHandleType type) \
	X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020, (pool, device), \
		CUmemoryPool *pool, CUdevice device) \
	X(cuMemGetAddressRange_v2, cuMemGetAddressRange, 3020, (base, bytes, pointer), \
		CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer) \
	X(cuMemGetInfo_v2, cuMemGetInfo, 3020, (available, total), \
		size_t *available, size_t *total) \
	X(cuMemHostAlloc, cuMemHostAlloc, 2020, (address, bytes, flags), \
		void **address, size_t bytes, unsigned int flags) \
	X(cuMemFreeHost, cuMemFreeHost, 2000, (address), void *address) \
	X(cuMemHostRegister_v2, cuMemHostRegister, 6050, (address, bytes, flags), \
		void *address, size_t bytes, unsigned int flags) \
	X(cuMemHostUnregister, cuMemHostUnregister, 4000, (address), void *address) \
	X(cuMemHostGetDevicePointer_v2, cuMemHostGetDevicePointer, 3020, \
		(pointer, address, flags), \
		CUdeviceptr *pointer, void *address, unsigned int flags) \
	X(cuMemHostGetFlags, cuMemHostGetFlags, 2030, (flags, address), \
		unsigned int *flags, void *address) \
	X(cuPointerGetAttribute, cuPointerGetAttribute, 4000, (data, attribute, pointer), \
		void *data, CUpointer_attribute attribute, CUdeviceptr pointer) \
	X(cuPointerGetAttributes, cuPointerGetAttributes, 7000, \
		(count, attributes, data, pointer), \
		unsigned int count, CUpointer_attribute *attributes, void **data, \
		CUdeviceptr pointer) \
	X(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, (handle, pointer), \
		CUipcMemHandle *handle, CUdeviceptr pointer) \
	X(cuIpcOpenMemHandle, cuIpcOpenMemHandle, 4010, (pointer, handle, flags), \
		CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags) \
	X(cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle, 11000, (pointer, handle, flags), \
		CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags) \
	X(cuIpcCloseMemHandle, cuIpcCloseMemHandle, 4010, (pointer), CUdeviceptr pointer)

#define FAKE_PLAIN_STREAM(X) \
	X(cuStreamCreate, cuStreamCreate, 2000, (stream, flags), \
		CUstream *stream, unsigned int flags) \
	X(cuStreamCreateWithPriority, cuStreamCreateWithPriority, 5050, \
		(stream, flags, priority), \
		CUstream *stream, unsigned int flags, int priority) \
	X(cuStreamDestroy_v2, cuStreamDestroy, 4000, (stream), CUstream stream) \
	X(cuEventCreate, cuEventCreate, 2000, (event, flags), \
		CUevent *event, unsigned int flags) \
	X(cuEventDestroy_v2, cuEventDestroy, 4000, (event), CUevent event) \
	X(cuEventQuery, cuEventQuery, 2000, (event), CUevent event) \
	X(cuEventSynchronize, cuEventSynchronize, 2000, (event), CUevent event) \
	X(cuEventElapsedTime, cuEventElapsedTime, 2000, (milliseconds, begin, end), \
		float *milliseconds, CUevent begin, CUevent end) \
	X(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, 10010, (mode), \
		CUstreamCaptureMode *mode) \
	X(cuGraphDestroy, cuGraphDestroy, 10000, (graph), CUgraph graph) \
	X(cuGraphExecDestroy, cuGraphExecDestroy, 10000, (exec), CUgraphExec exec) \
	X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040, \
		(exec, graph, flags), \
		CUgraphExec *exec, CUgraph graph, unsigned long long flags)

/* Synchronous calls: they work in a default stream, of which no parameter tells. */
#define FAKE_PTDS(X) \
	X(cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020, (dst, src, bytes, S(NULL)), \
		CUdeviceptr dst, const void *src, size_t bytes) \
	X(cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020, (dst, src, bytes, S(NULL)), \
		void *dst, CUdeviceptr src, size_t bytes) \
	X(cuMemcpyDtoD_v2, cuMemcpyDtoD, 3020, (dst, src, bytes, S(NULL)), \
		CUdeviceptr dst, CUdeviceptr src, size_t bytes) \
	X(cuMemcpy, cuMemcpy, 4000, (dst, src, bytes, S(NULL)), \
		CUdeviceptr dst, CUdeviceptr src, size_t bytes) \
	X(cuMemsetD8_v2, cuMemsetD8, 3020, (dst, value, bytes, S(NULL)), \
		CUdeviceptr dst, unsigned char value, size_t bytes)

#define FAKE_PTSZ(X) FAKE_PTSZ_COPY(X) FAKE_PTSZ_MEMORY(X) FAKE_PTSZ_STREAM(X) FAKE_PTSZ_FUTURE(X)

#ifdef FAKE_FUTURE
/* Of no driver that there is: what a hook has never heard of must reach it as it is. */
#define FAKE_PTSZ_FUTURE(X) \
	X(cuMemcpyHtoDAsync_v3, cuMemcpyHtoDAsync, 14000, (dst, src, bytes, flags, S(stream)), \
		CUdeviceptr dst, const void *src, size_t bytes, unsigned int flags, \
		CUstream stream)
#else
#define FAKE_PTSZ_FUTURE(X)
#endif

#define FAKE_PTSZ_COPY(X) \
	X(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, 3020, (dst, src, bytes, S(stream)), \
		CUdeviceptr dst, const void *src, size_t bytes, CUstream stream) \
	X(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, 3020, (dst, src, bytes, S(stream)), \
		void *dst, CUdeviceptr src, size_t bytes, CUstream stream) \
	X(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, 3020, (dst, src, bytes, S(stream)), \
		CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) \
	X(cuMemcpyAsync, cuMemcpyAsync, 4000, (dst, src, bytes, S(stream)), \
		CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) \
	X(cuMemsetD8Async, cuMemsetD8Async, 3020, (dst, value, bytes, S(stream)), \
		CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream) \
	X(cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000, \
		(dst, dst_context, src, src_context, bytes, S(stream)), \
		CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, \
		CUcontext src_context, size_t bytes, CUstream stream) \
	X(cuMemcpy2DAsync_v2, cuMemcpy2DAsync, 3020, (copy, S(stream)), \
		const CUDA_MEMCPY2D *copy, CUstream stream) \
	X(cuMemcpyBatchAsync, cuMemcpyBatchAsync, 12080, \
		(dsts, srcs, sizes, count, attributes, from, attribute_count, failed, \
			S(stream)), \
		CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, \
		CUmemcpyAttributes *attributes, size_t *from, size_t attribute_count, \
		size_t *failed, CUstream stream) \
	X(cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync, 13000, \
		(dsts, srcs, sizes, count, attributes, from, attribute_count, S(stream)), \
		CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, \
		CUmemcpyAttributes *attributes, size_t *from, size_t attribute_count, \
		CUstream stream)

#define FAKE_PTSZ_MEMORY(X) \
	X(cuMemAllocAsync, cuMemAllocAsync, 11020, (pointer, bytes, S(stream)), \
		CUdeviceptr *pointer, size_t bytes, CUstream stream) \
	X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, \
		(pointer, bytes, pool, S(stream)), \
		CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream) \
	X(cuMemFreeAsync, cuMemFreeAsync, 11020, (pointer, S(stream)), \
		CUdeviceptr pointer, CUstream stream)

#define FAKE_PTSZ_STREAM(X) \
	X(cuStreamSynchronize, cuStreamSynchronize, 2000, (S(stream)), CUstream stream) \
	X(cuStreamQuery, cuStreamQuery, 2000, (S(stream)), CUstream stream) \
	X(cuStreamWaitEvent, cuStreamWaitEvent, 3020, (S(stream), event, flags), \
		CUstream stream, CUevent event, unsigned int flags) \
	X(cuStreamGetCtx, cuStreamGetCtx, 9020, (S(stream), context), \
		CUstream stream, CUcontext *context) \
	X(cuStreamGetCtx_v2, cuStreamGetCtx, 12050, (S(stream), context, green), \
		CUstream stream, CUcontext *context, CUgreenCtx *green) \
	X(cuStreamGetFlags, cuStreamGetFlags, 5050, (S(stream), flags), \
		CUstream stream, unsigned int *flags) \
	X(cuStreamGetPriority, cuStreamGetPriority, 5050, (S(stream), priority), \
		CUstream stream, int *priority) \
	X(cuEventRecord, cuEventRecord, 2000, (event, S(stream)), \
		CUevent event, CUstream stream) \
	X(cuLaunchHostFunc, cuLaunchHostFunc, 10000, (S(stream), function, data), \
		CUstream stream, CUhostFn function, void *data) \
	X(cuStreamIsCapturing, cuStreamIsCapturing, 10000, (S(stream), status), \
		CUstream stream, CUstreamCaptureStatus *status) \
	X(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, (S(stream), mode), \
		CUstream stream, CUstreamCaptureMode mode) \
	X(cuStreamEndCapture, cuStreamEndCapture, 10000, (S(stream), graph), \
		CUstream stream, CUgraph *graph) \
	X(cuGraphLaunch, cuGraphLaunch, 10000, (exec, S(stream)), \
		CUgraphExec exec, CUstream stream)
/* clang-format on */

#endif
