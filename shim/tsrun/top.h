/* SPDX-License-Identifier: MIT */
/* tsrun top: what the jobs of the groups do, again and again. */
#ifndef TS_TSRUN_TOP_H
#define TS_TSRUN_TOP_H

#include "shim/base.h"

struct ts_top_options {
	const char *group; /* only that one; NULL: all of the user's in these namespaces */
	bool batch;        /* blocks of text, for logs; so without a terminal as well */
	bool json;         /* lines of the event log (shim/tsrun/log_line.h) */
	uint32_t count;    /* of blocks or pictures; 0: until somebody ends it */
	uint64_t delay_ns; /* between two of them */
};

#define TS_TOP_DELAY_NS UINT64_C(2000000000) /* as top(1) and others of its kind have it */

/**
 * The words behind -n and -d, each NULL where it is not given, in *ret_options.
 * Errors: -EINVAL after a message, and *ret_options is unchanged.
 */
int ts_top_parse(const char *count, const char *delay, struct ts_top_options *ret_options);

/** Show them. Returns 0, or TS_EXIT_FAILED after a message. Main thread only. */
int ts_top_run(const struct ts_top_options *options);

#endif
