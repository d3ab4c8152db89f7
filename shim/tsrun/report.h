/* SPDX-License-Identifier: MIT */
/* The ways to print what `tsrun stats` found out about a group. */
#ifndef TS_TSRUN_REPORT_H
#define TS_TSRUN_REPORT_H

#include "shim/tsrun/view.h"

#include <stdio.h>

/** For whom a report is printed. */
enum ts_report_form {
	TS_REPORT_TEXT,       /* people: what matters, without zeros */
	TS_REPORT_VERBOSE,    /* people: each figure with its meaning; "-" is not known */
	TS_REPORT_JSON,       /* scripts: one JSON object; tsrun(1), STATISTICS */
	TS_REPORT_PROMETHEUS, /* Prometheus's text format 0.0.4; tsrun(1), STATISTICS */
};

/** Print @report.  Errors stay in ferror(). */
void ts_report_print(const struct ts_report *report, enum ts_report_form form, FILE *out);

/** Name of @dataset; false when the row is free or its name is not complete yet. */
bool ts_report_dataset(
	const struct ts_report *report, uint32_t dataset, char ret_name[TS_DATASET_NAME]);

/** Live processes whose job uses @dataset. */
uint32_t ts_report_members(const struct ts_report *report, uint32_t dataset);

#endif
