/* SPDX-License-Identifier: MIT */
/*
 * The CUDA driver: its interface as far as we use it, which library it is in this process, and
 * its functions.
 *
 * The interface is written down from its documentation (CUDA 11.3 to 13.0), so that a build
 * needs neither headers nor library of CUDA; tests/cuda compares it with a real cuda.h where
 * there is one.
 *
 * The names are those of the exported symbols.  _v2 is another signature than the name
 * without; _ptds and _ptsz mean the calling thread's default stream where others mean the
 * legacy one.
 */
#ifndef TS_HOOKS_CUDA_CUDA_DRIVER_H
#define TS_HOOKS_CUDA_CUDA_DRIVER_H

#include "shim/atomic.h"
#include "shim/base.h"
#include "shim/elf.h"

typedef int ts_cu_result;
typedef int ts_cu_device;
typedef unsigned long long ts_cu_pointer; /* of a device, or since unified addressing any */
_Static_assert(sizeof(ts_cu_pointer) == sizeof(void *), "pointers pass as addresses do");
typedef void *ts_cu_context;
typedef void *ts_cu_stream;
typedef void *ts_cu_event;

struct ts_cu_ipc_handle {
	unsigned char bytes[64];
};

struct ts_cu_uuid {
	unsigned char bytes[16];
};

/* CUmemLocation: of memory that has no place of its own, as managed memory. */
struct ts_cu_location {
	int type, id;
};

/* CUmemcpyAttributes: how some copies of a batch are to be made. */
struct ts_cu_copy_attributes {
	int order; /* in which the source may be read: TS_CU_ORDER_* */
	struct ts_cu_location from, to;
	unsigned flags;
};

/* CUresult */
#define TS_CU_SUCCESS         0
#define TS_CU_INVALID_VALUE   1
#define TS_CU_OUT_OF_MEMORY   2
#define TS_CU_NOT_INITIALIZED 3
#define TS_CU_DEINITIALIZED   4
#define TS_CU_NOT_READY       600
#define TS_CU_NOT_SUPPORTED   801

/* CUpointer_attribute, CUmemorytype, CUdevice_attribute, and flags */
#define TS_CU_ATTRIBUTE_MEMORY_TYPE    2
#define TS_CU_ATTRIBUTE_IS_MANAGED     8
#define TS_CU_ATTRIBUTE_DEVICE_ORDINAL 9
#define TS_CU_ATTRIBUTE_RANGE_START    11
#define TS_CU_ATTRIBUTE_RANGE_SIZE     12
#define TS_CU_MEMORY_DEVICE            2u
#define TS_CU_PAGEABLE_ACCESS          88  /* the GPU reaches pageable memory */
#define TS_CU_HOST_PAGE_TABLES         100 /* the GPU reads pageable memory itself */
#define TS_CU_USE_REGISTERED           91  /* kernels may use addresses of registered memory */
#define TS_CU_CAPTURE_NONE             0
#define TS_CU_CAPTURE_MODE_RELAXED     2
#define TS_CU_EVENT_DISABLE_TIMING     2u
#define TS_CU_IPC_LAZY_PEER_ACCESS     1u
#define TS_CU_REGISTER_PORTABLE        1u /* pinned for all contexts */
#define TS_CU_STREAM_NON_BLOCKING      1u
#define TS_CU_ORDER_STREAM             1 /* when the stream comes to it */
#define TS_CU_ORDER_CALL               2 /* before the call returns */
#define TS_CU_ORDER_ANY                3
#define TS_CU_LOCATION_NONE            0
#define TS_CU_STREAM_LEGACY            ((ts_cu_stream)1)
#define TS_CU_STREAM_PER_THREAD        ((ts_cu_stream)2)

/*
 * The kinds of calls that we stand in front of: what one takes, and how it passes that on to
 * the call of the same kind that stands behind it.  Copies have one kind whatever memory they
 * are between: a pointer of the host is passed as an address of a device is.
 */
#define TS_CU_TAKES_copy  (ts_cu_pointer to, ts_cu_pointer from, size_t bytes)
#define TS_CU_PASSES_copy (to, from, bytes)
#define TS_CU_TAKES_copy_async \
	(ts_cu_pointer to, ts_cu_pointer from, size_t bytes, ts_cu_stream stream)
#define TS_CU_PASSES_copy_async (to, from, bytes, stream)
#define TS_CU_TAKES_batch                                                         \
	(ts_cu_pointer * to, ts_cu_pointer * from, size_t * bytes, size_t count,  \
		struct ts_cu_copy_attributes * attributes, size_t * attribute_at, \
		size_t attribute_count, size_t * ret_failed, ts_cu_stream stream)
#define TS_CU_PASSES_batch \
	(to, from, bytes, count, attributes, attribute_at, attribute_count, ret_failed, stream)
#define TS_CU_TAKES_batch_v2                                                      \
	(ts_cu_pointer * to, ts_cu_pointer * from, size_t * bytes, size_t count,  \
		struct ts_cu_copy_attributes * attributes, size_t * attribute_at, \
		size_t attribute_count, ts_cu_stream stream)
#define TS_CU_PASSES_batch_v2 \
	(to, from, bytes, count, attributes, attribute_at, attribute_count, stream)
#define TS_CU_TAKES_resolve  (const char *name, void **ret_function, int version, uint64_t flags)
#define TS_CU_PASSES_resolve (name, ret_function, version, flags)
#define TS_CU_TAKES_resolve_v2 \
	(const char *name, void **ret_function, int version, uint64_t flags, int *ret_status)
#define TS_CU_PASSES_resolve_v2 (name, ret_function, version, flags, ret_status)
#define TS_CU_TAKES_alloc       (ts_cu_pointer * ret_memory, size_t bytes)
#define TS_CU_PASSES_alloc      (ret_memory, bytes)
#define TS_CU_TAKES_alloc_rows                                                        \
	(ts_cu_pointer * ret_memory, size_t * ret_pitch, size_t width, size_t height, \
		unsigned element)
#define TS_CU_PASSES_alloc_rows  (ret_memory, ret_pitch, width, height, element)
#define TS_CU_TAKES_alloc_async  (ts_cu_pointer * ret_memory, size_t bytes, ts_cu_stream stream)
#define TS_CU_PASSES_alloc_async (ret_memory, bytes, stream)
#define TS_CU_TAKES_alloc_pool \
	(ts_cu_pointer * ret_memory, size_t bytes, void *pool, ts_cu_stream stream)
#define TS_CU_PASSES_alloc_pool (ret_memory, bytes, pool, stream)
#define TS_CU_TAKES_create \
	(unsigned long long *ret_handle, size_t bytes, const void *properties, uint64_t flags)
#define TS_CU_PASSES_create (ret_handle, bytes, properties, flags)
#define TS_CU_TAKES_end     (ts_cu_device device)
#define TS_CU_PASSES_end    (device)
#define TS_CU_TAKES_reset   TS_CU_TAKES_end
#define TS_CU_PASSES_reset  TS_CU_PASSES_end

/*
 * The copies that we stand in front of: symbol, kind of call, and which stream is meant where
 * none is given or it is 0.  These and the ends below are exported, and no others: a program
 * that asks whether there is a driver asks for cuInit or cuGetProcAddress, and must not find
 * ours.
 */
#define TS_CUDA_COPIES(X)                                \
	X(cuMemcpyHtoD_v2, copy, LEGACY)                 \
	X(cuMemcpyHtoD_v2_ptds, copy, THREAD)            \
	X(cuMemcpyHtoDAsync_v2, copy_async, LEGACY)      \
	X(cuMemcpyHtoDAsync_v2_ptsz, copy_async, THREAD) \
	X(cuMemcpy, copy, LEGACY)                        \
	X(cuMemcpy_ptds, copy, THREAD)                   \
	X(cuMemcpyAsync, copy_async, LEGACY)             \
	X(cuMemcpyAsync_ptsz, copy_async, THREAD)        \
	X(cuMemcpyBatchAsync, batch, LEGACY)             \
	X(cuMemcpyBatchAsync_ptsz, batch, THREAD)        \
	X(cuMemcpyBatchAsync_v2, batch_v2, LEGACY)       \
	X(cuMemcpyBatchAsync_v2_ptsz, batch_v2, THREAD)

/*
 * Allocations, which may find no room because of our ring; the same columns.  Not exported:
 * libraries that patch the code of allocations (UCX) shall find the driver's.
 */
#define TS_CUDA_ALLOCATES(X)                                \
	X(cuMemAlloc_v2, alloc, LEGACY)                     \
	X(cuMemAllocPitch_v2, alloc_rows, LEGACY)           \
	X(cuMemAllocAsync, alloc_async, LEGACY)             \
	X(cuMemAllocAsync_ptsz, alloc_async, THREAD)        \
	X(cuMemAllocFromPoolAsync, alloc_pool, LEGACY)      \
	X(cuMemAllocFromPoolAsync_ptsz, alloc_pool, THREAD) \
	X(cuMemCreate, create, LEGACY)

/* How programs find the others.  Only some drivers export the last one. */
#define TS_CUDA_RESOLVERS(X)                       \
	X(cuGetProcAddress, resolve, LEGACY)       \
	X(cuGetProcAddress_v2, resolve_v2, LEGACY) \
	X(cuGetProcAddress_v2_ptsz, resolve_v2, THREAD)

/*
 * The ends of a GPU's memory in this process: ours has to go first.  The runtime of CUDA 13
 * asks for those without a suffix.
 */
#define TS_CUDA_ENDS(X)                              \
	X(cuDevicePrimaryCtxRelease, end, LEGACY)    \
	X(cuDevicePrimaryCtxReset, reset, LEGACY)    \
	X(cuDevicePrimaryCtxRelease_v2, end, LEGACY) \
	X(cuDevicePrimaryCtxReset_v2, reset, LEGACY)

/* Copies back, which write to memory of hooks/cuda/pinned.h; we make them as well. */
#define TS_CUDA_BACK(X)                             \
	X(cuMemcpyDtoH_v2, copy, LEGACY)            \
	X(cuMemcpyDtoH_v2_ptds, copy, THREAD)       \
	X(cuMemcpyDtoHAsync_v2, copy_async, LEGACY) \
	X(cuMemcpyDtoHAsync_v2_ptsz, copy_async, THREAD)

/* For programs that are linked with the driver. */
#define TS_CUDA_EXPORTED(X) TS_CUDA_COPIES(X) TS_CUDA_ENDS(X)

/* Everything that we stand in front of; first what is exported. */
#define TS_CUDA_HOOKED(X) \
	TS_CUDA_EXPORTED(X) TS_CUDA_BACK(X) TS_CUDA_ALLOCATES(X) TS_CUDA_RESOLVERS(X)

/*
 * Other calls that we make ourselves: symbol and parameters.  Without any one of them, or
 * without cuMemAlloc_v2, nothing is shared.
 */
#define TS_CUDA_USED(X)                                                                    \
	X(cuCtxGetCurrent, (ts_cu_context *))                                              \
	X(cuCtxGetDevice, (ts_cu_device *))                                                \
	X(cuPointerGetAttributes, (unsigned, int *, void **, ts_cu_pointer))               \
	X(cuStreamIsCapturing, (ts_cu_stream, int *))                                      \
	X(cuStreamIsCapturing_ptsz, (ts_cu_stream, int *))                                 \
	X(cuMemcpyDtoDAsync_v2, (ts_cu_pointer, ts_cu_pointer, size_t, ts_cu_stream))      \
	X(cuMemcpyDtoDAsync_v2_ptsz, (ts_cu_pointer, ts_cu_pointer, size_t, ts_cu_stream)) \
	X(cuStreamGetCtx, (ts_cu_stream, ts_cu_context *))                                 \
	X(cuStreamQuery, (ts_cu_stream))                                                   \
	X(cuStreamQuery_ptsz, (ts_cu_stream))                                              \
	X(cuStreamSynchronize, (ts_cu_stream))                                             \
	X(cuStreamSynchronize_ptsz, (ts_cu_stream))                                        \
	X(cuStreamCreate, (ts_cu_stream *, unsigned))                                      \
	X(cuStreamDestroy_v2, (ts_cu_stream))                                              \
	X(cuEventCreate, (ts_cu_event *, unsigned))                                        \
	X(cuEventDestroy_v2, (ts_cu_event))                                                \
	X(cuEventQuery, (ts_cu_event))                                                     \
	X(cuEventRecord, (ts_cu_event, ts_cu_stream))                                      \
	X(cuEventRecord_ptsz, (ts_cu_event, ts_cu_stream))                                 \
	X(cuMemHostAlloc, (void **, size_t, unsigned))                                     \
	X(cuMemFreeHost, (void *))                                                         \
	X(cuMemHostRegister_v2, (void *, size_t, unsigned))                                \
	X(cuMemHostUnregister, (void *))                                                   \
	X(cuMemFree_v2, (ts_cu_pointer))                                                   \
	X(cuMemGetAddressRange_v2, (ts_cu_pointer *, size_t *, ts_cu_pointer))             \
	X(cuMemGetInfo_v2, (size_t *, size_t *))                                           \
	X(cuIpcGetMemHandle, (struct ts_cu_ipc_handle *, ts_cu_pointer))                   \
	X(cuIpcOpenMemHandle_v2, (ts_cu_pointer *, struct ts_cu_ipc_handle, unsigned))     \
	X(cuIpcCloseMemHandle, (ts_cu_pointer))                                            \
	X(cuDeviceGetAttribute, (int *, int, ts_cu_device))                                \
	X(cuDeviceGetUuid_v2, (struct ts_cu_uuid *, ts_cu_device))                         \
	X(cuDriverGetVersion, (int *))                                                     \
	X(cuDevicePrimaryCtxGetState, (ts_cu_device, unsigned *, int *))                   \
	X(cuDevicePrimaryCtxRetain, (ts_cu_context *, ts_cu_device))                       \
	X(cuCtxPushCurrent_v2, (ts_cu_context))                                            \
	X(cuCtxPopCurrent_v2, (ts_cu_context *))                                           \
	X(cuThreadExchangeStreamCaptureMode, (int *))

/**
 * Functions of the libcuda.so that this process uses, NULL where it has none of that name.
 * Filled in when the first of them is looked up, and again when that library was unloaded and
 * another one is used.  Constant while the program may call any of them.
 */
struct ts_cuda {
#define TS_X(symbol, kind, stream) ts_cu_result(*_Atomic symbol) TS_CU_TAKES_##kind;
	TS_CUDA_HOOKED(TS_X)
#undef TS_X
#define TS_X(symbol, parameters) ts_cu_result(*_Atomic symbol) parameters;
	TS_CUDA_USED(TS_X)
#undef TS_X
};

extern struct ts_cuda ts_cuda;

/** The driver's own function of that name. */
#define TS_CUDA_DRIVER(symbol) ts_load_relaxed(&ts_cuda.symbol)

/** The same, where @per_thread the one to which stream 0 is the calling thread's. */
#define TS_CUDA_DRIVER_OF(per_thread, symbol) \
	((per_thread) ? TS_CUDA_DRIVER(symbol##_ptsz) : TS_CUDA_DRIVER(symbol))

/** Whether @device has that attribute, and it is not 0. */
static inline bool ts_cuda_device_is(ts_cu_device device, int attribute)
{
	int value = 0;
	return TS_CUDA_DRIVER(cuDeviceGetAttribute)(&value, attribute, device) ==
		       TS_CU_SUCCESS &&
	       value != 0;
}

/** Whether the driver has TS_CUDA_USED, TS_CUDA_BACK and cuMemAlloc_v2, which we call. */
bool ts_cuda_is_complete(void);

/** Whether @object is a driver library, by its name: libcuda.so and what follows. */
bool ts_cuda_is_driver(const struct ts_elf_object *object);

/**
 * Keep the driver library from being unloaded: threads of ours call it. Once, by such a thread
 * before it calls the driver: outside of any lookup, for it takes the loader's lock for long,
 * and more than 4 KiB of stack. false where that cannot be done, or it has been unloaded.
 */
bool ts_cuda_pin(void);

/**
 * Use the functions of @object, a driver library.  Returns whether they are used: where two
 * driver libraries are loaded the first one counts, until it is gone; calls of the other one
 * are left alone.  Threads that come here at once store the same.
 */
bool ts_cuda_bind(const struct ts_elf_object *object);

#endif
