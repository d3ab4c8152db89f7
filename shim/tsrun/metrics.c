/* SPDX-License-Identifier: MIT */
/* The table of figures: shim/tsrun/metrics.h. */
#include "shim/tsrun/metrics.h"
#include "leader/group/ledger.h"
#include "leader/mail/mail.h"
#include "shim/sys.h"
#include "shim/tsrun/view.h"

#include <stddef.h>
#include <string.h>

#define AT(of_, unit_, at_, id_, metric_, text)                               \
	{                                                                     \
		.of = TS_OF_##of_, .unit = (unit_), .at = (at_), .id = (id_), \
		.metric = (metric_), .meaning = (text)                        \
	}
#define ROW(of, unit, struct_, member, id, metric, text) \
	AT(of, TS_UNIT_##unit, offsetof(struct struct_, member), id, metric, text)

/* Of a data set in Prometheus; of a job as well in the other forms. */
#define TALLY(unit, member, id, metric, text) \
	ROW(TALLY, unit, ts_tally, member, id, metric, text)

#define FLOW(unit, member, id, metric, text) \
	ROW(SAMPLES, unit, ts_mail_flow, member, id, "nodes_samples_" metric, text)
#define USE(unit, member, id, metric, text) \
	ROW(USE, unit, ts_mail_use, member, id, "nodes_samples_" metric, text)

#define UNIT_OF(counter)                                                                 \
	((counter) == TS_MAIL_COUNT_GOT_BYTES || (counter) == TS_MAIL_COUNT_STORED_BYTES \
			? TS_UNIT_BYTES                                                  \
			: TS_UNIT_COUNT)

const struct ts_metric ts_metrics[] = {
	TALLY(COUNT, produced, "produced", "made_total", "Results that a job worked out."),
	TALLY(COUNT, shared, "shared", "taken_total", "Results that were taken instead."),
	TALLY(BYTES, shared_bytes, "shared_bytes", "taken_bytes_total",
		"Bytes of what was taken."),
	TALLY(CPU, saved_ns, "saved_seconds", "saved_cpu_seconds_total",
		"CPU time that the producers had spent on what was taken."),
	AT(REASON, TS_UNIT_COUNT, 0, NULL, "passed_total",
		"Pieces of work that were not shared, by reason."),

	ROW(JOBS, COUNT, ts_figures, jobs, NULL, "jobs", "Jobs that run."),
	ROW(RING, BYTES, ts_view_ring, capacity, "capacity", "ring_capacity_bytes",
		"Room of the ring."),
	ROW(RING, BYTES, ts_view_ring, used, "used", "ring_used_bytes", "Of it in use."),
	ROW(GROUP, COUNT, ts_ledger, verified, "verified", "verified_total",
		"Shared results that were worked out again to compare."),
	ROW(GROUP, COUNT, ts_ledger, mismatched, "mismatched", "mismatched_total",
		"Those of them that differed."),
	ROW(APART, COUNT, ts_figures, drawn, "samples", NULL,
		"That draw random numbers, in data sets of several jobs."),
	ROW(APART, COUNT, ts_figures, alignable, "align_would_share", NULL,
		"Of them those that --align would have shared."),
	ROW(APART, COUNT, ts_figures, strict, "strict_samples", NULL,
		"Made by jobs with the same data in strict order."),
	ROW(APART, COUNT, ts_figures, freeable, "free_would_share", NULL,
		"About so many of them --order free would have shared."),

	ROW(HELPER, COUNT, ts_figures, helpers, NULL, "nodes_helpers",
		"Processes that ask other nodes."),
	ROW(NODES, COUNT, ts_mail_table, posted, "posted", "nodes_posted_total",
		"Requests of jobs, for all nodes."),
	ROW(NODES, COUNT, ts_mail_table, unposted, "unposted", "nodes_unposted_total",
		"Those for which there was no slot."),
	ROW(NODES, COUNT, ts_mail_table, left, "left", "nodes_left_total",
		"Those that a job did not wait for to the end."),
	FLOW(COUNT, asked, "asked", "asked_total", "Those that other nodes were asked for."),
	FLOW(COUNT, got, "got", "got_total", "Of these: that came."),
	FLOW(COUNT, won, "won", "won_total", "Of these: that were ours to make."),
	FLOW(COUNT, alone, "alone", "alone_total",
		"Of these: that were made here all the same."),
	FLOW(COUNT, stored, "stored", "stored_total", "Those that were handed over."),
	FLOW(TIME, took_ns, "took_seconds", "took_seconds_total",
		"How long it took to get those that came."),
	FLOW(TIME, made_ns, "made_seconds", "made_seconds_total",
		"How long it had taken to make them."),
	FLOW(COUNT, times_off, "times_off", "times_off_total",
		"Times that this node stopped asking, as getting them took longer."),
	FLOW(UNTIL, off_until, "off_seconds", "off_seconds",
		"Time until this node asks again, as getting them took longer."),
	USE(COUNT, looked, "looked", "looked_total",
		"Of those handed over: that the helper looked at."),
	USE(COUNT, unused, "unused", "unused_total", "Of these: that no node had fetched."),
	USE(COUNT, times_unused, "times_unused", "times_unused_total",
		"Times that this node stopped asking, as no node fetched them."),
	USE(UNTIL, unused_until, "unused_seconds", "unused_seconds",
		"Time until this node asks again, as no node fetched them."),
/* Names and meanings of these are in leader/mail/mail.h. */
#define TS_X(name, field, text)                                                        \
	AT(NODE, UNIT_OF(TS_MAIL_COUNT_##name),                                        \
		offsetof(struct ts_mail_peer, counters[TS_MAIL_COUNT_##name]), #field, \
		"node_" #field "_total", text),
	TS_MAIL_COUNTERS(TS_X)
#undef TS_X
		{.meaning = NULL},
};

const struct ts_metric *ts_metric_next(enum ts_metric_of of, const struct ts_metric *metric)
{
	for (metric = metric ? metric + 1 : ts_metrics; metric->meaning; metric++)
		if (metric->of == of)
			return metric;
	return NULL;
}

uint64_t ts_metric_value(const struct ts_metric *metric, const void *base)
{
	uint64_t value = 0;

	if (!base)
		return 0;
	memcpy(&value, (const char *)base + metric->at, sizeof(value));
	if (metric->unit != TS_UNIT_UNTIL)
		return value;
	uint64_t now = ts_now_ns();
	return value > now ? value - now : 0;
}
