/* SPDX-License-Identifier: MIT */
/* The runtime in miniature; see minicudart.h. */
#include "minicudart.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

typedef CUresult (*resolver)(
	const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static struct mini_driver legacy, per_thread_streams;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static resolver resolve;
static int asked, found;
static _Thread_local CUresult last_error;

#define TWIN(since) ((since) > 7000 ? (since) : 7000)

/* What is asked for and where it goes; the twin's row has flag 2 and its own name. */
static const struct row {
	const char *symbol, *base;
	int version;
	cuuint64_t flags;
	void *place;
} rows[] = {
#define X(symbol, base, since, ...) {#symbol, #base, since, 0, &legacy.symbol},
	FAKE_PLAIN(X) FAKE_PTDS(X) FAKE_PTSZ(X)
#undef X
#define X(symbol, base, since, ...) {#symbol, #base, since, 0, &per_thread_streams.symbol},
		FAKE_PLAIN(X)
#undef X
#define X(symbol, base, since, ...) \
	{#symbol "_ptds", #base, TWIN(since), 2, &per_thread_streams.symbol},
			FAKE_PTDS(X)
#undef X
#define X(symbol, base, since, ...) \
	{#symbol "_ptsz", #base, TWIN(since), 2, &per_thread_streams.symbol},
				FAKE_PTSZ(X)
#undef X
};

/* A runtime asks for all that it could ever need. */
static const struct {
	const char *base;
	int version;
	cuuint64_t flags;
} others[] = {
	{"cuArrayCreate", 3020, 0},
	{"cuFuncGetAttribute", 2020, 0},
	{"cuGraphAddMemcpyNode", 10000, 0},
	{"cuLaunchKernel", 4000, 0},
	{"cuLaunchKernel", 7000, 2},
	{"cuLaunchKernelEx", 11060, 2},
	{"cuMemPoolCreate", 11020, 0},
	{"cuMemPrefetchAsync", 12020, 2},
	{"cuMemcpy3D", 3020, 0},
	{"cuMemcpy3DPeerAsync", 7000, 2},
	{"cuMemcpy3DBatchAsync", 12080, 0},
	{"cuMemcpy3DBatchAsync", 13000, 0},
	{"cuModuleLoadData", 2000, 0},
	{"cuStreamUpdateCaptureDependencies", 12030, 2},
	{"cuTexObjectCreate", 5000, 0},
	{"cuNoSuchFunction", 13000, 0},
};

static void ask(const char *base, int version, cuuint64_t flags, void *place)
{
	void *function = NULL;
	CUdriverProcAddressQueryResult status;
	asked++;
	if (resolve(base, &function, version, flags, &status) != CUDA_SUCCESS ||
		status != CU_GET_PROC_ADDRESS_SUCCESS || !function)
		return;
	found++;
	if (place)
		*(void **)place = function;
}

static void fetch_by_resolver(void)
{
	ask("", 0, 0, NULL);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ask(rows[i].base, rows[i].version, rows[i].flags, rows[i].place);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		ask(others[i].base, others[i].version, others[i].flags, NULL);
}

static void fetch_by_name(void *library)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		void *function = dlsym(library, rows[i].symbol);
		asked++;
		if (!function)
			continue;
		found++;
		*(void **)rows[i].place = function;
	}
}

static void fetch(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library) {
		fprintf(stderr, "minicudart: no driver: %s\n", dlerror());
		return;
	}
	*(void **)&resolve = dlsym(library, "cuGetProcAddress_v2");
	if (resolve)
		fetch_by_resolver();
	else
		fetch_by_name(library);
}

EXPORT const struct mini_driver *mini_driver(int per_thread)
{
	pthread_once(&once, fetch);
	return per_thread ? &per_thread_streams : &legacy;
}

EXPORT void mini_requests(int *ret_asked, int *ret_found)
{
	pthread_once(&once, fetch);
	*ret_asked = asked;
	*ret_found = found;
}

static CUresult note(CUresult result)
{
	if (result != CUDA_SUCCESS)
		last_error = result;
	return result;
}

static CUresult copy(
	void *dst, const void *src, size_t bytes, enum mini_kind kind, int per_thread)
{
	const struct mini_driver *driver = mini_driver(per_thread);
	switch (kind) {
	case MINI_HOST_TO_DEVICE:
		return driver->cuMemcpyHtoD_v2((uintptr_t)dst, src, bytes);
	case MINI_DEVICE_TO_HOST:
		return driver->cuMemcpyDtoH_v2(dst, (uintptr_t)src, bytes);
	case MINI_DEVICE_TO_DEVICE:
		return driver->cuMemcpyDtoD_v2((uintptr_t)dst, (uintptr_t)src, bytes);
	default:
		return driver->cuMemcpy((uintptr_t)dst, (uintptr_t)src, bytes);
	}
}

static CUresult copy_async(void *dst, const void *src, size_t bytes, enum mini_kind kind,
	CUstream stream, int per_thread)
{
	const struct mini_driver *driver = mini_driver(per_thread);
	switch (kind) {
	case MINI_HOST_TO_DEVICE:
		return driver->cuMemcpyHtoDAsync_v2((uintptr_t)dst, src, bytes, stream);
	case MINI_DEVICE_TO_HOST:
		return driver->cuMemcpyDtoHAsync_v2(dst, (uintptr_t)src, bytes, stream);
	case MINI_DEVICE_TO_DEVICE:
		return driver->cuMemcpyDtoDAsync_v2(
			(uintptr_t)dst, (uintptr_t)src, bytes, stream);
	default:
		return driver->cuMemcpyAsync((uintptr_t)dst, (uintptr_t)src, bytes, stream);
	}
}

EXPORT CUresult mini_memcpy(
	void *dst, const void *src, size_t bytes, enum mini_kind kind, int per_thread)
{
	return note(copy(dst, src, bytes, kind, per_thread));
}

EXPORT CUresult mini_memcpy_async(void *dst, const void *src, size_t bytes, enum mini_kind kind,
	CUstream stream, int per_thread)
{
	return note(copy_async(dst, src, bytes, kind, stream, per_thread));
}

EXPORT CUresult mini_peek_at_last_error(void)
{
	return last_error;
}

EXPORT CUresult mini_get_last_error(void)
{
	CUresult result = last_error;
	last_error = CUDA_SUCCESS;
	return result;
}

EXPORT CUresult mini_entry_point(const char *symbol, void **ret_function, int version,
	cuuint64_t flags, CUdriverProcAddressQueryResult *ret_status, int per_thread)
{
	CUdriverProcAddressQueryResult ignored;
	pthread_once(&once, fetch);
	if (!resolve)
		return note(CUDA_ERROR_NOT_FOUND);
	if (!symbol || !ret_function || flags > 2)
		return note(CUDA_ERROR_INVALID_VALUE);
	if (flags == 0)
		flags = per_thread ? 2 : 1;
	return note(resolve(
		symbol, ret_function, version, flags, ret_status ? ret_status : &ignored));
}
