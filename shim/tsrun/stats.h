/* SPDX-License-Identifier: MIT */
/* tsrun stats: what the jobs of a group shared. */
#ifndef TS_TSRUN_STATS_H
#define TS_TSRUN_STATS_H

#include "shim/base.h"

/** For whom the counters are printed. */
enum ts_stats_form {
	TS_STATS_TEXT,       /* people */
	TS_STATS_VERBOSE,    /* people who want to know it all */
	TS_STATS_JSON,       /* scripts: one JSON object */
	TS_STATS_PROMETHEUS, /* Prometheus, or what reads its text format */
};

/** What is wanted of `tsrun stats`. */
struct ts_stats_options {
	const char *group;
	enum ts_stats_form form;
	const char *file; /* where it is written to; NULL: stdout */
	bool reset;       /* what was printed is then subtracted (shim/tsrun/baseline.h) */
};

/**
 * Print the counters of a group on stdout, or into a file: whoever reads that sees the old text
 * or the new one, for a file beside it takes its place.  What is no ordinary file is written
 * to.  Nothing is reset that could not be printed.  Returns 0, also when the group has no
 * counters, or TS_EXIT_FAILED after a message.
 */
int ts_stats_print(const struct ts_stats_options *options);

#endif
