/* SPDX-License-Identifier: MIT */
/*
 * Functions called like the driver's that load the driver themselves at the first call, as the
 * stubs of TensorFlow and XLA do.
 */
#include <dlfcn.h>
#include <stddef.h>

typedef unsigned long long pointer;

static void *find(const char *name)
{
	static void *driver;
	if (!driver)
		driver = dlopen("libcuda.so.1", RTLD_LAZY);
	return driver ? dlsym(driver, name) : NULL;
}

#define TRAMPOLINE(name, parameters, arguments)        \
	int name parameters;                           \
	int name parameters                            \
	{                                              \
		static int(*real) parameters;          \
		if (!real)                             \
			*(void **)&real = find(#name); \
		return real ? real arguments : 3;      \
	}

#define HTOD(name) TRAMPOLINE(name, (pointer a, const void *b, size_t c), (a, b, c))
#define ANY(name)  TRAMPOLINE(name, (pointer a, pointer b, size_t c), (a, b, c))
#define HTOD_ASYNC(name) \
	TRAMPOLINE(name, (pointer a, const void *b, size_t c, void *d), (a, b, c, d))
#define ANY_ASYNC(name) \
	TRAMPOLINE(name, (pointer a, pointer b, size_t c, void *d), (a, b, c, d))
#define BATCH(name)                                                                            \
	TRAMPOLINE(name,                                                                       \
		(pointer * a, pointer * b, size_t * c, size_t d, void *e, size_t *f, size_t g, \
			size_t *h, void *i),                                                   \
		(a, b, c, d, e, f, g, h, i))
#define BATCH_V2(name)                                                                         \
	TRAMPOLINE(name,                                                                       \
		(pointer * a, pointer * b, size_t * c, size_t d, void *e, size_t *f, size_t g, \
			void *h),                                                              \
		(a, b, c, d, e, f, g, h))

HTOD(cuMemcpyHtoD_v2)
HTOD(cuMemcpyHtoD_v2_ptds)
HTOD_ASYNC(cuMemcpyHtoDAsync_v2)
HTOD_ASYNC(cuMemcpyHtoDAsync_v2_ptsz)
ANY(cuMemcpy)
ANY(cuMemcpy_ptds)
ANY_ASYNC(cuMemcpyAsync)
ANY_ASYNC(cuMemcpyAsync_ptsz)
BATCH(cuMemcpyBatchAsync)
BATCH(cuMemcpyBatchAsync_ptsz)
BATCH_V2(cuMemcpyBatchAsync_v2)
BATCH_V2(cuMemcpyBatchAsync_v2_ptsz)
