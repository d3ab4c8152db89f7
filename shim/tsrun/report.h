/* SPDX-License-Identifier: MIT */
/* What `tsrun stats` found out about a group, and its ways to print it. */
#ifndef TS_TSRUN_REPORT_H
#define TS_TSRUN_REPORT_H

#include "leader/mail/mail.h"
#include "shim/tsrun/view.h"

#include <stdio.h>

/** Copies of what lay in shared memory; everything zero or NULL when there was nothing. */
struct ts_report {
	const char *group;
	struct ts_ledger *ledger;
	struct ts_view_ring ring;
	struct ts_mail_table *nodes; /* what is told of other nodes; NULL: nobody asks any */
	unsigned elsewhere;          /* other namespaces with a group of that name */
};

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

/**
 * tsrun stats: look at @group and print it in @form, into @file, or on stdout where that is
 * NULL.  A reader of @file sees the old text or the new one, for a file beside it takes its
 * place; what is no ordinary file is written to.
 * Returns 0, also when the group has no counters, or TS_EXIT_FAILED after a message.
 */
int ts_stats_print(const char *group, enum ts_report_form form, const char *file);

#endif
