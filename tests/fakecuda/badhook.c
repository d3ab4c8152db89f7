/* SPDX-License-Identifier: MIT */
/*
 * A preload with the mistakes that a hook on copies can make, by BADHOOK; the trainer must
 * find each of them, or it would find none of ours.
 *
 *	nosync   a synchronous copy of pinned memory that does not wait for the device
 *	pin      pageable memory registered under the program's feet, so no copy takes it at the
 *	         call any more
 *	stale    the bytes of the copy before this one
 *	short    the last byte forgotten
 */
#include "test.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static bool is(const char *mistake)
{
	const char *text = getenv("BADHOOK");
	return text && strcmp(text, mistake) == 0;
}

#define REAL(symbol) ((__typeof__(&symbol))dlsym(RTLD_NEXT, #symbol))

/* What the last copy had, for this one. */
static const void *stale(const void *src, size_t bytes)
{
	static unsigned char *last;
	unsigned char *before = last, *now = malloc(bytes);
	if (!now)
		abort();
	memcpy(now, src, bytes);
	last = now;
	return before ? before : now;
}

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t bytes)
{
	if (is("nosync"))
		return REAL(cuMemcpyHtoDAsync_v2)(dst, src, bytes, NULL);
	return REAL(cuMemcpyHtoD_v2)(dst, src, bytes);
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(
	CUdeviceptr dst, const void *src, size_t bytes, CUstream stream)
{
	if (is("pin"))
		(void)cuMemHostRegister_v2((void *)(uintptr_t)src, bytes, 0);
	if (is("stale"))
		src = stale(src, bytes);
	if (is("short"))
		bytes--;
	return REAL(cuMemcpyHtoDAsync_v2)(dst, src, bytes, stream);
}
