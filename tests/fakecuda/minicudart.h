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

/**
 * Copies as a runtime has them; results are the driver's, and one that is not 0 is the thread's
 * last error from then on. Any thread with a context.
 */
CUresult mini_memcpy(
	void *dst, const void *src, size_t bytes, enum mini_kind kind, int per_thread);
CUresult mini_memcpy_async(void *dst, const void *src, size_t bytes, enum mini_kind kind,
	CUstream stream, int per_thread);

/** The last error of this thread, 0 if none: cudaPeekAtLastError, and cudaGetLastError, which
 * forgets it. Calls that succeed leave it as it is. */
CUresult mini_peek_at_last_error(void);
CUresult mini_get_last_error(void);

/* The runtime whose version cudaGetDriverEntryPoint asks for. */
#define MINI_VERSION 13000

/**
 * cudaGetDriverEntryPointByVersion, and with MINI_VERSION cudaGetDriverEntryPoint, which after
 * its documentation differs in nothing else.  @flags: 0 the streams that @per_thread says (the
 * variants with _ptsz), 1 legacy ones, 2 threads'.  No such function is a success, with a
 * *ret_function of NULL and what *ret_status (or NULL) says.  Any thread.
 */
CUresult mini_entry_point(const char *symbol, void **ret_function, int version,
	cuuint64_t flags, CUdriverProcAddressQueryResult *ret_status, int per_thread);

#endif
