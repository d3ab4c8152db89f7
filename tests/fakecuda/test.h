/* SPDX-License-Identifier: MIT */
/*
 * For the tests of the stand-in: each runs in a process of its own, with settings of its own,
 * because a driver reads its environment once.
 */
#ifndef TS_TESTS_FAKECUDA_TEST_H
#define TS_TESTS_FAKECUDA_TEST_H

#include "cuda_abi.h"
#include "functions.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define X(symbol, base, since, arguments, ...) extern CUresult symbol(__VA_ARGS__);
FAKE_PLAIN(X)
FAKE_PTDS(X)
FAKE_PTSZ(X)
#undef X
#define X(symbol, base, since, arguments, ...) extern CUresult symbol##_ptds(__VA_ARGS__);
FAKE_PTDS(X)
#undef X
#define X(symbol, base, since, arguments, ...) extern CUresult symbol##_ptsz(__VA_ARGS__);
FAKE_PTSZ(X)
#undef X

struct test {
	const char *name;
	const char *settings; /* "DELAY_US=30000 DEVICES=2", without their FAKECUDA_ */
	void (*run)(void);
};

/** Run all of @tests, up to one without a name, and print TAP. Returns main's status. */
int test_main(const struct test *tests);

/** Say what is wrong and end the test. */
_Noreturn void test_fail(const char *file, int line, const char *what, long got);

#define CHECK(condition)                                              \
	do {                                                          \
		if (!(condition))                                     \
			test_fail(__FILE__, __LINE__, #condition, 0); \
	} while (0)

/* The call must give this result. */
#define IS(expected, call)                                          \
	do {                                                        \
		CUresult got_ = (call);                             \
		if (got_ != (expected))                             \
			test_fail(__FILE__, __LINE__, #call, got_); \
	} while (0)

#define OK(call) IS(CUDA_SUCCESS, call)

/* One operation of a stream takes this long in tests of what waits for what, on a clock that
 * passes when the test waits. */
#define SLOW    "VIRTUAL_CLOCK=1 DELAY_US=60000"
#define SLOW_US 60000

/** Initialise, and make device @device's primary context current. */
CUcontext test_begin(int device);
/** New device memory, filled with @value and that done. */
CUdeviceptr test_device(size_t bytes, int value);
/** New pinned memory, filled. */
unsigned char *test_pinned(size_t bytes, int value);
/** The value that all of @bytes have, once all work is done; -1 if they differ. */
int test_value(CUdeviceptr pointer, size_t bytes);
int test_host_value(const unsigned char *memory, size_t bytes);
/** Microseconds since some moment. */
int64_t test_now_us(void);
/** The same of the driver's virtual clock, exactly. */
int64_t test_clock_us(void);
/** A counter of the file that the settings name. */
uint64_t test_counter(const char *name);

/** Run @other in a process of its own, before this one has touched the driver; the two are
 * joined by @fd.  The test fails if the other does. */
pid_t test_fork(void (*other)(int fd), int *ret_fd);
void test_join(pid_t pid);
void test_send(int fd, const void *bytes, size_t size);
void test_receive(int fd, void *bytes, size_t size);

#endif
