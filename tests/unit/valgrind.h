/* SPDX-License-Identifier: MIT */
/* Tests of what valgrind itself replaces: vfork, /proc/self, page protections. */
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

#endif
