/* SPDX-License-Identifier: MIT */
/* tsrun report: becomes the Python that makes a page of an event log. */
#ifndef TS_TSRUN_PAGE_H
#define TS_TSRUN_PAGE_H

#include "shim/config.h"

struct ts_page_options {
	const char *output;             /* file, "-" for stdout */
	const struct ts_config *config; /* whose log is read when none is named */
	char **logs;                    /* NULL-terminated; or NULL */
};

/**
 * Become an interpreter of Python with the part of ours that makes the page: the one beside
 * tsrun, as in an environment, else `python3` along PATH.  What we know and it does not (the
 * table of reasons) it reads from a descriptor.
 * Returns only on failure, after a message: TS_EXIT_FAILED.
 */
int ts_page_make(const struct ts_page_options *options);

#endif
