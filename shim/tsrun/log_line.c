/* SPDX-License-Identifier: MIT */
/* A line of the event log: one sample of a group, as a JSON object. */
#include "shim/tsrun/log_line.h"
#include "leader/events/events.h"
#include "leader/events/recorder.h"
#include "shim/atomic.h"
#include "shim/config.h"
#include "shim/identity.h"
#include "shim/log.h"
#include "shim/sys.h"
#include "shim/tsrun/json.h"
#include "shim/tsrun/nodes.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* ---- what /proc says of a job ------------------------------------------------------------ */

#define NS_PER_S  UINT64_C(1000000000)
#define MS_PER_S  1000
#define NS_PER_MS UINT64_C(1000000)

/* Of a command line, or of an environment, what is looked at. */
#define TEXT_BYTES 131072

/* Settings of one job that are looked at. */
#define SETTINGS_MAX 64

static char text[TEXT_BYTES];

static uint64_t ticks_per_second(void)
{
	long ticks = sysconf(_SC_CLK_TCK);

	return ticks > 0 ? (uint64_t)ticks : 100;
}

/* ---- what it has used ------------------------------------------------------------------- */

/* Move *at behind the next blank, and read the number there. */
static uint64_t next_field(const char **at)
{
	const char *blank = strchr(*at, ' ');

	*at = blank ? blank + 1 : *at + strlen(*at);
	return strtoull(*at, NULL, 10);
}

uint64_t ts_job_cpu_ns(uint64_t id)
{
	char path[32], stat[1024];

	ts_format(path, sizeof(path), "/proc/%d/stat", (int)TS_PROCESS_PID(id));
	if (ts_sys_read_file(path, stat, sizeof(stat)) < 0)
		return 0;
	/* The name in parentheses may hold anything: fields count from behind the last ')'. */
	const char *at = strrchr(stat, ')');
	if (!at || at[1] != ' ')
		return 0;
	at += 2;
	uint64_t ticks = 0, start = 0;
	/* proc(5): the state is field 3; times are 14 to 17; the start is 22. */
	for (int field = 4; field <= 22; field++) {
		start = next_field(&at);
		if (field >= 14 && field <= 17)
			ticks += start;
	}
	bool is_same = (start & ((UINT64_C(1) << 40) - 1)) == id >> 24;
	return is_same ? ticks * (NS_PER_S / ticks_per_second()) : 0;
}

uint64_t ts_job_real_ms(uint64_t ns)
{
	struct timespec real, boot;

	if (clock_gettime(CLOCK_REALTIME, &real) < 0 ||
		clock_gettime(CLOCK_BOOTTIME, &boot) < 0)
		return 0;
	uint64_t now = (uint64_t)real.tv_sec * MS_PER_S + (uint64_t)real.tv_nsec / NS_PER_MS;
	uint64_t up = (uint64_t)boot.tv_sec * MS_PER_S + (uint64_t)boot.tv_nsec / NS_PER_MS;
	return now > up ? now - up + ns / NS_PER_MS : 0;
}

uint64_t ts_job_began_ms(uint64_t id)
{
	return ts_job_real_ms((id >> 24) * (NS_PER_S / ticks_per_second()));
}

/* ---- how it was started ----------------------------------------------------------------- */

/* Read a file of @pid into `text`; returns how many bytes, which end with a NUL. */
static size_t read_text(int pid, const char *name)
{
	char path[48];

	ts_format(path, sizeof(path), "/proc/%d/%s", pid, name);
	int length = ts_sys_read_file(path, text, sizeof(text));
	return length > 0 ? (size_t)length : 0;
}

/* The string behind the one at @at, or NULL at the end. */
static char *next_string(char *at, size_t length)
{
	char *next = at + strlen(at) + 1;

	return next < text + length ? next : NULL;
}

static bool is_python(const char *word)
{
	const char *slash = strrchr(word, '/');

	return strncmp(slash ? slash + 1 : word, "python", 6) == 0;
}

/*
 * Behind an interpreter: its script, or with -m its module.  The letters of options stand
 * together, and the value of one that has a value is the rest, or the next word; see
 * ts_isolation() (shim/isolation.h).
 */
static const char *find_script(char *words, size_t length, const char **ret_between)
{
	*ret_between = " ";
	for (char *word = next_string(words, length); word; word = next_string(word, length)) {
		if (word[0] != '-')
			return word;
		if (word[1] == '-')
			continue;
		const char *letter = word + strcspn(word, "cmWX");
		bool has_rest = *letter != '\0' && letter[1] != '\0';
		char *next = next_string(word, length);
		if (*letter == 'c' || word[1] == '\0')
			return NULL;
		*ret_between = " -m ";
		if (*letter == 'm')
			return has_rest ? letter + 1 : next;
		*ret_between = " ";
		if (*letter != '\0' && !has_rest && next)
			word = next;
	}
	return NULL;
}

static void read_program(int pid, struct ts_job_start *start)
{
	const char *between = "";
	size_t length = read_text(pid, "cmdline");

	if (length == 0)
		return;
	const char *script = is_python(text) ? find_script(text, length, &between) : NULL;
	(void)snprintf(start->program, sizeof(start->program), "%s%s%s", text,
		script ? between : "", script ? script : "");
}

static void read_mode(int pid, struct ts_job_start *start)
{
	struct ts_config config;
	char *entries[SETTINGS_MAX + 1];
	size_t length = read_text(pid, "environ"), count = 0;

	/* One that is longer than what we read may say something else at its end. */
	if (length == 0 || length >= sizeof(text) - 1)
		return;
	for (char *at = text; at && count < SETTINGS_MAX; at = next_string(at, length))
		if (strncmp(at, "TSSHIM_", 7) == 0)
			entries[count++] = at;
	entries[count] = NULL;
	ts_config_load(&config, entries, NULL);
	start->seed = config.align_seed;
	start->mode = !config.align                   ? "default"
		      : config.order == TS_ORDER_FREE ? "free"
						      : "aligned";
}

void ts_job_read_start(int pid, struct ts_job_start *ret_start)
{
	*ret_start = (struct ts_job_start){.mode = NULL};
	read_program(pid, ret_start);
	read_mode(pid, ret_start);
}

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

static void time_or_null(struct ts_json *json, const char *key, uint64_t ms)
{
	if (ms > 0)
		ts_json_seconds(json, key, ms * NS_PER_MS);
	else
		ts_json_string(json, key, NULL);
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
static uint64_t cpu_ns(const struct ts_view_ring *ring, uint64_t id)
{
	uint64_t sum = ts_job_cpu_ns(id);

	for (uint32_t i = 0; i < ring->member_count; i++)
		if (ring->members[i].job == id && ring->members[i].live &&
			ring->members[i].pid != TS_PROCESS_PID(id))
			sum += ts_process_cpu_ns(ring->members[i].pid);
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

static void write_order(
	struct ts_json *json, const struct ts_sample_group *group, uint32_t index)
{
	struct ts_progress_row *row = ts_ledger_progress(group->report.ledger, index);
	uint64_t identity = ts_load_relaxed(&row->identity);

	if (identity == 0)
		return;
	uint64_t position = ts_load_relaxed(&row->position);
	uint64_t front = ts_sample_front(group, identity);
	const char *word = ts_order_word(ts_load_relaxed(&row->order));
	ts_json_string(json, "order", word ? word : "unknown");
	ts_json_seconds(json, "epoch", ts_sample_epochs(position));
	ts_json_seconds(
		json, "behind", ts_sample_epochs(front > position ? front - position : 0));
}

static void write_job(struct ts_json *json, const struct ts_sample_group *group,
	struct ts_log_job *job, uint32_t row)
{
	char name[48], dataset[TS_DATASET_NAME];
	const char *mode = job->start.mode;
	bool is_aligned = mode && strcmp(mode, "default") != 0;

	(void)snprintf(name, sizeof(name), "%d.%llu", (int)TS_PROCESS_PID(job->id),
		(unsigned long long)(job->id >> 24));
	ts_json_open(json, NULL, '{');
	ts_json_string(json, "job", name);
	ts_json_number(json, "pid", (uint64_t)TS_PROCESS_PID(job->id));
	time_or_null(json, "began", job->began_ms);
	time_or_null(json, "ended", job->ended_ms);
	ts_json_string(json, "dataset",
		first_dataset(group->report.ledger, row, dataset) ? dataset : NULL);
	ts_json_string(json, "mode", mode);
	ts_json_number_or_null(json, "align", is_aligned, job->start.seed);
	ts_json_string(json, "program", job->start.program[0] ? job->start.program : NULL);
	job->cpu_ns = ts_max_u64(job->cpu_ns, cpu_ns(&group->report.ring, job->id));
	ts_json_number(json, "processes", ts_sample_processes(group, job->id));
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

static void write_nodes(struct ts_json *json, struct ts_mail_table *table)
{
	struct ts_node node;

	if (!table)
		return;
	int helper = ts_nodes_helper(table);
	ts_json_open(json, "nodes", '{');
	ts_json_number_or_null(json, "helper", helper > 0, (uint64_t)helper);
	uint64_t error = helper ? 0 : ts_load_relaxed(&table->error);
	ts_json_number_or_null(json, "errno", error > 0, error);
	ts_json_open(json, "servers", '[');
	for (uint32_t i = 0; i < ts_nodes_count(table); i++) {
		if (!ts_nodes_read(table, i, &node))
			continue;
		ts_json_open(json, NULL, '{');
		ts_json_string(json, "server", node.name);
		ts_json_string(json, "state", ts_nodes_state_word(node.state));
		/* That of an earlier failure stays in the table. */
		ts_json_number_or_null(json, "errno",
			node.state == TS_MAIL_PEER_SHUT && node.error > 0, node.error);
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
	ts_json_string(&json, "node", uname(&node) == 0 ? node.nodename : NULL);
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
