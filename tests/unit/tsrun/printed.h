/* SPDX-License-Identifier: MIT */
/* What a report prints, as a text that tests look into. */
#ifndef TS_TESTS_UNIT_TSRUN_PRINTED_H
#define TS_TESTS_UNIT_TSRUN_PRINTED_H

#include "shim/tsrun/report.h"

/** What @how prints of @report; in place of *text, which is the caller's to free. */
const char *printed(char **text, const struct ts_report *report,
	void (*how)(const struct ts_report *report, FILE *out));

#endif
