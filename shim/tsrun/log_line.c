/* SPDX-License-Identifier: MIT */
/* A line of the event log: one sample of a group, as a JSON object. */
#include "shim/tsrun/log_line.h"
#include "leader/events/events.h"
#include "leader/events/recorder.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/sys.h"
#include "shim/tsrun/json.h"
#include "shim/tsrun/nodes.h"

#include <string.h>
#include <sys/utsname.h>

#define NS_PER_S  UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

#define PERIOD_LEAST_MS UINT64_C(1000)
#define PERIOD_MOST_MS  UINT64_C(60000)
#define PERIODS         500 /* in the life of the oldest job */

/* ---- which jobs ------------------------------------------------------------------------- */

void ts_log_meet(struct ts_log_jobs *jobs, uint32_t row, uint64_t id)
{
	struct ts_log_job *job = &jobs->rows[row];

	*job = (struct ts_log_job){.id = id, .is_met = true, .began_ms = ts_job_began_ms(id)};
	ts_job_read_start(TS_PROCESS_PID(id), &job->start);
}

/* One that was over before anybody looked is told of where its own recorder could not. */
static bool is_worth_telling(struct ts_ledger *ledger, uint32_t row, uint64_t id)
{
	enum ts_recorder_state state = ts_recorder_state(ledger, row, id, NULL);

	return state == TS_RECORDER_WAITS || state == TS_RECORDER_WRITES;
}

bool ts_log_has_news(const struct ts_log_jobs *jobs, struct ts_ledger *ledger)
{
	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		const struct ts_log_job *job = &jobs->rows[i];
		if (ts_load_relaxed(&ts_ledger_job(ledger, i)->id) != job->id)
			return true;
		if (job->is_live ? !ts_process_is_alive(job->id)
				 : !job->is_over && is_worth_telling(ledger, i, job->id))
			return true;
	}
	return false;
}

bool ts_log_has_jobs(const struct ts_log_jobs *jobs)
{
	for (uint32_t i = 0; i < TS_JOB_MAX; i++)
		if (jobs->rows[i].is_live)
			return true;
	return false;
}

uint64_t ts_log_period_ms(const struct ts_log_jobs *jobs, uint64_t now_ms)
{
	uint64_t age = 0;

	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		const struct ts_log_job *job = &jobs->rows[i];
		if (job->is_live && job->began_ms > 0 && job->began_ms < now_ms)
			age = ts_max_u64(age, now_ms - job->began_ms);
	}
	return ts_min_u64(ts_max_u64(age / PERIODS, PERIOD_LEAST_MS), PERIOD_MOST_MS);
}

static uint64_t ended_ms(struct ts_job_row *row, uint64_t now_ms)
{
	uint64_t ended = ts_load_relaxed(&row->ended); /* 0, 1: it is not known when */

	return ended > 1 ? ts_min_u64(ts_job_real_ms(ended), now_ms) : now_ms;
}

/* Bring what is known of row @row up to date; whether this line has it. */
static bool look(struct ts_log_jobs *jobs, const struct ts_sample_group *group, uint32_t row,
	uint64_t now_ms)
{
	struct ts_ledger *ledger = group->report.ledger;
	struct ts_log_job *job = &jobs->rows[row];
	uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, row)->id);

	if (job->id != id)
		*job = (struct ts_log_job){.id = id};
	if (id == 0 || (job->is_over && !jobs->anew))
		return false;
	if (job->is_over)
		return job->ended_ms > 0;
	bool was_live = job->is_live;
	job->is_live = group->alive[row];
	if (job->is_live && !job->is_met) {
		ts_log_meet(jobs, row, id);
		job->is_live = true;
	}
	if (job->is_live)
		return true;
	if (!was_live && !is_worth_telling(ledger, row, id))
		return false;
	job->is_over = true;
	job->ended_ms = ended_ms(ts_ledger_job(ledger, row), now_ms);
	if (job->began_ms == 0)
		job->began_ms = ts_job_began_ms(id);
	return true;
}

/* ---- a job ------------------------------------------------------------------------------ */

static void string_or_null(struct ts_json *json, const char *key, const char *text)
{
	if (text)
		ts_json_string(json, key, text);
	else
		ts_json_null(json, key);
}

static void time_or_null(struct ts_json *json, const char *key, uint64_t ms)
{
	if (ms > 0)
		ts_json_seconds(json, key, ms * NS_PER_MS);
	else
		ts_json_null(json, key);
}

/* The name of the data set that the job has noted first; false: it has noted none yet. */
static bool first_dataset(struct ts_ledger *ledger, uint32_t row, char name[TS_DATASET_NAME])
{
	uint64_t first = UINT64_MAX;

	for (uint32_t i = 0; i < TS_JOB_DATASETS; i++) {
		uint64_t word = ts_load_relaxed(&ts_ledger_job(ledger, row)->dataset[i]);
		if (word != 0 && word < first)
			first = word;
	}
	uint32_t index = (uint32_t)(first & 0xff) - 1;
	if (first == UINT64_MAX || index >= TS_DATASET_MAX ||
		!ts_load_relaxed(&ts_ledger_dataset(ledger, index)->named))
		return false;
	memcpy(name, ts_ledger_dataset(ledger, index)->name, TS_DATASET_NAME);
	name[TS_DATASET_NAME - 1] = '\0';
	return true;
}

/* CPU time of a job, its workers that are members of the ring now, and those before. */
static uint64_t cpu_ns(const struct ts_view_ring *ring, uint64_t id, uint32_t *ret_processes)
{
	uint64_t sum = ts_job_cpu_ns(id);

	*ret_processes = 0;
	for (uint32_t i = 0; i < ring->member_count; i++) {
		if (ring->members[i].job != id || !ring->members[i].live)
			continue;
		++*ret_processes;
		if (ring->members[i].pid != TS_PROCESS_PID(id))
			sum += ts_process_cpu_ns(ring->members[i].pid);
	}
	return sum;
}

static void write_counts(struct ts_json *json, struct ts_job_row *row)
{
	for (uint32_t i = 0; i < TS_KIND_COUNT; i++) {
		struct ts_tally *tally = &row->kinds[i];
		uint64_t produced = ts_load_relaxed(&tally->produced);
		uint64_t shared = ts_load_relaxed(&tally->shared);
		if (produced == 0 && shared == 0)
			continue;
		ts_json_open(json, ts_kinds[i].id, '{');
		ts_json_number(json, "produced", produced);
		ts_json_number(json, "shared", shared);
		ts_json_number(json, "shared_bytes", ts_load_relaxed(&tally->shared_bytes));
		ts_json_seconds(json, "saved_seconds", ts_load_relaxed(&tally->saved_ns));
		ts_json_close(json, '}');
	}
	ts_json_open(json, "passed", '{');
	for (uint32_t i = 0; i < TS_REASON_COUNT; i++) {
		uint64_t passed = ts_load_relaxed(&row->passed[i]);
		if (passed > 0)
			ts_json_number(json, ts_reasons[i].id, passed);
	}
	ts_json_close(json, '}');
}

/* As ts_ledger_front(), which would look up every process for every job. */
static uint64_t front_of(const struct ts_sample_group *group, uint64_t identity)
{
	uint64_t front = 0;

	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		struct ts_progress_row *row = ts_ledger_progress(group->report.ledger, i);
		if (group->alive[i] && ts_load_relaxed(&row->identity) == identity)
			front = ts_max_u64(front, ts_load_relaxed(&row->position));
	}
	return front;
}

static void write_epochs(struct ts_json *json, const char *key, uint64_t position)
{
	ts_json_seconds(json, key,
		position / TS_EPOCH * NS_PER_S + position % TS_EPOCH * NS_PER_S / TS_EPOCH);
}

static void write_order(
	struct ts_json *json, const struct ts_sample_group *group, uint32_t index)
{
	struct ts_progress_row *row = ts_ledger_progress(group->report.ledger, index);
	uint64_t identity = ts_load_relaxed(&row->identity);

	if (identity == 0)
		return;
	uint64_t position = ts_load_relaxed(&row->position);
	uint64_t front = front_of(group, identity);
	const char *word = ts_order_word(ts_load_relaxed(&row->order));
	ts_json_string(json, "order", word ? word : "unknown");
	write_epochs(json, "epoch", position);
	write_epochs(json, "behind", front > position ? front - position : 0);
}

static void write_job(struct ts_json *json, const struct ts_sample_group *group,
	struct ts_log_job *job, uint32_t row)
{
	char name[48], dataset[TS_DATASET_NAME];
	uint32_t processes;
	const char *mode = job->start.mode;
	bool is_aligned = mode && strcmp(mode, "default") != 0;

	(void)snprintf(name, sizeof(name), "%d.%llu", (int)TS_PROCESS_PID(job->id),
		(unsigned long long)(job->id >> 24));
	ts_json_open(json, NULL, '{');
	ts_json_string(json, "job", name);
	ts_json_number(json, "pid", (uint64_t)TS_PROCESS_PID(job->id));
	time_or_null(json, "began", job->began_ms);
	time_or_null(json, "ended", job->ended_ms);
	string_or_null(json, "dataset",
		first_dataset(group->report.ledger, row, dataset) ? dataset : NULL);
	string_or_null(json, "mode", mode);
	if (is_aligned)
		ts_json_number(json, "align", job->start.seed);
	else
		ts_json_null(json, "align");
	string_or_null(json, "program", job->start.program[0] ? job->start.program : NULL);
	job->cpu_ns = ts_max_u64(job->cpu_ns, cpu_ns(&group->report.ring, job->id, &processes));
	ts_json_number(json, "processes", processes);
	ts_json_seconds(json, "cpu_seconds", job->cpu_ns);
	write_counts(json, ts_ledger_job(group->report.ledger, row));
	write_order(json, group, row);
	ts_json_close(json, '}');
}

/* ---- a group ---------------------------------------------------------------------------- */

static void write_ring(struct ts_json *json, const struct ts_view_ring *ring)
{
	if (ring->capacity == 0)
		return;
	ts_json_open(json, "ring", '{');
	ts_json_number(json, "capacity", ring->capacity);
	ts_json_number(json, "used", ring->used);
	ts_json_close(json, '}');
}

static void number_or_null(struct ts_json *json, const char *key, uint64_t number)
{
	if (number > 0)
		ts_json_number(json, key, number);
	else
		ts_json_null(json, key);
}

static void write_nodes(struct ts_json *json, struct ts_mail_table *table)
{
	struct ts_node node;

	if (!table)
		return;
	int helper = ts_nodes_helper(table);
	ts_json_open(json, "nodes", '{');
	number_or_null(json, "helper", (uint64_t)helper);
	number_or_null(json, "errno", helper ? 0 : ts_load_relaxed(&table->error));
	ts_json_open(json, "servers", '[');
	for (uint32_t i = 0; i < ts_nodes_count(table); i++) {
		if (!ts_nodes_read(table, i, &node))
			continue;
		ts_json_open(json, NULL, '{');
		ts_json_string(json, "server", node.name);
		ts_json_string(json, "state", ts_nodes_state_word(node.state));
		/* That of an earlier failure stays in the table. */
		number_or_null(json, "errno", node.state == TS_MAIL_PEER_SHUT ? node.error : 0);
		ts_json_close(json, '}');
	}
	ts_json_close(json, ']');
	ts_json_close(json, '}');
}

void ts_log_write(struct ts_log_jobs *jobs, const struct ts_sample_group *group,
	uint64_t now_ms, uint64_t every_ms, FILE *out)
{
	struct ts_json json = {.out = out, .is_flat = true};
	struct utsname node;

	ts_json_open(&json, NULL, '{');
	ts_json_number(&json, "tsshim_events", TS_EVENTS_FORMAT);
	ts_json_seconds(&json, "t", now_ms * NS_PER_MS);
	ts_json_seconds(&json, "every", every_ms * NS_PER_MS);
	ts_json_string(&json, "version", TS_VERSION);
	ts_json_string(&json, "group", group->name);
	string_or_null(&json, "node", uname(&node) == 0 ? node.nodename : NULL);
	write_ring(&json, &group->report.ring);
	write_nodes(&json, group->report.nodes);
	ts_json_open(&json, "jobs", '[');
	for (uint32_t i = 0; group->report.ledger && i < TS_JOB_MAX; i++)
		if (look(jobs, group, i, now_ms))
			write_job(&json, group, &jobs->rows[i], i);
	ts_json_close(&json, ']');
	ts_json_close(&json, '}');
	jobs->anew = false;
}
