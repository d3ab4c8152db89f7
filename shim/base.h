/* SPDX-License-Identifier: MIT */
/* Small things every file may use: attributes, bounds, cleanup helpers. */
#ifndef TS_SHIM_BASE_H
#define TS_SHIM_BASE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The only way a symbol becomes visible outside libtsshim.so; a test compares the list. */
#define TS_EXPORT __attribute__((visibility("default")))

#define TS_COLD          __attribute__((cold, noinline))
#define TS_NOINLINE      __attribute__((noinline))
#define TS_PRINTF(f, a)  __attribute__((format(printf, f, a)))
#define TS_UNUSED        __attribute__((unused))
#define TS_LIKELY(x)     __builtin_expect(!!(x), 1)
#define TS_UNLIKELY(x)   __builtin_expect(!!(x), 0)
#define TS_CACHE_LINE    64
#define TS_PAGE_BYTES    4096u
#define TS_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Initial-exec TLS: general-dynamic access calls __tls_get_addr, which may malloc. */
#define TS_THREAD_LOCAL static __thread __attribute__((tls_model("initial-exec")))

/* Smallest multiple of @step (a power of two) that is not below @value. */
static inline uint64_t ts_align_up(uint64_t value, uint64_t step)
{
	return (value + step - 1) & ~(step - 1);
}

static inline uint64_t ts_min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t ts_max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

#endif
