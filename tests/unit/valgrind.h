/* SPDX-License-Identifier: MIT */
/* Tests of what valgrind or an emulator itself replaces: vfork, /proc/self, page protections.
 */
#ifndef TS_TESTS_UNIT_VALGRIND_H
#define TS_TESTS_UNIT_VALGRIND_H

#include <criterion/criterion.h>
#include <stdlib.h>

/**
 * Skip the test, loudly, in the valgrind step of scripts/test, which sets
 * TSSHIM_TEST_VALGRIND.  Every such test runs in the plain unit step.
 */
#define NOT_UNDER_VALGRIND(why)                               \
	do {                                                  \
		if (getenv("TSSHIM_TEST_VALGRIND") != NULL)   \
			cr_skip_test("under valgrind: " why); \
	} while (0)

/** The same in the step aarch64, where qemu runs the program: it sets TSSHIM_TEST_EMULATED. */
#define NOT_EMULATED(why)                                   \
	do {                                                \
		if (getenv("TSSHIM_TEST_EMULATED") != NULL) \
			cr_skip_test("in qemu: " why);      \
	} while (0)

#endif
