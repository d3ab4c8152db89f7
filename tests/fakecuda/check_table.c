/* SPDX-License-Identifier: MIT */
/*
 * The table of functions against a real cuda.h and cudaTypedefs.h: compiles if they agree.
 * Run by fakecuda.py where these headers are; only compiled, never linked.
 *
 * Each function is declared once more with the table's parameters, which must not contradict
 * the header, and its type must be the one that cudaTypedefs.h has for its base name and
 * version, so a wrong version is an error too.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cudaTypedefs.h>

#include "functions.h"

/* The internal half of the header makes an alias of it. */
#undef cuGetProcAddress_v2

#ifdef CHECK_MISTAKE
#undef FAKE_PTDS
#define FAKE_PTDS(X) \
	X(cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020, (), CUdeviceptr dst, void *src, size_t bytes)
#endif

#define DECLARE(symbol, ...)                   extern CUresult CUDAAPI symbol(__VA_ARGS__);
#define X(symbol, base, since, arguments, ...) DECLARE(symbol, __VA_ARGS__)
FAKE_PLAIN(X)
FAKE_PTDS(X)
FAKE_PTSZ(X)
#undef X
#define X(symbol, base, since, arguments, ...) DECLARE(symbol##_ptds, __VA_ARGS__)
FAKE_PTDS(X)
#undef X
#define X(symbol, base, since, arguments, ...) DECLARE(symbol##_ptsz, __VA_ARGS__)
FAKE_PTSZ(X)
#undef X

#define SAME(symbol, type) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), type), #symbol);
#define X(symbol, base, since, ...) SAME(symbol, PFN_##base##_v##since)
FAKE_PLAIN(X)
FAKE_PTDS(X)
FAKE_PTSZ(X)
#undef X

/* The version that a per-thread twin came with: 7.0, or with the function. */
#define TWIN_2000  7000
#define TWIN_3020  7000
#define TWIN_4000  7000
#define TWIN_5050  7000
#define TWIN_9020  9020
#define TWIN_10000 10000
#define TWIN_10010 10010
#define TWIN_11010 11010
#define TWIN_11020 11020
#define TWIN_12050 12050
#define TWIN_12080 12080
#define TWIN_13000 13000

#define TYPE(base, since, suffix)    PFN_##base##_v##since##_##suffix
#define TYPE_OF(base, since, suffix) TYPE(base, since, suffix)
#define SAME_TWIN(symbol, base, since, suffix) \
	SAME(symbol##_##suffix, TYPE_OF(base, TWIN_##since, suffix))

#define X(symbol, base, since, ...) SAME_TWIN(symbol, base, since, ptds)
FAKE_PTDS(X)
#undef X
#define X(symbol, base, since, ...) SAME_TWIN(symbol, base, since, ptsz)
FAKE_PTSZ(X)
#undef X
