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
	uint64_t since_ns; /* CLOCK_REALTIME: what was counted before is left out; 0: nothing */
};

/** Name of @dataset; false when the row is free or its name is not complete yet. */
bool ts_report_dataset(
	const struct ts_report *report, uint32_t dataset, char ret_name[TS_DATASET_NAME]);

/** Process id of the leader's job and whether it lives; 0 when there is none. */
int ts_report_leader(const struct ts_report *report, uint32_t dataset, bool *ret_alive);

/** Live processes whose job uses @dataset. */
uint32_t ts_report_members(const struct ts_report *report, uint32_t dataset);

/** Whether @job is in use and has noted @dataset. */
bool ts_report_uses(struct ts_job_row *job, uint32_t dataset);

/** What people want to know first: who is there, how full the ring is, since when it counts. */
void ts_report_head(const struct ts_report *report, FILE *out);

/** Other containers that share /dev/shm: nobody should look for their jobs here. */
void ts_report_elsewhere(const struct ts_report *report, FILE *out);

/** What people want to know of other nodes; nothing where nobody asks any. */
void ts_report_nodes(const struct ts_report *report, FILE *out);

/**
 * Print for scripts and for Prometheus (both tsrun(1), STATISTICS), and for people: what
 * matters most, or all of it with what it means.
 */
void ts_report_json(const struct ts_report *report, FILE *out);
void ts_report_prometheus(const struct ts_report *report, FILE *out);
void ts_report_text(const struct ts_report *report, FILE *out);
void ts_report_verbose(const struct ts_report *report, FILE *out);

#endif
