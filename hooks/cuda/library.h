/* SPDX-License-Identifier: MIT */
/* The driver library of this process: which object it is, and its functions. */
#ifndef TS_HOOKS_CUDA_LIBRARY_H
#define TS_HOOKS_CUDA_LIBRARY_H

#include "hooks/cuda/abi.h"
#include "shim/atomic.h"
#include "shim/elf.h"

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
