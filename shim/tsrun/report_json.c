/* SPDX-License-Identifier: MIT */
/* The output of `tsrun stats` for scripts: tsrun(1), STATISTICS. */
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/tsrun/counters.h"
#include "shim/tsrun/events.h"
#include "shim/tsrun/json.h"
#include "shim/tsrun/nodes.h"
#include "shim/tsrun/report.h"

#define NS_PER_SECOND UINT64_C(1000000000)

static void write_tallies(struct ts_json *json, struct ts_tally *tallies)
{
	for (int kind = 0; kind < TS_KIND_COUNT; kind++) {
		struct ts_tally *t = &tallies[kind];
		ts_json_open(json, ts_kinds[kind].id, '{');
#define TS_X(member, as, id, ...) ts_json_##as(json, id, ts_load_relaxed(&t->member));
		TS_COUNTERS(TS_X)
#undef TS_X
		ts_json_close(json, '}');
	}
}

/* All reasons we know, and under their number those that a newer version counted. */
static void write_passed(struct ts_json *json, _Atomic uint64_t *passed)
{
	ts_json_open(json, "passed", '{');
	for (int i = 0; i < TS_REASON_SLOTS; i++) {
		uint64_t count = passed ? ts_load_relaxed(&passed[i]) : 0;
		char number[32];
		(void)snprintf(number, sizeof(number), "reason_%d", i);
		if (i < TS_REASON_COUNT)
			ts_json_number(json, ts_reasons[i].id, count);
		else if (count > 0)
			ts_json_number(json, number, count);
	}
	ts_json_close(json, '}');
}

static void write_dataset(
	struct ts_json *json, const struct ts_report *report, uint32_t dataset)
{
	char name[TS_DATASET_NAME];
	bool alive;

	if (!ts_report_dataset(report, dataset, name))
		return;
	struct ts_dataset_row *row = ts_ledger_dataset(report->ledger, dataset);
	ts_json_open(json, NULL, '{');
	ts_json_string(json, "name", name);
	int leader = ts_report_leader(report, dataset, &alive);
	if (leader > 0) {
		ts_json_open(json, "leader", '{');
		ts_json_number(json, "pid", (uint64_t)leader);
		ts_json_bool(json, "alive", alive);
		ts_json_close(json, '}');
	} else {
		ts_json_null(json, "leader");
	}
	ts_json_number(json, "members", ts_report_members(report, dataset));
	ts_json_bool(json, "off", ts_load_relaxed(&row->off) != 0);
	write_tallies(json, row->kinds);
	ts_json_close(json, '}');
}

/* Epochs, as seconds are written: with nine decimals. */
static void write_epochs(struct ts_json *json, const char *key, uint64_t position)
{
	uint64_t rest = position % TS_EPOCH * NS_PER_SECOND / TS_EPOCH;

	ts_json_seconds(json, key, position / TS_EPOCH * NS_PER_SECOND + rest);
}

/* Where an aligned job is; nulls where none of it is known. */
static void write_progress(struct ts_json *json, struct ts_ledger *ledger, uint32_t index)
{
	struct ts_progress_row *row = ts_ledger_progress(ledger, index);
	uint64_t here = ts_load_relaxed(&row->position), front = ts_ledger_front(ledger, index);

	if (ts_load_relaxed(&row->identity) == 0) {
		ts_json_null(json, "order");
		ts_json_null(json, "epoch");
		ts_json_null(json, "behind");
		return;
	}
	const char *order = ts_order_word(ts_load_relaxed(&row->order));
	ts_json_string(json, "order", order ? order : "unknown");
	write_epochs(json, "epoch", here);
	write_epochs(json, "behind", front > here ? front - here : 0);
}

static void write_job(struct ts_json *json, const struct ts_report *report, uint32_t index)
{
	struct ts_job_row *job = ts_ledger_job(report->ledger, index);
	uint64_t id = ts_load_relaxed(&job->id);
	char name[TS_DATASET_NAME], refusal[TS_REFUSAL_BYTES];

	if (id == 0)
		return;
	ts_json_open(json, NULL, '{');
	ts_json_number(json, "pid", (uint64_t)TS_PROCESS_PID(id));
	ts_json_bool(json, "alive", ts_process_is_alive(id));
	ts_json_open(json, "datasets", '[');
	for (uint32_t d = 0; d < TS_DATASET_MAX; d++)
		if (ts_report_uses(job, d) && ts_report_dataset(report, d, name))
			ts_json_string(json, NULL, name);
	ts_json_close(json, ']');
	write_tallies(json, job->kinds);
	write_progress(json, report->ledger, index);
	if (ts_ledger_refusal(report->ledger, index, refusal))
		ts_json_string(json, "refused", refusal);
	else
		ts_json_null(json, "refused");
	ts_events_json(json, report->ledger, index);
	write_passed(json, job->passed);
	ts_json_close(json, '}');
}

static void string_or_null(struct ts_json *json, const char *key, const char *text)
{
	if (text)
		ts_json_string(json, key, text);
	else
		ts_json_null(json, key);
}

static void write_node(struct ts_json *json, const struct ts_node *node)
{
	ts_json_open(json, NULL, '{');
	ts_json_string(json, "name", node->name);
	ts_json_string(json, "state", ts_nodes_state_word(node->state));
	string_or_null(json, "error", ts_nodes_explain(node->error));
	for (int i = 0; i < TS_MAIL_COUNTER_COUNT; i++)
		ts_json_number(json, ts_node_counters[i].id, node->counters[i]);
	ts_json_close(json, '}');
}

/* An object that may go on. */
static void open_flow(struct ts_json *json, const char *key, struct ts_mail_flow *flow)
{
	ts_json_open(json, key, '{');
#define TS_X(member, as, id, ...) ts_json_##as(json, id, ts_load_relaxed(&flow->member));
	TS_NODE_FLOW(TS_X)
#undef TS_X
	ts_json_seconds(json, TS_NODE_FLOW_OFF, ts_nodes_flow_off(flow));
}

static void write_flows(struct ts_json *json, struct ts_mail_table *table)
{
	open_flow(json, "samples", &table->samples);
#define TS_X(member, as, id, ...) ts_json_##as(json, id, ts_load_relaxed(&table->use.member));
	TS_NODE_USE(TS_X)
#undef TS_X
	ts_json_seconds(json, TS_NODE_UNUSED, ts_nodes_unused(table));
	ts_json_close(json, '}');
	open_flow(json, "pictures", &table->pictures);
	ts_json_close(json, '}');
}

static void write_nodes(struct ts_json *json, struct ts_mail_table *table)
{
	struct ts_node node;

	if (!table) {
		ts_json_null(json, "nodes");
		return;
	}
	int helper = ts_nodes_helper(table);
	ts_json_open(json, "nodes", '{');
	if (helper > 0)
		ts_json_number(json, "helper", (uint64_t)helper);
	else
		ts_json_null(json, "helper");
	string_or_null(json, "error", ts_nodes_explain_helper(ts_load_relaxed(&table->error)));
#define TS_X(member, ...) ts_json_number(json, #member, ts_load_relaxed(&table->member));
	TS_NODE_TOTALS(TS_X)
#undef TS_X
	write_flows(json, table);
	ts_json_open(json, "list", '[');
	for (uint32_t i = 0; i < ts_nodes_count(table); i++)
		if (ts_nodes_read(table, i, &node))
			write_node(json, &node);
	ts_json_close(json, ']');
	ts_json_close(json, '}');
}

void ts_report_json(const struct ts_report *report, FILE *out)
{
	struct ts_json json = {.out = out};
	struct ts_ledger *ledger = report->ledger;

	ts_json_open(&json, NULL, '{');
	ts_json_string(&json, "group", report->group);
	ts_json_open(&json, "datasets", '[');
	for (uint32_t d = 0; ledger && d < TS_DATASET_MAX; d++)
		write_dataset(&json, report, d);
	ts_json_close(&json, ']');
	ts_json_open(&json, "ring", '{');
	ts_json_number(&json, "capacity", report->ring.capacity);
	ts_json_number(&json, "used", report->ring.used);
	ts_json_close(&json, '}');
	write_passed(&json, ledger ? ledger->passed : NULL);
	ts_json_open(&json, "jobs", '[');
	for (uint32_t j = 0; ledger && j < TS_JOB_MAX; j++)
		write_job(&json, report, j);
	ts_json_close(&json, ']');
	uint64_t drawn = 0, alignable = ledger ? ts_ledger_alignable(ledger, &drawn) : 0;
	uint64_t strict = 0, freeable = ledger ? ts_ledger_freeable(ledger, &strict) : 0;
	ts_json_open(&json, "made_apart", '{');
	ts_json_number(&json, "samples", drawn);
	ts_json_number(&json, "align_would_share", alignable);
	ts_json_number(&json, "strict_samples", strict);
	ts_json_number(&json, "free_would_share", freeable);
	ts_json_close(&json, '}');
#define TS_X(member, id, ...) \
	ts_json_number(&json, id, ledger ? ts_load_relaxed(&ledger->member) : 0);
	TS_GROUP_COUNTERS(TS_X)
#undef TS_X
	write_nodes(&json, report->nodes);
	ts_json_number(&json, "elsewhere", report->elsewhere);
	if (report->since_ns != 0)
		ts_json_seconds(&json, "since", report->since_ns);
	else
		ts_json_null(&json, "since");
	ts_json_close(&json, '}');
}
