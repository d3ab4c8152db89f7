/* SPDX-License-Identifier: MIT */
/* Programs that tsrun runs to their end, for what they print. */
#ifndef TS_TSRUN_CHILD_H
#define TS_TSRUN_CHILD_H

#include "shim/base.h"

#include <limits.h>

/**
 * Run @program with @words (its own name first, NULL at the end) and the environment @env, and
 * give what it prints, at most @bytes - 1 of it, with a NUL; its messages are ours.  It is
 * killed after @within_ns.  Returns its exit status, 128 and more for a signal. Errors:
 * -ETIMEDOUT it was killed; -EFBIG it prints more; those of pipe(2), fork(2).
 */
int ts_child_run(const char *program, const char *const *words, char *const *env,
	uint64_t within_ns, char *ret_text, size_t bytes);

/** Run tsshim-secret, which lies beside the library, the same way, with @words from [1] on. */
int ts_child_run_secret(const char **words, char *ret_text, size_t bytes);

#endif
