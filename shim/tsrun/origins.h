/* SPDX-License-Identifier: MIT */
/* `tsrun config`: every setting, its value, and where that comes from. */
#ifndef TS_TSRUN_ORIGINS_H
#define TS_TSRUN_ORIGINS_H

#include "shim/tsrun/arguments.h"

/**
 * Print what a job that is started like this would have, as a table or as JSON.  Returns the
 * exit status: TS_EXIT_FAILED where tsrun would not start one, after it was said why.
 */
int ts_origins_print(const struct ts_arguments *arguments);

#endif
