/* SPDX-License-Identifier: MIT */
/* tsrun stats: what the jobs of a group shared. */
#ifndef TS_TSRUN_STATS_H
#define TS_TSRUN_STATS_H

#include "shim/base.h"

/**
 * Print the counters of @group on stdout, for people or as one JSON object.
 * Returns 0, also when the group has no counters, or TS_EXIT_FAILED after a message.
 */
int ts_stats_print(const char *group, bool json);

#endif
