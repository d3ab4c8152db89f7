/* SPDX-License-Identifier: MIT */
/*
 * A runtime in miniature: reaches the driver as libcudart 13 does, so that what hooks the
 * driver meets the same calls, without any of NVIDIA's code.
 *
 * All pointers are fetched at the first call and kept.  First dlopen("libcuda.so.1") and one
 * dlsym, for cuGetProcAddress_v2; with that a request of no name, whose error is ignored, then
 * every function by base name, the version it came with, and flag 2 for the variants with
 * per-thread default streams.  Without cuGetProcAddress_v2 everything by dlsym, by exported
 * name.  The real one makes 440 requests, this one for the functions of functions.h and for
 * some that the stand-in does not have.
 */
#ifndef TS_TESTS_FAKECUDA_MINICUDART_H
#define TS_TESTS_FAKECUDA_MINICUDART_H

#include "cuda_abi.h"
#include "functions.h"

/* The driver's functions under their exported names; NULL where there is none. */
struct mini_driver {
#define X(symbol, base, since, arguments, ...) CUresult (*symbol)(__VA_ARGS__);
	FAKE_PLAIN(X) FAKE_PTDS(X) FAKE_PTSZ(X)
#undef X
};

enum mini_kind {
	MINI_HOST_TO_DEVICE = 1,
	MINI_DEVICE_TO_HOST = 2,
	MINI_DEVICE_TO_DEVICE = 3,
	MINI_DEFAULT = 4, /* the addresses tell */
};

/** The functions; @per_thread: the variants whose default stream is the thread's. Any thread.
 */
const struct mini_driver *mini_driver(int per_thread);

/** How many addresses were asked for, and how many there were. */
void mini_requests(int *ret_asked, int *ret_found);

/** Copies as a runtime has them; results are the driver's. Any thread with a context. */
CUresult mini_memcpy(
	void *dst, const void *src, size_t bytes, enum mini_kind kind, int per_thread);
CUresult mini_memcpy_async(void *dst, const void *src, size_t bytes, enum mini_kind kind,
	CUstream stream, int per_thread);

#endif
