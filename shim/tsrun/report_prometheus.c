/* SPDX-License-Identifier: MIT */
/*
 * The output of `tsrun stats` for Prometheus, in its text format 0.0.4
 * (https://prometheus.io/docs/instrumenting/exposition_formats/): tsrun(1), STATISTICS.
 */
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/tsrun/report.h"

#include <inttypes.h>

static const char *const kind_ids[TS_KIND_COUNT] = {
#define TS_X(name, id, text) id,
	TS_KINDS(TS_X)
#undef TS_X
};

static const char *const reason_ids[TS_REASON_COUNT] = {
#define TS_X(name, id, ...) id,
	TS_REASONS(TS_X)
#undef TS_X
};

#define NS_PER_SECOND UINT64_C(1000000000)

/* What a metric tells of a tally. */
enum member { MADE, TAKEN, TAKEN_BYTES, SAVED_SECONDS };

static void head(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP tsshim_%s %s\n# TYPE tsshim_%s %s\n", name, help, name, type);
}

/* A label; names may hold anything, even what is no UTF-8: such bytes become '?'. */
static void label(FILE *out, const char *begin, const char *name, const char *value)
{
	fprintf(out, "%s%s=\"", begin, name);
	for (const char *at = value; *at; at++) {
		if (*at == '\n')
			fputs("\\n", out);
		else if (*at == '\\' || *at == '"')
			fprintf(out, "\\%c", *at);
		else
			fputc((unsigned char)*at < 128 ? *at : '?', out);
	}
	fputc('"', out);
}

static void value(FILE *out, uint64_t number)
{
	fprintf(out, "} %" PRIu64 "\n", number);
}

static void tally(FILE *out, struct ts_tally *tally, enum member member)
{
	uint64_t saved = ts_load_relaxed(&tally->saved_ns);

	switch (member) {
	case MADE:
		value(out, ts_load_relaxed(&tally->produced));
		break;
	case TAKEN:
		value(out, ts_load_relaxed(&tally->shared));
		break;
	case TAKEN_BYTES:
		value(out, ts_load_relaxed(&tally->shared_bytes));
		break;
	case SAVED_SECONDS:
		fprintf(out, "} %" PRIu64 ".%09" PRIu64 "\n", saved / NS_PER_SECOND,
			saved % NS_PER_SECOND);
		break;
	}
}

static void tallies(const struct ts_report *report, FILE *out, const char *metric,
	enum member member, const char *help)
{
	char name[TS_DATASET_NAME];

	head(out, metric, "counter", help);
	for (uint32_t d = 0; report->ledger && d < TS_DATASET_MAX; d++) {
		if (!ts_report_dataset(report, d, name))
			continue;
		for (int kind = 0; kind < TS_KIND_COUNT; kind++) {
			fprintf(out, "tsshim_%s", metric);
			label(out, "{", "group", report->group);
			label(out, ",", "dataset", name);
			label(out, ",", "kind", kind_ids[kind]);
			tally(out, &ts_ledger_dataset(report->ledger, d)->kinds[kind], member);
		}
	}
}

static void one(const struct ts_report *report, FILE *out, const char *metric, const char *type,
	uint64_t number, const char *help)
{
	head(out, metric, type, help);
	fprintf(out, "tsshim_%s", metric);
	label(out, "{", "group", report->group);
	value(out, number);
}

static void passed(const struct ts_report *report, FILE *out)
{
	head(out, "passed_total", "counter", "Pieces of work that were not shared, by reason.");
	for (int i = 0; i < TS_REASON_COUNT; i++) {
		fputs("tsshim_passed_total", out);
		label(out, "{", "group", report->group);
		label(out, ",", "reason", reason_ids[i]);
		value(out, report->ledger ? ts_load_relaxed(&report->ledger->passed[i]) : 0);
	}
}

static uint64_t live_jobs(struct ts_ledger *ledger)
{
	uint64_t count = 0;

	for (uint32_t j = 0; ledger && j < TS_JOB_MAX; j++) {
		uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, j)->id);
		count += id != 0 && ts_process_is_alive(id);
	}
	return count;
}

void ts_report_prometheus(const struct ts_report *report, FILE *out)
{
	struct ts_ledger *ledger = report->ledger;

	tallies(report, out, "made_total", MADE, "Results that a job worked out.");
	tallies(report, out, "taken_total", TAKEN, "Results that were taken instead.");
	tallies(report, out, "taken_bytes_total", TAKEN_BYTES, "Their bytes.");
	tallies(report, out, "saved_cpu_seconds_total", SAVED_SECONDS,
		"CPU time that they did not cost again.");
	passed(report, out);
	one(report, out, "jobs", "gauge", live_jobs(ledger), "Jobs that run.");
	one(report, out, "ring_capacity_bytes", "gauge", report->ring.capacity,
		"Room of the ring.");
	one(report, out, "ring_used_bytes", "gauge", report->ring.used, "Of it in use.");
	one(report, out, "verified_total", "counter",
		ledger ? ts_load_relaxed(&ledger->verified) : 0,
		"Shared results that were worked out again to compare.");
	one(report, out, "mismatched_total", "counter",
		ledger ? ts_load_relaxed(&ledger->mismatched) : 0,
		"Of them those that differed.");
}
