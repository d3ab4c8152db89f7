/* SPDX-License-Identifier: MIT */
/* tsrun stats: what the jobs of a group shared. */
#ifndef TS_TSRUN_STATS_H
#define TS_TSRUN_STATS_H

#include "shim/base.h"

/** For whom the counters are printed. */
enum ts_stats_form {
	TS_STATS_TEXT,       /* people */
	TS_STATS_JSON,       /* scripts: one JSON object */
	TS_STATS_PROMETHEUS, /* Prometheus, or what reads its text format */
};

/**
 * Print the counters of @group on stdout, or into @file unless that is NULL: whoever reads it
 * sees the old text or the new one, for a file beside it takes its place.  What is no ordinary
 * file is written to. Returns 0, also when the group has no counters, or TS_EXIT_FAILED after a
 * message.
 */
int ts_stats_print(const char *group, enum ts_stats_form form, const char *file);

#endif
