/* SPDX-License-Identifier: MIT */
/*
 * The output of `tsrun stats` for Prometheus, in its text format 0.0.4
 * (https://prometheus.io/docs/instrumenting/exposition_formats/): tsrun(1), STATISTICS.
 */
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/tsrun/counters.h"
#include "shim/tsrun/nodes.h"
#include "shim/tsrun/report.h"

#include <inttypes.h>

#define NS_PER_SECOND UINT64_C(1000000000)

/* What a metric tells of a tally. */
enum member {
#define TS_X(member, ...) MEMBER_##member,
	TS_COUNTERS(TS_X)
#undef TS_X
};

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

static void print_number(FILE *out, uint64_t number)
{
	fprintf(out, "} %" PRIu64 "\n", number);
}

static void print_seconds(FILE *out, uint64_t ns)
{
	fprintf(out, "} %" PRIu64 ".%09" PRIu64 "\n", ns / NS_PER_SECOND, ns % NS_PER_SECOND);
}

static void tally(FILE *out, struct ts_tally *tally, enum member member)
{
	switch (member) {
#define TS_X(name, as, ...)                                     \
	case MEMBER_##name:                                     \
		print_##as(out, ts_load_relaxed(&tally->name)); \
		break;
		TS_COUNTERS(TS_X)
#undef TS_X
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
			label(out, ",", "kind", ts_kinds[kind].id);
			tally(out, &ts_ledger_dataset(report->ledger, d)->kinds[kind], member);
		}
	}
}

static void of_group(const struct ts_report *report, FILE *out, const char *metric,
	const char *type, const char *help)
{
	head(out, metric, type, help);
	fprintf(out, "tsshim_%s", metric);
	label(out, "{", "group", report->group);
}

static void one(const struct ts_report *report, FILE *out, const char *metric, const char *type,
	uint64_t number, const char *help)
{
	of_group(report, out, metric, type, help);
	print_number(out, number);
}

static void passed(const struct ts_report *report, FILE *out)
{
	head(out, "passed_total", "counter", "Pieces of work that were not shared, by reason.");
	for (int i = 0; i < TS_REASON_COUNT; i++) {
		fputs("tsshim_passed_total", out);
		label(out, "{", "group", report->group);
		label(out, ",", "reason", ts_reasons[i].id);
		print_number(
			out, report->ledger ? ts_load_relaxed(&report->ledger->passed[i]) : 0);
	}
}

/* Of each node what counter @counter says; nothing where nobody asks any. */
static void of_nodes(const struct ts_report *report, FILE *out, enum ts_mail_counter counter)
{
	struct ts_node node;
	char metric[64];

	(void)snprintf(metric, sizeof(metric), "node_%s_total", ts_node_counters[counter].id);
	head(out, metric, "counter", ts_node_counters[counter].text);
	for (uint32_t i = 0; report->nodes && i < ts_nodes_count(report->nodes); i++) {
		if (!ts_nodes_read(report->nodes, i, &node))
			continue;
		fprintf(out, "tsshim_%s", metric);
		label(out, "{", "group", report->group);
		label(out, ",", "node", node.name);
		print_number(out, node.counters[counter]);
	}
}

/* What other nodes are asked for: @what is "samples" or "pictures". */
static void one_flow(
	const struct ts_report *report, FILE *out, const char *what, struct ts_mail_flow *flow)
{
	char name[64];

#define TS_X(member, as, id, metric, help)                            \
	(void)snprintf(name, sizeof(name), "nodes_%s_" metric, what); \
	of_group(report, out, name, "counter", help);                 \
	print_##as(out, ts_load_relaxed(&flow->member));
	TS_NODE_FLOW(TS_X)
#undef TS_X
	(void)snprintf(name, sizeof(name), "nodes_%s_" TS_NODE_FLOW_OFF, what);
	of_group(report, out, name, "gauge", TS_NODE_FLOW_OFF_TEXT);
	print_seconds(out, ts_nodes_flow_off(flow));
}

static void flows(const struct ts_report *report, FILE *out)
{
	struct ts_mail_table *table = report->nodes;

	one_flow(report, out, "samples", &table->samples);
#define TS_X(member, as, id, metric, help)                               \
	of_group(report, out, "nodes_samples_" metric, "counter", help); \
	print_##as(out, ts_load_relaxed(&table->use.member));
	TS_NODE_USE(TS_X)
#undef TS_X
	of_group(report, out, "nodes_samples_" TS_NODE_UNUSED, "gauge", TS_NODE_UNUSED_TEXT);
	print_seconds(out, ts_nodes_unused(table));
	one_flow(report, out, "pictures", &table->pictures);
}

static void nodes(const struct ts_report *report, FILE *out)
{
	struct ts_mail_table *table = report->nodes;

	for (int i = 0; i < TS_MAIL_COUNTER_COUNT; i++)
		of_nodes(report, out, (enum ts_mail_counter)i);
	if (!table)
		return;
	one(report, out, "nodes_helpers", "gauge", ts_nodes_helper(table) > 0,
		"Processes that ask other nodes.");
#define TS_X(member, help)                                     \
	one(report, out, "nodes_" #member "_total", "counter", \
		ts_load_relaxed(&table->member), help);
	TS_NODE_TOTALS(TS_X)
#undef TS_X
	flows(report, out);
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

#define TS_X(name, as, id, metric, help) tallies(report, out, metric, MEMBER_##name, help);
	TS_COUNTERS(TS_X)
#undef TS_X
	passed(report, out);
	one(report, out, "jobs", "gauge", live_jobs(ledger), "Jobs that run.");
	one(report, out, "ring_capacity_bytes", "gauge", report->ring.capacity,
		"Room of the ring.");
	one(report, out, "ring_used_bytes", "gauge", report->ring.used, "Of it in use.");
#define TS_X(name, id, metric, help) \
	one(report, out, metric, "counter", ledger ? ts_load_relaxed(&ledger->name) : 0, help);
	TS_GROUP_COUNTERS(TS_X)
#undef TS_X
	nodes(report, out);
}
