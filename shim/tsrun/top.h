/* SPDX-License-Identifier: MIT */
/* The text of `tsrun top`: what two looks at the counters say, in lines of 79 columns. */
#ifndef TS_TSRUN_TOP_H
#define TS_TSRUN_TOP_H

#include "shim/tsrun/view.h"

#include <stdio.h>

/* A line is never longer, so that no terminal of 80 columns wraps it. */
#define TS_RATES_COLUMNS 79

/**
 * Print what @now says, and how it differs from @before, a look before it, or NULL.  What
 * cannot be told, as the rate of a job that has just begun, is '-'.  With @everything also
 * groups that no job lives in and nobody keeps a ring of.  Errors stay in ferror().
 */
void ts_rates_write(FILE *out, const struct ts_sample *before, const struct ts_sample *now,
	bool everything);

#endif
