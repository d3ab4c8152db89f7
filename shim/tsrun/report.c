/* SPDX-License-Identifier: MIT */
/*
 * The four forms of `tsrun stats`.  Each prints the rows of ts_metrics[]; what is said here
 * are parts, names and words around them.  The words for people may change, the names in JSON
 * and for Prometheus do not.
 */
#include "shim/tsrun/report.h"
#include "leader/events/events.h"
#include "leader/events/recorder.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/tsrun/json.h"
#include "shim/tsrun/metrics.h"
#include "shim/tsrun/nodes.h"
#include "shim/tsrun/units.h"

#include <inttypes.h>
#include <string.h>

#define NS_PER_SECOND UINT64_C(1000000000)
#define UNKNOWN       "-"

/* ---- what the rows of a group say -------------------------------------------------------- */

/* Whether @job is in use and has noted @dataset. */
static bool uses(struct ts_job_row *job, uint32_t dataset)
{
	if (ts_load_relaxed(&job->id) == 0)
		return false;
	for (uint32_t i = 0; i < TS_JOB_DATASETS; i++)
		if ((ts_load_relaxed(&job->dataset[i]) & 0xff) == dataset + 1)
			return true;
	return false;
}

uint32_t ts_report_members(const struct ts_report *report, uint32_t dataset)
{
	uint32_t count = 0;

	for (uint32_t m = 0; m < report->ring.member_count; m++) {
		const struct ts_view_member *member = &report->ring.members[m];
		if (!member->live || member->job == 0)
			continue;
		for (uint32_t j = 0; j < TS_JOB_MAX; j++) {
			struct ts_job_row *job = ts_ledger_job(report->ledger, j);
			if (ts_load_relaxed(&job->id) == member->job && uses(job, dataset)) {
				count++;
				break;
			}
		}
	}
	return count;
}

bool ts_report_dataset(
	const struct ts_report *report, uint32_t dataset, char ret_name[TS_DATASET_NAME])
{
	struct ts_dataset_row *row = ts_ledger_dataset(report->ledger, dataset);

	if (ts_load_relaxed(&row->name_hash) == 0 || ts_load_relaxed(&row->named) == 0)
		return false;
	memcpy(ret_name, row->name, TS_DATASET_NAME);
	ret_name[TS_DATASET_NAME - 1] = '\0';
	return true;
}

/* Process id of the leader's job and whether it lives; 0 when there is none. */
static int leader_of(const struct ts_report *report, uint32_t dataset, bool *ret_alive)
{
	int job = ts_ledger_leader(report->ledger, dataset, ret_alive);

	if (job < 0 || (uint32_t)job >= TS_JOB_MAX)
		return 0;
	return TS_PROCESS_PID(
		ts_load_relaxed(&ts_ledger_job(report->ledger, (uint32_t)job)->id));
}

/* What keeps the log from being written, or NULL. */
static const char *explain_events(int error)
{
	const char *refusal = ts_events_explain(error);

	return error == 0 ? NULL : refusal ? refusal : strerror(-error);
}

static enum ts_recorder_state log_state(
	struct ts_ledger *ledger, uint32_t index, int *ret_error)
{
	uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, index)->id);

	return ts_recorder_state(ledger, index, id, ret_error);
}

static struct ts_figures figures_of(const struct ts_report *report)
{
	struct ts_figures figures = {.jobs = 0};
	struct ts_ledger *ledger = report->ledger;

	for (uint32_t j = 0; ledger && j < TS_JOB_MAX; j++)
		figures.jobs +=
			ts_process_is_alive(ts_load_relaxed(&ts_ledger_job(ledger, j)->id));
	if (ledger) {
		figures.alignable = ts_ledger_alignable(ledger, &figures.drawn);
		figures.freeable = ts_ledger_freeable(ledger, &figures.strict);
	}
	figures.helpers = report->nodes && ts_nodes_helper(report->nodes) > 0;
	return figures;
}

/* Where the figures of @of lie, of which a group has one each; NULL: there are none. */
static const void *base_of(
	const struct ts_report *report, const struct ts_figures *figures, enum ts_metric_of of)
{
	struct ts_mail_table *nodes = report->nodes;

	switch (of) {
	case TS_OF_JOBS:
		return figures;
	case TS_OF_RING:
		return report->ring.capacity > 0 ? &report->ring : NULL;
	case TS_OF_GROUP:
		return report->ledger;
	case TS_OF_APART:
		return report->ledger ? figures : NULL;
	case TS_OF_HELPER:
		return nodes ? figures : NULL;
	case TS_OF_NODES:
		return nodes;
	case TS_OF_SAMPLES:
		return nodes ? &nodes->samples : NULL;
	case TS_OF_USE:
		return nodes ? &nodes->use : NULL;
	default: /* there may be several */
		return NULL;
	}
}

/* ---- for scripts ------------------------------------------------------------------------- */

static void write_rows(struct ts_json *json, enum ts_metric_of of, const void *base)
{
	for (const struct ts_metric *m = NULL; (m = ts_metric_next(of, m)) != NULL;) {
		if (m->id && ts_metric_is_time(m))
			ts_json_seconds(json, m->id, ts_metric_value(m, base));
		else if (m->id)
			ts_json_number(json, m->id, ts_metric_value(m, base));
	}
}

static void write_tallies(struct ts_json *json, struct ts_tally *tallies)
{
	for (int kind = 0; kind < TS_KIND_COUNT; kind++) {
		ts_json_open(json, ts_kinds[kind].id, '{');
		write_rows(json, TS_OF_TALLY, &tallies[kind]);
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
	int leader = leader_of(report, dataset, &alive);
	if (leader > 0) {
		ts_json_open(json, "leader", '{');
		ts_json_number(json, "pid", (uint64_t)leader);
		ts_json_bool(json, "alive", alive);
		ts_json_close(json, '}');
	} else {
		ts_json_string(json, "leader", NULL);
	}
	ts_json_number(json, "members", ts_report_members(report, dataset));
	ts_json_bool(json, "off", ts_load_relaxed(&row->off) != 0);
	write_tallies(json, row->kinds);
	ts_json_close(json, '}');
}

/* Where an aligned job is; nulls where none of it is known. */
static void write_progress(struct ts_json *json, struct ts_ledger *ledger, uint32_t index)
{
	struct ts_progress_row *row = ts_ledger_progress(ledger, index);
	uint64_t here = ts_load_relaxed(&row->position), front = ts_ledger_front(ledger, index);

	if (ts_load_relaxed(&row->identity) == 0) {
		ts_json_string(json, "order", NULL);
		ts_json_string(json, "epoch", NULL);
		ts_json_string(json, "behind", NULL);
		return;
	}
	const char *order = ts_order_word(ts_load_relaxed(&row->order));
	ts_json_string(json, "order", order ? order : "unknown");
	ts_json_seconds(json, "epoch", ts_sample_epochs(here));
	ts_json_seconds(json, "behind", ts_sample_epochs(front > here ? front - here : 0));
}

static void write_events(struct ts_json *json, struct ts_ledger *ledger, uint32_t index)
{
	static const char *const states[] = {
#define TS_X(name, word) word,
		TS_RECORDER_STATES(TS_X)
#undef TS_X
	};
	int error;
	enum ts_recorder_state state = log_state(ledger, index, &error);

	ts_json_open(json, "events", '{');
	ts_json_string(json, "state", states[state]);
	ts_json_string(json, "error", explain_events(error));
	ts_json_close(json, '}');
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
		if (uses(job, d) && ts_report_dataset(report, d, name))
			ts_json_string(json, NULL, name);
	ts_json_close(json, ']');
	write_tallies(json, job->kinds);
	write_progress(json, report->ledger, index);
	bool refused = ts_ledger_refusal(report->ledger, index, refusal);
	ts_json_string(json, "refused", refused ? refusal : NULL);
	write_events(json, report->ledger, index);
	write_passed(json, job->passed);
	ts_json_close(json, '}');
}

static void write_node(struct ts_json *json, struct ts_mail_table *table, uint32_t index)
{
	struct ts_node node;

	if (!ts_nodes_read(table, index, &node))
		return;
	ts_json_open(json, NULL, '{');
	ts_json_string(json, "name", node.name);
	ts_json_string(json, "state", ts_nodes_state_word(node.state));
	ts_json_string(json, "error", ts_nodes_explain(node.error));
	write_rows(json, TS_OF_NODE, &table->peers[index]);
	ts_json_close(json, '}');
}

static void write_nodes(struct ts_json *json, struct ts_mail_table *table)
{
	int helper = table ? ts_nodes_helper(table) : 0;

	if (!table) {
		ts_json_string(json, "nodes", NULL);
		return;
	}
	ts_json_open(json, "nodes", '{');
	ts_json_number_or_null(json, "helper", helper > 0, (uint64_t)helper);
	ts_json_string(json, "error", ts_nodes_explain_helper(ts_load_relaxed(&table->error)));
	write_rows(json, TS_OF_NODES, table);
	ts_json_open(json, "samples", '{');
	write_rows(json, TS_OF_SAMPLES, &table->samples);
	write_rows(json, TS_OF_USE, &table->use);
	ts_json_close(json, '}');
	ts_json_open(json, "list", '[');
	for (uint32_t i = 0; i < ts_nodes_count(table); i++)
		write_node(json, table, i);
	ts_json_close(json, ']');
	ts_json_close(json, '}');
}

static void print_json(const struct ts_report *report, FILE *out)
{
	const struct ts_figures figures = figures_of(report);
	struct ts_json json = {.out = out};
	struct ts_ledger *ledger = report->ledger;

	ts_json_open(&json, NULL, '{');
	ts_json_string(&json, "group", report->group);
	ts_json_open(&json, "datasets", '[');
	for (uint32_t d = 0; ledger && d < TS_DATASET_MAX; d++)
		write_dataset(&json, report, d);
	ts_json_close(&json, ']');
	ts_json_open(&json, "ring", '{');
	write_rows(&json, TS_OF_RING, &report->ring);
	ts_json_close(&json, '}');
	write_passed(&json, ledger ? ledger->passed : NULL);
	ts_json_open(&json, "jobs", '[');
	for (uint32_t j = 0; ledger && j < TS_JOB_MAX; j++)
		write_job(&json, report, j);
	ts_json_close(&json, ']');
	ts_json_open(&json, "made_apart", '{');
	write_rows(&json, TS_OF_APART, &figures);
	ts_json_close(&json, '}');
	write_rows(&json, TS_OF_GROUP, ledger);
	write_nodes(&json, report->nodes);
	ts_json_number(&json, "elsewhere", report->elsewhere);
	ts_json_close(&json, '}');
}

/* ---- for Prometheus ---------------------------------------------------------------------- */

/* A label; names may hold anything, even what is no UTF-8: such bytes become '?'. */
static void print_label(FILE *out, const char *name, const char *value)
{
	fprintf(out, ",%s=\"", name);
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

/* One line: @labels are pairs of a name and a value, ending with NULL. */
static void print_line(const struct ts_report *report, FILE *out,
	const struct ts_metric *metric, const void *base, const char *const labels[])
{
	uint64_t value = ts_metric_value(metric, base);

	fprintf(out, "tsshim_%s{group=\"%s\"", metric->metric, report->group);
	for (; labels[0]; labels += 2)
		print_label(out, labels[0], labels[1]);
	if (ts_metric_is_time(metric))
		fprintf(out, "} %" PRIu64 ".%09" PRIu64 "\n", value / NS_PER_SECOND,
			value % NS_PER_SECOND);
	else
		fprintf(out, "} %" PRIu64 "\n", value);
}

static void print_tally_lines(
	const struct ts_report *report, FILE *out, const struct ts_metric *metric)
{
	char name[TS_DATASET_NAME];

	for (uint32_t d = 0; report->ledger && d < TS_DATASET_MAX; d++) {
		if (!ts_report_dataset(report, d, name))
			continue;
		for (int kind = 0; kind < TS_KIND_COUNT; kind++)
			print_line(report, out, metric,
				&ts_ledger_dataset(report->ledger, d)->kinds[kind],
				(const char *const[]){
					"dataset", name, "kind", ts_kinds[kind].id, NULL});
	}
}

static void print_node_lines(
	const struct ts_report *report, FILE *out, const struct ts_metric *metric)
{
	struct ts_node node;

	for (uint32_t i = 0; i < ts_nodes_count(report->nodes); i++)
		if (ts_nodes_read(report->nodes, i, &node))
			print_line(report, out, metric, &report->nodes->peers[i],
				(const char *const[]){"node", node.name, NULL});
}

static void print_prometheus(const struct ts_report *report, FILE *out)
{
	const struct ts_figures figures = figures_of(report);

	for (const struct ts_metric *m = ts_metrics; m->meaning; m++) {
		if (!m->metric || (m->of >= TS_OF_HELPER && !report->nodes))
			continue;
		/* A counter is named as one, and nothing else is. */
		size_t length = strlen(m->metric), end = strlen("_total");
		bool counts = length > end && strcmp(m->metric + length - end, "_total") == 0;
		fprintf(out, "# HELP tsshim_%s %s\n# TYPE tsshim_%s %s\n", m->metric,
			m->meaning, m->metric, counts ? "counter" : "gauge");
		if (m->of == TS_OF_TALLY)
			print_tally_lines(report, out, m);
		else if (m->of == TS_OF_NODE)
			print_node_lines(report, out, m);
		else if (m->of != TS_OF_REASON)
			print_line(report, out, m, base_of(report, &figures, m->of),
				(const char *const[]){NULL});
		for (int i = 0; m->of == TS_OF_REASON && i < TS_REASON_COUNT; i++)
			print_line(report, out, m,
				report->ledger ? &report->ledger->passed[i] : NULL,
				(const char *const[]){"reason", ts_reasons[i].id, NULL});
	}
}

/* ---- for people: lines ------------------------------------------------------------------- */

/* Where rows are printed, and the title above the first of them. */
struct block {
	FILE *out;
	const char *title; /* NULL: it is printed, or there is none */
	bool all;          /* also what is zero or not known */
};

/* "name  value  meaning"; names and values stand below each other everywhere. */
static void print_row(
	struct block *block, const char *name, const char *value, const char *meaning)
{
	if (block->title)
		fprintf(block->out, "\n%s\n", block->title);
	block->title = NULL;
	fprintf(block->out, "    %-22s %15s  %s\n", name, value, meaning);
}

static void print_metric(struct block *block, const struct ts_metric *metric, const void *base)
{
	uint64_t value = ts_metric_value(metric, base);
	char text[TS_UNITS_BYTES];

	if (!metric->id || (value == 0 && !block->all))
		return;
	if (!base)
		(void)snprintf(text, sizeof(text), UNKNOWN);
	else if (ts_metric_is_time(metric))
		(void)ts_units_seconds(value, text);
	else if (metric->unit == TS_UNIT_BYTES && !block->all)
		(void)ts_units_size(value, text);
	else
		(void)ts_units_grouped(value, text);
	print_row(block, metric->id, text, metric->meaning);
}

static void print_rows(struct block *block, enum ts_metric_of of, const void *base)
{
	for (const struct ts_metric *m = NULL; (m = ts_metric_next(of, m)) != NULL;)
		print_metric(block, m, base);
}

static void print_share(FILE *out, const char *what, uint64_t part, uint64_t whole)
{
	char number[TS_UNITS_BYTES];
	/* Tenths of a per cent; halves first so that 1000 * part cannot wrap. */
	uint64_t tenths = whole == 0                  ? 0
			  : whole > UINT64_MAX / 1000 ? part / (whole / 1000)
						      : part * 1000 / whole;

	fprintf(out, "    %-22s %15s  (%" PRIu64 ".%" PRIu64 " %%)\n", what,
		ts_units_grouped(part, number), tenths / 10, tenths % 10);
}

/* ---- for people: data sets --------------------------------------------------------------- */

/* Every figure of every kind of work. */
static void print_tallies(FILE *out, struct ts_tally *tallies)
{
	struct block block = {.out = out, .all = true};

	for (int kind = 0; kind < TS_KIND_COUNT; kind++) {
		fprintf(out, "  %s: %s\n", ts_kinds[kind].id, ts_kinds[kind].text);
		for (const struct ts_metric *m = NULL;
			(m = ts_metric_next(TS_OF_TALLY, m)) != NULL;) {
			/* What an open of a copy of a file saves is no CPU time. */
			bool is_known = kind != TS_KIND_BYTES || m->unit != TS_UNIT_CPU;
			print_metric(&block, m, is_known ? &tallies[kind] : NULL);
		}
	}
}

/* The kinds of work that there was any of, with shares; whether there was one. */
static bool print_shares(FILE *out, struct ts_tally *tallies)
{
	char number[TS_UNITS_BYTES];
	bool any = false;

	for (int kind = 0; kind < TS_KIND_COUNT; kind++) {
		uint64_t produced = ts_load_relaxed(&tallies[kind].produced);
		uint64_t shared = ts_load_relaxed(&tallies[kind].shared);
		bool files = kind == TS_KIND_BYTES;
		if (produced + shared == 0)
			continue;
		any = true;
		fprintf(out, "  %-24s %15s\n", ts_kinds[kind].text,
			ts_units_grouped(produced + shared, number));
		print_share(out, files ? "copied by a job" : "worked out by a job", produced,
			produced + shared);
		print_share(out, files ? "opened as copies" : "taken from the ring", shared,
			produced + shared);
		if (files)
			continue;
		fprintf(out, "    %-22s %s\n", "CPU time saved",
			ts_units_duration(ts_load_relaxed(&tallies[kind].saved_ns), number));
	}
	return any;
}

static void print_dataset(FILE *out, const struct ts_report *report, uint32_t dataset, bool all)
{
	char name[TS_DATASET_NAME];
	bool alive;

	if (!ts_report_dataset(report, dataset, name))
		return;
	ts_units_make_printable(name);
	struct ts_dataset_row *row = ts_ledger_dataset(report->ledger, dataset);
	uint32_t members = ts_report_members(report, dataset);
	int leader = leader_of(report, dataset, &alive);
	fprintf(out, "\nDataset %s  (", name);
	if (leader > 0)
		fprintf(out, "leader pid %d%s, ", leader, alive ? "" : ", ended");
	else
		fputs("no leader, ", out);
	fprintf(out, "%u process%s attached)\n", members, members == 1 ? "" : "es");
	if (all)
		print_tallies(out, row->kinds);
	else if (!print_shares(out, row->kinds))
		fputs("  nothing counted yet\n", out);
	if (ts_load_relaxed(&row->off) != 0)
		fputs("  SWITCHED OFF: verification found a difference\n", out);
}

/* ---- for people: jobs -------------------------------------------------------------------- */

/* What became of the log of the job in row @index, if it is worth a word: "; ...". */
static void print_events(struct ts_ledger *ledger, uint32_t index, FILE *out)
{
	int error;
	enum ts_recorder_state state = log_state(ledger, index, &error);

	if (error == -ENOENT && state == TS_RECORDER_NO_HELPER)
		fputs("; event log not begun: no process can be started unseen here", out);
	else if (error != 0)
		fprintf(out, "; event log %s: %s",
			state == TS_RECORDER_NO_HELPER ? "not begun" : "ended",
			explain_events(error));
}

/* What is told of a job besides its work, each with "; " in front. */
static void print_where(FILE *out, struct ts_ledger *ledger, uint32_t index)
{
	struct ts_progress_row *where = ts_ledger_progress(ledger, index);
	uint64_t here = ts_load_relaxed(&where->position);
	uint64_t front = ts_ledger_front(ledger, index);
	char refusal[TS_REFUSAL_BYTES], at[TS_UNITS_RATE];

	if (ts_ledger_refusal(ledger, index, refusal))
		fprintf(out, "; samples not shared: %s", refusal);
	if (ts_load_relaxed(&where->identity) != 0) {
		fprintf(out, "; at epoch %s", ts_units_epochs(here, at));
		if (here < front)
			fprintf(out, ", behind by %s", ts_units_epochs(front - here, at));
		else
			fputs(", in front", out);
	}
	print_events(ledger, index, out);
}

static void print_job(FILE *out, struct ts_ledger *ledger, uint32_t index)
{
	struct ts_job_row *job = ts_ledger_job(ledger, index);
	char made[TS_UNITS_BYTES], taken[TS_UNITS_BYTES];

	fprintf(out, "    pid %d", TS_PROCESS_PID(ts_load_relaxed(&job->id)));
	for (int kind = 0; kind < TS_KIND_COUNT; kind++) {
		uint64_t produced = ts_load_relaxed(&job->kinds[kind].produced);
		uint64_t shared = ts_load_relaxed(&job->kinds[kind].shared);
		if (produced + shared > 0)
			fprintf(out, "; %s: %s made, %s taken", ts_kinds[kind].text,
				ts_units_grouped(produced, made),
				ts_units_grouped(shared, taken));
	}
	print_where(out, ledger, index);
	fputs("\n", out);
}

/* The jobs that run, a line each. */
static void print_jobs(FILE *out, struct ts_ledger *ledger)
{
	uint32_t ended = 0, running = 0;

	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, i)->id);
		if (id == 0)
			continue;
		if (!ts_process_is_alive(id)) {
			ended++;
			continue;
		}
		if (running++ == 0)
			fputs("\nJobs\n", out);
		print_job(out, ledger, i);
	}
	if (running > 0 && ended > 0)
		fprintf(out, "    and %u that ended\n", ended);
}

/* All jobs, those that ended as well, with every figure. */
static void print_all_jobs(FILE *out, struct ts_ledger *ledger)
{
	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		struct ts_job_row *job = ts_ledger_job(ledger, i);
		struct ts_progress_row *where = ts_ledger_progress(ledger, i);
		const char *order = ts_order_word(ts_load_relaxed(&where->order));
		uint64_t id = ts_load_relaxed(&job->id);
		if (id == 0)
			continue;
		fprintf(out, "\nJob %d  (%s", TS_PROCESS_PID(id),
			ts_process_is_alive(id) ? "running" : "ended");
		if (ts_load_relaxed(&where->identity) != 0 && order)
			fprintf(out, ", %s order", order);
		print_where(out, ledger, i);
		fputs(")\n", out);
		print_tallies(out, job->kinds);
	}
}

/* ---- for people: other nodes ------------------------------------------------------------- */

static void print_node(FILE *out, struct ts_mail_table *table, uint32_t index, bool all)
{
	struct block block = {.out = out, .all = all};
	struct ts_node node;

	if (!ts_nodes_read(table, index, &node))
		return;
	fputs("\nNode ", out);
	ts_units_print_safely(out, node.name);
	fprintf(out, "  (%s)\n", ts_nodes_state_text(node.state));
	print_rows(&block, TS_OF_NODE, &table->peers[index]);
	if (node.error != 0)
		fprintf(out, "    last failure: %s\n", ts_nodes_explain(node.error));
}

static void print_nodes(FILE *out, struct ts_mail_table *table, bool all)
{
	struct block totals = {.out = out, .all = all};
	struct block samples = {.out = out, .title = "Samples between nodes", .all = all};

	if (!table)
		return;
	const char *error = ts_nodes_explain_helper(ts_load_relaxed(&table->error));
	int helper = ts_nodes_helper(table);
	fputs("\nOther nodes: ", out);
	if (helper > 0)
		fprintf(out, "asked by process %d\n", helper);
	else
		fprintf(out, "nobody asks them now%s%s\n", error ? ": " : "",
			error ? error : "");
	print_rows(&totals, TS_OF_NODES, table);
	print_rows(&samples, TS_OF_SAMPLES, &table->samples);
	print_rows(&samples, TS_OF_USE, &table->use);
	for (uint32_t i = 0; i < ts_nodes_count(table); i++)
		print_node(out, table, i, all);
}

/* ---- for people: the group --------------------------------------------------------------- */

static void print_reason(struct block *block, int reason, struct ts_ledger *ledger)
{
	uint64_t count = ledger ? ts_load_relaxed(&ledger->passed[reason]) : 0;
	const char *fix = ts_reasons[reason].fix;
	char text[TS_UNITS_BYTES];

	if (count == 0 && !block->all)
		return;
	print_row(block, ts_reasons[reason].id,
		ledger ? ts_units_grouped(count, text) : UNKNOWN, ts_reasons[reason].text);
	if (block->all && fix && fix[0] != '\0')
		fprintf(block->out, "%44sfix: %s\n", "", fix);
}

static void print_reasons(FILE *out, struct ts_ledger *ledger, bool all)
{
	struct block block = {.out = out, .all = all};
	char number[TS_UNITS_BYTES];
	uint64_t total = 0, unknown = 0;

	for (int i = 0; ledger && i < TS_REASON_SLOTS; i++) {
		uint64_t count = ts_load_relaxed(&ledger->passed[i]);
		total += count;
		unknown += i < TS_REASON_COUNT ? 0 : count;
	}
	fprintf(out, "\n%-26s %15s\n", "Not shared", ts_units_grouped(total, number));
	for (int i = 0; i < TS_REASON_COUNT; i++)
		print_reason(&block, i, ledger);
	if (unknown > 0)
		print_row(&block, "unknown", ts_units_grouped(unknown, number),
			"counted by a newer version");
}

/* Less than one in so many is not worth a word: jobs in step are never quite in step, and the
 * last chunk of an epoch may have more samples than a job is given. */
#define MATTERS 20

/* What the user could do about it, where that is known. */
static void print_advice(FILE *out, const struct ts_figures *figures)
{
	char number[TS_UNITS_BYTES];

	/* Damaged counters may say anything. */
	if (figures->alignable > figures->drawn / MATTERS &&
		figures->alignable <= figures->drawn)
		fprintf(out,
			"\n%s samples that draw random numbers were made, some by "
			"several jobs: --align would have shared %.0f %% of them\n",
			ts_units_grouped(figures->drawn, number),
			100.0 * (double)figures->alignable / (double)figures->drawn);
	if (figures->freeable > figures->strict / MATTERS &&
		figures->freeable <= figures->strict)
		fprintf(out,
			"\n%s samples were made by jobs of different speed in strict order: "
			"--order free would have shared %.0f %% of them\n",
			ts_units_grouped(figures->strict, number),
			100.0 * (double)figures->freeable / (double)figures->strict);
}

static void print_verified(FILE *out, struct ts_ledger *ledger)
{
	uint64_t verified = ts_load_relaxed(&ledger->verified);
	uint64_t mismatched = ts_load_relaxed(&ledger->mismatched);

	if (verified + mismatched > 0)
		fprintf(out, "\nVerified %" PRIu64 " shared results, %" PRIu64 " differed\n",
			verified, mismatched);
}

static void print_all_of_group(
	FILE *out, const struct ts_report *report, const struct ts_figures *figures)
{
	static const enum ts_metric_of parts[] = {TS_OF_RING, TS_OF_GROUP, TS_OF_APART};
	struct block block = {.out = out, .title = "Group", .all = true};

	for (size_t i = 0; i < TS_ARRAY_SIZE(parts); i++)
		print_rows(&block, parts[i], base_of(report, figures, parts[i]));
}

/* Who is there, and how full the ring is. */
static void print_head(
	FILE *out, const struct ts_report *report, const struct ts_figures *figures)
{
	char used[TS_UNITS_BYTES], capacity[TS_UNITS_BYTES], why[TS_UNITS_RING];
	unsigned processes = 0, jobs = (unsigned)figures->jobs;

	if (!report->ledger && report->ring.capacity == 0) {
		fprintf(out, "Group %s: no job has shared anything yet.\n", report->group);
		return;
	}
	for (uint32_t m = 0; m < report->ring.member_count; m++)
		processes += report->ring.members[m].live;
	fprintf(out, "Group %s: %u job%s running, %u process%s attached\n", report->group, jobs,
		jobs == 1 ? "" : "s", processes, processes == 1 ? "" : "es");
	if (report->ring.capacity == 0)
		fputs("Ring: none\n", out);
	else
		fprintf(out, "Ring: %s of %s in use%s\n",
			ts_units_size(report->ring.used, used),
			ts_units_size(report->ring.capacity, capacity),
			ts_units_ring(report->ring.why, why));
}

/* Other containers that share /dev/shm: nobody should look for their jobs here. */
static void print_elsewhere(FILE *out, unsigned count)
{
	if (count > 0)
		fprintf(out,
			"\n%u other container%s or namespace%s %s a group of this name, which "
			"shares only inside\n",
			count, count == 1 ? "" : "s", count == 1 ? "" : "s",
			count == 1 ? "has" : "have");
}

static void print_text(FILE *out, const struct ts_report *report, bool all)
{
	const struct ts_figures figures = figures_of(report);
	struct ts_ledger *ledger = report->ledger;

	print_head(out, report, &figures);
	if (all)
		print_all_of_group(out, report, &figures);
	for (uint32_t d = 0; ledger && d < TS_DATASET_MAX; d++)
		print_dataset(out, report, d, all);
	if (ledger && all)
		print_all_jobs(out, ledger);
	else if (ledger)
		print_jobs(out, ledger);
	if (ledger || all)
		print_reasons(out, ledger, all);
	if (ledger && !all) {
		print_advice(out, &figures);
		print_verified(out, ledger);
	}
	print_nodes(out, report->nodes, all);
	print_elsewhere(out, report->elsewhere);
}

void ts_report_print(const struct ts_report *report, enum ts_report_form form, FILE *out)
{
	if (form == TS_REPORT_JSON)
		print_json(report, out);
	else if (form == TS_REPORT_PROMETHEUS)
		print_prometheus(report, out);
	else
		print_text(out, report, form == TS_REPORT_VERBOSE);
}
