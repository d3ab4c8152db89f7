/* SPDX-License-Identifier: MIT */
/* What Criterion's macros call for assertions; failures go to the runner. */
#ifndef TS_TESTS_UNIT_FORKED_ASSERTIONS_H
#define TS_TESTS_UNIT_FORKED_ASSERTIONS_H

/** Note that an assertion of this process failed; from any thread or child of a test. */
void forked_failure(void);

#endif
