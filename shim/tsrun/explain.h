/* SPDX-License-Identifier: MIT */
/* tsrun explain: what of a running job is shared, what is not and why, and what helps. */
#ifndef TS_TSRUN_EXPLAIN_H
#define TS_TSRUN_EXPLAIN_H

#include "shim/base.h"

/**
 * Print what the running jobs of @group, or of all groups of the user when it is NULL, have
 * said of their loaders; with @pid (not 0) only the job that this process is, or works for.
 * Looks into shared memory and /proc alone: the jobs do not notice.
 *
 * Returns 0, also when no job runs; TS_EXIT_FAILED after a message, as where no job has @pid.
 */
int ts_explain_jobs(const char *group, int pid, bool is_json);

#endif
