/* SPDX-License-Identifier: MIT */
/*
 * ways WAY [LIBRARY]: reach the driver in one of the ways programs do, copy to the GPU with
 * every variant of every call, and print each result and what arrived.
 *
 *   dlsym         each exported name, from the handle of libcuda.so.1
 *   default       RTLD_DEFAULT, the library loaded for all
 *   program       the handle of the program, likewise
 *   resolve       cuGetProcAddress of 11.3
 *   resolve_v2    cuGetProcAddress of 12.0
 *   resolve_self  either of them, as the other one answers for "cuGetProcAddress"
 *   trampoline    LIBRARY brings functions of these names along and loads the driver itself
 *   global        the same, LIBRARY loaded first and for all, so that the names are its
 *   deepbind      LIBRARY loaded with RTLD_DEEPBIND, of which the C library's dlsym is nearer
 *   deeplinked    the same, LIBRARY linked with libcuda, and telling what it would call
 *   none          asks for the driver in all these ways, and there is none
 *   linked        only as ways-linked, which is linked with libcuda
 *   entry         only as ways-runtime, which is linked with a runtime: by its
 *                 cudaGetDriverEntryPoint; entry_version: ...ByVersion
 *   reload        dlsym; then again, the library unloaded and loaded at another place
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef WAYS_RUNTIME
#include "minicudart.h"
#endif

typedef unsigned long long pointer;
typedef int htod(pointer, const void *, size_t);
typedef int htod_async(pointer, const void *, size_t, void *);
typedef int any(pointer, pointer, size_t);
typedef int any_async(pointer, pointer, size_t, void *);

/* Exported name, base name, version that the runtime asks for, per-thread, kind. */
#define COPIES(X)                                                              \
	X(cuMemcpyHtoD_v2, "cuMemcpyHtoD", 3020, 0, htod)                      \
	X(cuMemcpyHtoD_v2_ptds, "cuMemcpyHtoD", 7000, 2, htod)                 \
	X(cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync", 3020, 0, htod_async)      \
	X(cuMemcpyHtoDAsync_v2_ptsz, "cuMemcpyHtoDAsync", 7000, 2, htod_async) \
	X(cuMemcpy, "cuMemcpy", 4000, 0, any)                                  \
	X(cuMemcpy_ptds, "cuMemcpy", 7000, 2, any)                             \
	X(cuMemcpyAsync, "cuMemcpyAsync", 4000, 0, any_async)                  \
	X(cuMemcpyAsync_ptsz, "cuMemcpyAsync", 7000, 2, any_async)

/* Several copies at once: two interfaces of one name. */
typedef int batch(
	pointer *, pointer *, size_t *, size_t, void *, size_t *, size_t, size_t *, void *);
typedef int batch_v2(pointer *, pointer *, size_t *, size_t, void *, size_t *, size_t, void *);

#define BATCHES(X)                                                         \
	X(cuMemcpyBatchAsync, "cuMemcpyBatchAsync", 12080, 0, batch)       \
	X(cuMemcpyBatchAsync_ptsz, "cuMemcpyBatchAsync", 12080, 2, batch)  \
	X(cuMemcpyBatchAsync_v2, "cuMemcpyBatchAsync", 13000, 0, batch_v2) \
	X(cuMemcpyBatchAsync_v2_ptsz, "cuMemcpyBatchAsync", 13000, 2, batch_v2)

#define ALL(X) COPIES(X) BATCHES(X)

static struct {
#define X(name, base, version, flags, kind) kind *name;
	ALL(X)
#undef X
} copies;

/* The others need no way of their own: nothing stands in front of them. */
static struct {
	int (*cuInit)(unsigned);
	int (*cuDevicePrimaryCtxRetain)(void **, int);
	int (*cuCtxSetCurrent)(void *);
	int (*cuMemAlloc_v2)(pointer *, size_t);
	int (*cuMemsetD8_v2)(pointer, unsigned char, size_t);
	int (*cuMemcpyDtoH_v2)(void *, pointer, size_t);
	int (*cuStreamCreate)(void **, unsigned);
	int (*cuCtxSynchronize)(void);
} driver;

#define LARGE ((size_t)1 << 20)
#define SMALL ((size_t)1 << 12)

static void die(const char *what)
{
	fprintf(stderr, "ways: %s: %s\n", what, dlerror());
	exit(2);
}

static void *need(void *address, const char *name)
{
	if (!address)
		die(name);
	return address;
}

/* ---- ways ------------------------------------------------------------------------------- */

static void by_dlsym(void *handle)
{
#define X(name, base, version, flags, kind) \
	*(void **)&copies.name = need(dlsym(handle, #name), #name);
	ALL(X)
#undef X
}

typedef int resolver(const char *, void **, int, uint64_t);
typedef int resolver_v2(const char *, void **, int, uint64_t, int *);

static void by_resolver(resolver *resolve)
{
#define X(name, base, version, flags, kind)                                            \
	if (resolve(base, (void **)&copies.name, version, flags) != 0 || !copies.name) \
		die(base);
	ALL(X)
#undef X
}

static void by_resolver_v2(resolver_v2 *resolve)
{
	int status;
	void *later = NULL;
#define X(name, base, version, flags, kind)                                                    \
	if (resolve(base, (void **)&copies.name, version, flags, &status) != 0 || status != 0) \
		die(base);
	ALL(X)
#undef X
	printf("unknown: %d", resolve("cuNoSuchFunction", &later, 12000, 0, &status));
	printf(" %d %d\n", status, later != NULL);
	printf("too new: %d", resolve("cuMemcpyHtoD", &later, 999999, 0, &status));
	printf(" %d\n", later != NULL);
}

static void by_resolver_of_resolver(void *handle)
{
	resolver *first;
	resolver_v2 *second = NULL, *last = NULL;
	int status;
	*(void **)&first = need(dlsym(handle, "cuGetProcAddress"), "cuGetProcAddress");
	if (first("cuGetProcAddress", (void **)&second, 12000, 0) != 0 ||
		second("cuGetProcAddress", (void **)&last, 12000, 0, &status) != 0 ||
		second("cuGetProcAddress", (void **)&first, 11030, 0, &status) != 0)
		die("cuGetProcAddress");
	by_resolver_v2(last);
	by_resolver(first);
}

static void by_teller(void *handle)
{
	void *(*tell)(const char *) =
		(void *(*)(const char *))need(dlsym(handle, "deep_tell"), "deep_tell");
#define X(name, base, version, flags, kind) *(void **)&copies.name = need(tell(#name), #name);
	ALL(X)
#undef X
}

#ifdef WAYS_LINKED
#define X(name, base, version, flags, kind) extern kind name;
ALL(X)
#undef X

static void by_link(void)
{
#define X(name, base, version, flags, kind) copies.name = name;
	ALL(X)
#undef X
}
#endif

#ifdef WAYS_RUNTIME
/* The one of 12.8 is not what a runtime of 13.0 answers by itself. */
static void by_entry_point(int by_version)
{
	CUdriverProcAddressQueryResult status;
#define X(name, base, since, flags, kind)                                    \
	if (mini_entry_point(base, (void **)&copies.name,                    \
		    by_version || (since) == 12080 ? (since) : MINI_VERSION, \
		    by_version ? (flags) : 0, &status, (flags) == 2) != 0 || \
		status != 0)                                                 \
		die(base);
	ALL(X)
#undef X
}
#endif

static void fill_driver(void *handle)
{
#define NEED(name) *(void **)&driver.name = need(dlsym(handle, #name), #name)
	NEED(cuInit);
	NEED(cuDevicePrimaryCtxRetain);
	NEED(cuCtxSetCurrent);
	NEED(cuMemAlloc_v2);
	NEED(cuMemsetD8_v2);
	NEED(cuMemcpyDtoH_v2);
	NEED(cuStreamCreate);
	NEED(cuCtxSynchronize);
}

/* ---- copies ----------------------------------------------------------------------------- */

static unsigned char *source, *arrived;
static pointer device;
static void *stream;
static unsigned turn;

static void prepare(void)
{
	for (size_t i = 0; i < LARGE; i++)
		source[i] = (unsigned char)(i * 7 + (i >> 9) * 3 + turn);
	turn++;
	driver.cuMemsetD8_v2(device, 0xee, LARGE);
	driver.cuCtxSynchronize();
}

static void report(const char *name, int result, size_t bytes)
{
	driver.cuCtxSynchronize();
	driver.cuMemcpyDtoH_v2(arrived, device, LARGE);
	printf("%s %zu: %d, %s\n", name, bytes, result,
		memcmp(arrived, source, bytes) == 0 ? "arrived" : "differs");
}

#define ARGUMENTS_htod(bytes)       (device, source, bytes)
#define ARGUMENTS_htod_async(bytes) (device, source, bytes, stream)
#define ARGUMENTS_any(bytes)        (device, (pointer)(uintptr_t)source, bytes)
#define ARGUMENTS_any_async(bytes)  (device, (pointer)(uintptr_t)source, bytes, stream)

static void copy_batches(void)
{
	/* CUmemcpyAttributes: the order in which sources are read, two places, flags. */
	unsigned attributes[6] = {2}; /* during the call */
	size_t bytes = LARGE, at = 0, failed = 77;
	pointer to = device, from = (pointer)(uintptr_t)source;
#define ARGUMENTS_batch    (&to, &from, &bytes, 1, attributes, &at, 1, &failed, stream)
#define ARGUMENTS_batch_v2 (&to, &from, &bytes, 1, attributes, &at, 1, stream)
#define X(name, base, version, flags, kind)                 \
	prepare();                                          \
	report(#name, copies.name ARGUMENTS_##kind, LARGE); \
	printf("failed at %zu\n", failed);
	BATCHES(X)
#undef X
}

static void copy_all(void)
{
#define X(name, base, version, flags, kind)                        \
	prepare();                                                 \
	report(#name, copies.name ARGUMENTS_##kind(LARGE), LARGE); \
	prepare();                                                 \
	report(#name, copies.name ARGUMENTS_##kind(SMALL), SMALL);
	COPIES(X)
#undef X
	copy_batches();
	prepare();
	printf("back: %d\n", copies.cuMemcpy((pointer)(uintptr_t)arrived, device, LARGE));
	printf("nowhere: %d\n", copies.cuMemcpyHtoD_v2(0x10, source, LARGE));
	printf("from nowhere: %d\n", copies.cuMemcpyHtoD_v2(device, NULL, 0));
}

static void work(void)
{
	void *context = NULL;
	if (driver.cuInit(0) != 0 || driver.cuDevicePrimaryCtxRetain(&context, 0) != 0)
		die("cuInit");
	printf("without a context: %d\n", copies.cuMemcpyHtoD_v2(device, source, LARGE));
	if (driver.cuCtxSetCurrent(context) != 0 || driver.cuMemAlloc_v2(&device, LARGE) != 0 ||
		driver.cuStreamCreate(&stream, 1) != 0)
		die("context");
	copy_all();
}

/* ---- ---------------------------------------------------------------------------------- */

static void ask_in_vain(void)
{
	static const char *const names[] = {"cuInit", "cuGetProcAddress", "cuGetProcAddress_v2",
		"cuDeviceGetCount", "cuDriverGetVersion", "cuMemAlloc_v2"};
	void *program = dlopen(NULL, RTLD_NOW);
	printf("library: %d\n", dlopen("libcuda.so.1", RTLD_NOW) != NULL);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		printf("%s: %d %d %d\n", names[i], dlsym(RTLD_DEFAULT, names[i]) != NULL,
			dlsym(RTLD_NEXT, names[i]) != NULL, dlsym(program, names[i]) != NULL);
}

static void reload(void)
{
	void *library = need(dlopen("libcuda.so.1", RTLD_NOW), "libcuda.so.1");
	void *address = dlsym(library, "cuInit");
	Dl_info info;
	by_dlsym(library);
	if (dladdr(address, &info) == 0 || dlclose(library) != 0)
		die("dlclose");
	/* Something else where it was. */
	void *there = mmap(info.dli_fbase, 4096, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	printf("unloaded: %d\n", there == info.dli_fbase);
	library = need(dlopen("libcuda.so.1", RTLD_NOW), "libcuda.so.1");
	fill_driver(library);
	by_dlsym(library);
	printf("moved: %d\n", dlsym(library, "cuInit") != address);
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";
	source = malloc(LARGE);
	arrived = malloc(LARGE);
	if (strcmp(way, "none") == 0) {
		ask_in_vain();
		return fflush(stdout) != 0;
	}
	if (strcmp(way, "reload") == 0) {
		reload();
		work();
		return fflush(stdout) != 0;
	}
	if (strcmp(way, "global") == 0 && argc > 2)
		need(dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL), argv[2]);
	int all = strcmp(way, "default") == 0 || strcmp(way, "program") == 0;
	void *library = need(dlopen("libcuda.so.1", RTLD_NOW | (all ? RTLD_GLOBAL : 0)), way);
	fill_driver(library);
	if (strcmp(way, "dlsym") == 0)
		by_dlsym(library);
	else if (strcmp(way, "default") == 0 || strcmp(way, "global") == 0)
		by_dlsym(RTLD_DEFAULT);
	else if (strcmp(way, "program") == 0)
		by_dlsym(dlopen(NULL, RTLD_NOW));
	else if (strcmp(way, "resolve") == 0)
		by_resolver((resolver *)need(dlsym(library, "cuGetProcAddress"), way));
	else if (strcmp(way, "resolve_v2") == 0)
		by_resolver_v2((resolver_v2 *)need(dlsym(library, "cuGetProcAddress_v2"), way));
	else if (strcmp(way, "resolve_self") == 0)
		by_resolver_of_resolver(library);
	else if (strcmp(way, "trampoline") == 0 && argc > 2)
		by_dlsym(need(dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL), argv[2]));
	else if (strcmp(way, "deepbind") == 0 && argc > 2)
		by_dlsym(need(dlopen(argv[2], RTLD_NOW | RTLD_DEEPBIND), argv[2]));
	else if (strcmp(way, "deeplinked") == 0 && argc > 2)
		by_teller(need(dlopen(argv[2], RTLD_NOW | RTLD_DEEPBIND), argv[2]));
#ifdef WAYS_LINKED
	else if (strcmp(way, "linked") == 0)
		by_link();
#endif
#ifdef WAYS_RUNTIME
	else if (strncmp(way, "entry", 5) == 0)
		by_entry_point(strcmp(way, "entry") != 0);
#endif
	else
		return 2;
	work();
	return fflush(stdout) != 0;
}
