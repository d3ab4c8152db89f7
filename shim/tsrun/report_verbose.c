/* SPDX-License-Identifier: MIT */
/*
 * The output of `tsrun stats -v`: every counter of every kind of work with what it means, those
 * that are zero as well; what is not known, or does not exist, is "-".
 */
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/tsrun/counters.h"
#include "shim/tsrun/nodes.h"
#include "shim/tsrun/report.h"
#include "shim/tsrun/units.h"

#include <inttypes.h>

#define UNKNOWN       "-"
#define NS_PER_SECOND UINT64_C(1000000000)

/* ---- lines ------------------------------------------------------------------------------- */

/* "id  value  meaning"; ids and values stand below each other everywhere. */
static void row(FILE *out, const char *id, const char *value, const char *meaning)
{
	fprintf(out, "    %-18s %20s  %s\n", id, value, meaning);
}

static void row_number(FILE *out, const char *id, uint64_t value, const char *meaning)
{
	char text[TS_UNITS_BYTES];

	row(out, id, ts_units_grouped(value, text), meaning);
}

/* With two decimals, whatever the locale. */
static void row_seconds(FILE *out, const char *id, uint64_t ns, const char *meaning)
{
	char whole[TS_UNITS_BYTES], text[TS_UNITS_BYTES + 4];

	(void)snprintf(text, sizeof(text), "%s.%02" PRIu64,
		ts_units_grouped(ns / NS_PER_SECOND, whole),
		ns % NS_PER_SECOND / (NS_PER_SECOND / 100));
	row(out, id, text, meaning);
}

/* Of a counter that there is only with a ledger. */
static void row_known(
	FILE *out, const char *id, bool known, uint64_t value, const char *meaning)
{
	if (known)
		row_number(out, id, value, meaning);
	else
		row(out, id, UNKNOWN, meaning);
}

/* ---- data sets --------------------------------------------------------------------------- */

/* What an open of a copy of a file saves is no CPU time, and not known. */
static bool has_seconds(int kind)
{
	return kind != TS_KIND_BYTES;
}

static bool has_number(int kind)
{
	(void)kind;
	return true;
}

static void print_tally(FILE *out, int kind, struct ts_tally *tally)
{
	fprintf(out, "  %s: %s\n", ts_kinds[kind].id, ts_kinds[kind].text);
#define TS_X(member, as, id, metric, meaning)                                \
	if (has_##as(kind))                                                  \
		row_##as(out, id, ts_load_relaxed(&tally->member), meaning); \
	else                                                                 \
		row(out, id, UNKNOWN, meaning);
	TS_COUNTERS(TS_X)
#undef TS_X
}

static void print_dataset(FILE *out, const struct ts_report *report, uint32_t dataset)
{
	char name[TS_DATASET_NAME];
	bool alive, has_ring = report->ring.capacity > 0;

	if (!ts_report_dataset(report, dataset, name))
		return;
	ts_units_make_printable(name);
	struct ts_dataset_row *data = ts_ledger_dataset(report->ledger, dataset);
	int leader = ts_report_leader(report, dataset, &alive);
	fprintf(out, "\nDataset %s\n", name);
	if (leader > 0)
		fprintf(out, "    %-18s %20d  %s\n", "leader", leader,
			alive ? "The process of the job that leads." : "It has ended.");
	else
		row(out, "leader", UNKNOWN, "No job.");
	row_known(out, "members", has_ring, has_ring ? ts_report_members(report, dataset) : 0,
		"Living processes of its jobs that have joined the ring.");
	row(out, "off", ts_load_relaxed(&data->off) ? "yes" : "no",
		"Whether verification found a difference and switched it off.");
	for (int kind = 0; kind < TS_KIND_COUNT; kind++)
		print_tally(out, kind, &data->kinds[kind]);
}

/* ---- jobs -------------------------------------------------------------------------------- */

/* Epochs with two decimals. */
static const char *epochs(uint64_t position, char text[TS_UNITS_BYTES])
{
	(void)snprintf(text, TS_UNITS_BYTES, "%" PRIu64 ".%02" PRIu64, position / TS_EPOCH,
		position % TS_EPOCH * 100 / TS_EPOCH);
	return text;
}

static void print_progress(FILE *out, struct ts_ledger *ledger, uint32_t index)
{
	struct ts_progress_row *where = ts_ledger_progress(ledger, index);
	uint64_t here = ts_load_relaxed(&where->position);
	uint64_t front = ts_ledger_front(ledger, index);
	bool known = ts_load_relaxed(&where->identity) != 0;
	const char *order = known ? ts_order_word(ts_load_relaxed(&where->order)) : NULL;
	char at[TS_UNITS_BYTES], behind[TS_UNITS_BYTES];

	row(out, "order", order ? order : UNKNOWN, "Of an aligned job.");
	row(out, "epoch", known ? epochs(here, at) : UNKNOWN, "Where it is, from 0 on.");
	row(out, "behind", known ? epochs(front > here ? front - here : 0, behind) : UNKNOWN,
		"Epochs by which another running job is further.");
}

static void print_job(FILE *out, struct ts_ledger *ledger, uint32_t index)
{
	struct ts_job_row *job = ts_ledger_job(ledger, index);
	uint64_t id = ts_load_relaxed(&job->id);
	char refusal[TS_REFUSAL_BYTES];

	if (id == 0)
		return;
	fprintf(out, "\nJob %d  (%s)\n", TS_PROCESS_PID(id),
		ts_process_is_alive(id) ? "running" : "ended");
	print_progress(out, ledger, index);
	bool refused = ts_ledger_refusal(ledger, index, refusal);
	row(out, "refused", refused ? "yes" : UNKNOWN,
		refused ? refusal : "What keeps its samples from being shared.");
	for (int kind = 0; kind < TS_KIND_COUNT; kind++)
		print_tally(out, kind, &job->kinds[kind]);
}

/* ---- other nodes ------------------------------------------------------------------------- */

static void print_node(FILE *out, const struct ts_node *node)
{
	const char *error = ts_nodes_explain(node->error);

	fputs("\nNode ", out);
	ts_units_print_safely(out, node->name);
	fputs("\n", out);
	row(out, "state", ts_nodes_state_word(node->state), ts_nodes_state_text(node->state));
	row(out, "error", error ? "yes" : UNKNOWN, error ? error : "Why it failed last.");
	for (int i = 0; i < TS_MAIL_COUNTER_COUNT; i++)
		row_number(out, ts_node_counters[i].id, node->counters[i],
			ts_node_counters[i].text);
}

static void print_flow(FILE *out, struct ts_mail_flow *flow)
{
#define TS_X(member, as, id, metric, meaning) \
	row_##as(out, id, ts_load_relaxed(&flow->member), meaning);
	TS_NODE_FLOW(TS_X)
#undef TS_X
	row_seconds(out, TS_NODE_FLOW_OFF, ts_nodes_flow_off(flow), TS_NODE_FLOW_OFF_TEXT);
}

static void print_flows(FILE *out, struct ts_mail_table *table)
{
	fputs("\nSamples between nodes\n", out);
	print_flow(out, &table->samples);
#define TS_X(member, as, id, metric, meaning) \
	row_##as(out, id, ts_load_relaxed(&table->use.member), meaning);
	TS_NODE_USE(TS_X)
#undef TS_X
	row_seconds(out, TS_NODE_UNUSED, ts_nodes_unused(table), TS_NODE_UNUSED_TEXT);
	fputs("\nPictures between nodes\n", out);
	print_flow(out, &table->pictures);
}

static void print_nodes(FILE *out, struct ts_mail_table *table)
{
	struct ts_node node;
	char pid[TS_UNITS_BYTES];

	if (!table)
		return;
	int helper = ts_nodes_helper(table);
	const char *error = ts_nodes_explain_helper(ts_load_relaxed(&table->error));
	(void)snprintf(pid, sizeof(pid), "%d", helper);
	fputs("\nOther nodes\n", out);
	row(out, "helper", helper > 0 ? pid : UNKNOWN, "The process that asks them.");
	row(out, "error", error ? "yes" : UNKNOWN, error ? error : "Why the last one ended.");
#define TS_X(member, meaning) \
	row_number(out, #member, ts_load_relaxed(&table->member), meaning);
	TS_NODE_TOTALS(TS_X)
#undef TS_X
	print_flows(out, table);
	for (uint32_t i = 0; i < ts_nodes_count(table); i++)
		if (ts_nodes_read(table, i, &node))
			print_node(out, &node);
}

/* ---- the group --------------------------------------------------------------------------- */

static void print_group(FILE *out, const struct ts_report *report)
{
	struct ts_ledger *ledger = report->ledger;
	uint64_t drawn = 0, alignable = ledger ? ts_ledger_alignable(ledger, &drawn) : 0;
	uint64_t strict = 0, freeable = ledger ? ts_ledger_freeable(ledger, &strict) : 0;
	bool has_ring = report->ring.capacity > 0;

	fputs("\nGroup\n", out);
	row_known(out, "capacity", has_ring, report->ring.capacity, "Bytes of the ring.");
	row_known(out, "used", has_ring, report->ring.used, "Of them in use.");
#define TS_X(member, id, metric, meaning)                                                 \
	row_known(out, id, ledger != NULL, ledger ? ts_load_relaxed(&ledger->member) : 0, \
		meaning);
	TS_GROUP_COUNTERS(TS_X)
#undef TS_X
	row_known(out, "samples", ledger != NULL, drawn,
		"Made by several jobs, each with its own seed.");
	row_known(out, "align_would_share", ledger != NULL, alignable,
		"Of them those that --align would have shared.");
	row_known(out, "strict_samples", ledger != NULL, strict,
		"Made by jobs with the same data in strict order.");
	row_known(out, "free_would_share", ledger != NULL, freeable,
		"About so many of them --order free would have shared.");
}

static void print_reasons(FILE *out, struct ts_ledger *ledger)
{
	uint64_t unknown = 0;

	fputs("\nNot shared, by reason\n", out);
	for (int i = 0; i < TS_REASON_COUNT; i++) {
		row_known(out, ts_reasons[i].id, ledger != NULL,
			ledger ? ts_load_relaxed(&ledger->passed[i]) : 0, ts_reasons[i].text);
		if (ts_reasons[i].fix && ts_reasons[i].fix[0] != '\0')
			fprintf(out, "%47sfix: %s\n", "", ts_reasons[i].fix);
	}
	for (int i = TS_REASON_COUNT; ledger && i < TS_REASON_SLOTS; i++)
		unknown += ts_load_relaxed(&ledger->passed[i]);
	if (unknown > 0)
		row_number(out, "unknown", unknown, "counted by a newer version");
}

void ts_report_verbose(const struct ts_report *report, FILE *out)
{
	ts_report_head(report, out);
	print_group(out, report);
	for (uint32_t d = 0; report->ledger && d < TS_DATASET_MAX; d++)
		print_dataset(out, report, d);
	for (uint32_t j = 0; report->ledger && j < TS_JOB_MAX; j++)
		print_job(out, report->ledger, j);
	print_nodes(out, report->nodes);
	print_reasons(out, report->ledger);
	ts_report_elsewhere(report, out);
}
