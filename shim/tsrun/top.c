/* SPDX-License-Identifier: MIT */
/* tsrun top: what the jobs of the groups do, again and again. */
#include "shim/tsrun/top.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/sys.h"
#include "shim/tsrun/log_line.h"
#include "shim/tsrun/commands.h"
#include "shim/tsrun/message.h"
#include "shim/tsrun/nodes.h"
#include "shim/tsrun/report.h"
#include "shim/tsrun/screen.h"
#include "shim/tsrun/units.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define UNKNOWN "-"

/* ---- numbers ----------------------------------------------------------------------------- */

/* What a counter grew by in a second between two looks @ns apart; NAN: it is not known. */
static double per_second(uint64_t before, uint64_t now, uint64_t ns)
{
	/* Counters only grow: one that shrank is another one, or damaged. */
	return ns > 0 && now >= before ? (double)(now - before) * 1e9 / (double)ns : NAN;
}

/* Seconds of CPU time saved in a second, of @ns of it; at most five characters. */
static const char *saved(double ns, char buffer[TS_UNITS_RATE])
{
	double cpus = ns / 1e9;

	(void)snprintf(buffer, TS_UNITS_RATE,
		isnan(cpus)     ? UNKNOWN
		: cpus < 99.995 ? "%.2f"
		: cpus < 9999.5 ? "%.0f"
				: "many",
		cpus);
	return buffer;
}

/* At most ten characters. */
static const char *size(double bytes, char buffer[TS_UNITS_BYTES])
{
	if (isnan(bytes) || bytes >= 10000.0 * (double)(UINT64_C(1) << 40))
		(void)snprintf(buffer, TS_UNITS_BYTES, isnan(bytes) ? UNKNOWN : "many");
	else
		ts_units_size((uint64_t)bytes, buffer);
	return buffer;
}

/* ---- tallies ----------------------------------------------------------------------------- */

/* What was done in a second; NAN is not known. */
struct work {
	double made, taken, bytes, saved;
};

static const struct work unknown_work = {NAN, NAN, NAN, NAN};

/* Of @kind, by the tallies of all kinds; @before is NULL where none can be compared. */
static struct work work_of(struct ts_tally *before, struct ts_tally *now, int kind, uint64_t ns)
{
	if (!before)
		return unknown_work;
#define CHANGE(field) \
	per_second(ts_load_relaxed(&before[kind].field), ts_load_relaxed(&now[kind].field), ns)
	return (struct work){.made = CHANGE(produced),
		.taken = CHANGE(shared),
		.bytes = CHANGE(shared_bytes),
		/* What an open of a copy saves is no CPU time. */
		.saved = kind == TS_KIND_BYTES ? NAN : CHANGE(saved_ns)};
#undef CHANGE
}

static bool has_work(struct ts_tally *tally)
{
	return ts_load_relaxed(&tally->produced) + ts_load_relaxed(&tally->shared) > 0;
}

/* What two looks at a group have in common. */
struct pair {
	const struct ts_sample_group *before, *now; /* before is NULL where there is none */
	uint64_t ns;                                /* between them; 0 without */
};

static struct pair pair_of(const struct ts_sample *before, const struct ts_sample_group *now)
{
	struct pair pair = {.now = now};
	const struct ts_sample_group *other = before ? ts_sample_find(before, now->name) : NULL;

	if (other && other->report.ledger && now->report.ledger && other->inode == now->inode &&
		now->at_ns > other->at_ns) {
		pair.before = other;
		pair.ns = now->at_ns - other->at_ns;
	}
	return pair;
}

/* ---- data sets --------------------------------------------------------------------------- */

static struct ts_dataset_row *dataset_before(const struct pair *pair, uint32_t dataset)
{
	if (!pair->before)
		return NULL;
	struct ts_dataset_row *row = ts_ledger_dataset(pair->before->report.ledger, dataset);
	return ts_load_relaxed(&row->named) ? row : NULL;
}

static void print_dataset_kind(FILE *out, const char *name, const char *kind,
	const struct work *work, const char *processes)
{
	char made[TS_UNITS_RATE], taken[TS_UNITS_RATE], cpu[TS_UNITS_RATE];
	char share[TS_UNITS_RATE] = UNKNOWN, bytes[TS_UNITS_BYTES];
	double all = work->made + work->taken;

	if (all > 0)
		(void)snprintf(share, sizeof(share), "%.0f %%", 100.0 * work->taken / all);
	fprintf(out, "  %-20.20s %-6s %8s %8s %6s %12s %5s %5s\n", name, kind,
		ts_units_rate(work->made, made), ts_units_rate(work->taken, taken), share,
		size(work->bytes, bytes), saved(work->saved, cpu), processes);
}

static void print_dataset(FILE *out, const struct pair *pair, uint32_t dataset)
{
	const struct ts_report *report = &pair->now->report;
	char name[TS_DATASET_NAME], processes[TS_UNITS_RATE] = UNKNOWN;
	bool any = false;

	if (!ts_report_dataset(report, dataset, name))
		return;
	ts_units_make_printable(name);
	struct ts_dataset_row *row = ts_ledger_dataset(report->ledger, dataset);
	struct ts_dataset_row *before = dataset_before(pair, dataset);
	if (report->ring.capacity > 0)
		(void)snprintf(processes, sizeof(processes), "%" PRIu32,
			ts_report_members(report, dataset));
	for (int kind = 0; kind < TS_KIND_COUNT; kind++) {
		if (!has_work(&row->kinds[kind]))
			continue;
		struct work work =
			work_of(before ? before->kinds : NULL, row->kinds, kind, pair->ns);
		print_dataset_kind(
			out, any ? "" : name, ts_kinds[kind].id, &work, any ? "" : processes);
		any = true;
	}
	if (!any)
		print_dataset_kind(out, name, UNKNOWN, &unknown_work, processes);
	if (ts_load_relaxed(&row->off) != 0)
		fputs("    switched off: verification found a difference\n", out);
}

/* ---- jobs -------------------------------------------------------------------------------- */

static uint64_t epochs_of(const struct ts_sample_group *group, uint32_t job)
{
	return ts_load_relaxed(&ts_ledger_progress(group->report.ledger, job)->position);
}

/* The name of a process's program, at most eight characters. */
static void read_command(int pid, char buffer[TS_UNITS_RATE])
{
	char path[32], name[32];

	(void)snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	int length = ts_sys_read_file(path, name, sizeof(name));
	if (length > 0)
		name[strcspn(name, "\n")] = '\0';
	(void)snprintf(buffer, TS_UNITS_RATE, "%.8s", length > 0 && name[0] ? name : UNKNOWN);
	ts_units_make_printable(buffer);
}

/* How often reason @reason was counted in a second; @before may be NULL. */
static double reason_of(
	_Atomic uint64_t *before, _Atomic uint64_t *now, int reason, uint64_t ns)
{
	return before ? per_second(ts_load_relaxed(&before[reason]),
				ts_load_relaxed(&now[reason]), ns)
		      : NAN;
}

/* The same of all. */
static double reasons_of(_Atomic uint64_t *before, _Atomic uint64_t *now, uint64_t ns)
{
	double all = 0;

	for (int i = 0; i < TS_REASON_SLOTS; i++)
		all += reason_of(before, now, i, ns);
	return all;
}

/* The row of the same job a look before, or NULL. */
static struct ts_job_row *job_before(const struct pair *pair, uint32_t job, uint64_t id)
{
	if (!pair->before)
		return NULL;
	struct ts_job_row *row = ts_ledger_job(pair->before->report.ledger, job);
	return ts_load_relaxed(&row->id) == id ? row : NULL;
}

/* The columns that a job has once, whatever kinds of work it does. */
struct job_columns {
	char pid[TS_UNITS_RATE], command[TS_UNITS_RATE], processes[TS_UNITS_RATE];
	char epoch[TS_UNITS_RATE], behind[TS_UNITS_RATE];
	char passed[TS_UNITS_RATE], late[TS_UNITS_RATE];
};

static void fill_columns(const struct pair *pair, uint32_t job, struct job_columns *ret_columns)
{
	const struct ts_sample_group *now = pair->now;
	struct ts_job_row *row = ts_ledger_job(now->report.ledger, job);
	uint64_t id = ts_load_relaxed(&row->id);
	struct ts_job_row *before = job_before(pair, job, id);
	struct job_columns columns = {
		.processes = UNKNOWN, .epoch = UNKNOWN, .behind = UNKNOWN};
	_Atomic uint64_t *passed = before ? before->passed : NULL;
	uint64_t identity =
		ts_load_relaxed(&ts_ledger_progress(now->report.ledger, job)->identity);

	(void)snprintf(columns.pid, sizeof(columns.pid), "%d", TS_PROCESS_PID(id));
	read_command(TS_PROCESS_PID(id), columns.command);
	if (now->report.ring.capacity > 0)
		(void)snprintf(columns.processes, sizeof(columns.processes), "%" PRIu32,
			ts_sample_processes(now, id));
	if (identity != 0) {
		uint64_t here = epochs_of(now, job), front = ts_sample_front(now, identity);
		ts_units_epochs(here, columns.epoch);
		ts_units_epochs(front > here ? front - here : 0, columns.behind);
	}
	ts_units_rate(reasons_of(passed, row->passed, pair->ns), columns.passed);
	ts_units_rate(
		reason_of(passed, row->passed, TS_REASON_TIMEOUT, pair->ns), columns.late);
	*ret_columns = columns;
}

static void print_job_kind(
	FILE *out, const struct job_columns *columns, const char *kind, const struct work *work)
{
	char made[TS_UNITS_RATE], taken[TS_UNITS_RATE], cpu[TS_UNITS_RATE];

	fprintf(out, " %7.7s %-8s %5s %6s %6s %-6s %6s %7s %6s %6s %5s\n", columns->pid,
		columns->command, columns->processes, columns->epoch, columns->behind, kind,
		ts_units_rate(work->made, made), ts_units_rate(work->taken, taken),
		columns->passed, columns->late, saved(work->saved, cpu));
}

static void print_job(FILE *out, const struct pair *pair, uint32_t job)
{
	static const struct job_columns none;
	struct job_columns columns;
	struct ts_job_row *row = ts_ledger_job(pair->now->report.ledger, job);
	struct ts_job_row *before = job_before(pair, job, ts_load_relaxed(&row->id));
	bool any = false;

	fill_columns(pair, job, &columns);
	for (int kind = 0; kind < TS_KIND_COUNT; kind++) {
		if (!has_work(&row->kinds[kind]))
			continue;
		struct work work =
			work_of(before ? before->kinds : NULL, row->kinds, kind, pair->ns);
		print_job_kind(out, any ? &none : &columns, ts_kinds[kind].id, &work);
		any = true;
	}
	if (!any)
		print_job_kind(out, &columns, UNKNOWN, &unknown_work);
}

/* ---- other nodes ------------------------------------------------------------------------- */

static uint32_t count_open(struct ts_mail_table *table)
{
	struct ts_node node;
	uint32_t count = 0;

	for (uint32_t i = 0; i < ts_nodes_count(table); i++)
		count += ts_nodes_read(table, i, &node) && node.state == TS_MAIL_PEER_OPEN;
	return count;
}

/* One line of all other nodes; nothing where nobody asks any. */
static void print_nodes(FILE *out, const struct pair *pair)
{
	struct ts_mail_table *before = pair->before ? pair->before->report.nodes : NULL;
	struct ts_mail_table *now = pair->now->report.nodes;
	char asked[TS_UNITS_RATE], got[TS_UNITS_RATE], stored[TS_UNITS_RATE];
	char bytes[TS_UNITS_BYTES];

	if (!now)
		return;
#define RATE(NAME)                                                           \
	(before ? per_second(ts_nodes_sum(before, TS_MAIL_COUNT_##NAME),     \
			  ts_nodes_sum(now, TS_MAIL_COUNT_##NAME), pair->ns) \
		: NAN)
	fprintf(out, "  nodes: came %s of %s/s, %s/s; stored %s/s; ",
		ts_units_rate(RATE(GOT), got), ts_units_rate(RATE(ASKED), asked),
		size(RATE(GOT_BYTES), bytes), ts_units_rate(RATE(STORED), stored));
#undef RATE
	if (ts_nodes_helper(now) > 0)
		fprintf(out, "%" PRIu32 "/%" PRIu32 " open\n", count_open(now),
			ts_nodes_count(now));
	else
		fputs("no helper\n", out);
}

/* ---- groups ------------------------------------------------------------------------------ */

/* Over all data sets: nanoseconds of CPU time saved in a second. */
static double saved_by(const struct pair *pair)
{
	double sum = pair->before ? 0 : NAN;
	char name[TS_DATASET_NAME];

	for (uint32_t d = 0; pair->before && d < TS_DATASET_MAX; d++) {
		struct ts_dataset_row *before = dataset_before(pair, d);
		if (!before || !ts_report_dataset(&pair->now->report, d, name))
			continue;
		struct ts_dataset_row *row = ts_ledger_dataset(pair->now->report.ledger, d);
		for (int kind = 0; kind < TS_KIND_COUNT; kind++)
			if (kind != TS_KIND_BYTES)
				sum += work_of(before->kinds, row->kinds, kind, pair->ns).saved;
	}
	return sum;
}

/* At most 37 characters. */
static void format_ring(const struct ts_view_ring *ring, char *buffer, size_t bytes)
{
	char used[TS_UNITS_BYTES], capacity[TS_UNITS_BYTES];

	if (ring->capacity == 0)
		(void)snprintf(buffer, bytes, UNKNOWN);
	else
		(void)snprintf(buffer, bytes, "%s of %s, %.0f %%",
			size((double)ring->used, used), size((double)ring->capacity, capacity),
			100.0 * (double)ring->used / (double)ring->capacity);
}

static void print_head(FILE *out, const struct pair *pair)
{
	const struct ts_sample_group *now = pair->now;
	struct ts_ledger *ledger = now->report.ledger;
	char late[TS_UNITS_RATE], cpu[TS_UNITS_RATE], ring[80];
	double rate = pair->before ? reason_of(pair->before->report.ledger->passed,
					     ledger->passed, TS_REASON_TIMEOUT, pair->ns)
				   : NAN;

	format_ring(&now->report.ring, ring, sizeof(ring));
	fprintf(out, "Group %s\n  %" PRIu32 " job%s; ring %s; late %s/s; saved %s CPU\n",
		now->name, now->jobs, now->jobs == 1 ? "" : "s", ring,
		ts_units_rate(rate, late), saved(saved_by(pair), cpu));
}

static void print_group(FILE *out, const struct pair *pair)
{
	const struct ts_sample_group *now = pair->now;
	struct ts_ledger *ledger = now->report.ledger;

	print_head(out, pair);
	if (now->error < 0)
		fprintf(out, "  cannot be read: %.60s\n", ts_view_explain(now->error));
	if (!ledger)
		return;
	print_nodes(out, pair);
	fprintf(out, "  %-20s %-6s %8s %8s %6s %12s %5s %5s\n", "DATA SET", "WORK", "MADE/s",
		"TAKEN/s", "TAKEN", "BYTES/s", "SAVED", "PROCS");
	for (uint32_t d = 0; d < TS_DATASET_MAX; d++)
		print_dataset(out, pair, d);
	if (now->jobs > 0)
		fprintf(out, " %7s %-8s %5s %6s %6s %-6s %6s %7s %6s %6s %5s\n", "PID",
			"COMMAND", "PROCS", "EPOCH", "BEHIND", "WORK", "MADE/s", "TAKEN/s",
			"PASS/s", "LATE/s", "SAVED");
	for (uint32_t i = 0; i < TS_JOB_MAX; i++)
		if (now->alive[i])
			print_job(out, pair, i);
}

static bool is_over(const struct ts_sample_group *group)
{
	return group->jobs == 0 && group->report.ring.capacity == 0 && group->error == 0;
}

void ts_rates_write(
	FILE *out, const struct ts_sample *before, const struct ts_sample *now, bool everything)
{
	uint32_t shown = 0, over = 0;

	for (uint32_t i = 0; i < now->count; i++) {
		if (!everything && is_over(&now->groups[i])) {
			over++;
			continue;
		}
		struct pair pair = pair_of(before, &now->groups[i]);
		if (shown++ > 0)
			fputs("\n", out);
		print_group(out, &pair);
	}
	if (over > 0)
		fprintf(out, "%s%" PRIu32 " group%s without jobs\n",
			shown > 0 ? "\nand " : "No job is running; ", over,
			over == 1 ? "" : "s");
	else if (shown == 0)
		fputs("No job is running\n", out);
}

/* ---- again and again --------------------------------------------------------------------- */

#define NS_PER_SECOND UINT64_C(1000000000)
#define NS_PER_MS     UINT64_C(1000000)
#define COUNT_MAX     UINT64_C(1000000000)

/* Faster, our own looking would show; slower, a loop around -n 1 does it. */
#define DELAY_MIN_NS (NS_PER_SECOND / 10)
#define DELAY_MAX_NS (3600 * NS_PER_SECOND)

#define DELAY_NS (2 * NS_PER_SECOND) /* as top(1) and others of its kind have it */

/* ---- options ----------------------------------------------------------------------------- */

struct options {
	const char *group; /* only that one; NULL: all of the user's in these namespaces */
	bool batch;        /* blocks of text, for logs; so without a terminal as well */
	bool json;         /* lines of the event log (shim/tsrun/log_line.h) */
	uint32_t count;    /* of blocks or pictures; 0: until somebody ends it */
	uint64_t delay_ns; /* between two of them */
};

/* Digits, and up to nine behind a point, as units of 10^-9; UINT64_MAX when it is not that. */
static uint64_t parse_decimal(const char *text)
{
	uint64_t value = 0, scale = NS_PER_SECOND;
	const char *at = text;

	for (; *at >= '0' && *at <= '9'; at++) {
		value = 10 * value + (uint64_t)(*at - '0');
		if (value > COUNT_MAX)
			return UINT64_MAX;
	}
	if (at == text)
		return UINT64_MAX;
	value *= NS_PER_SECOND;
	if (*at == '.' && at[1] != '\0')
		for (at++; *at >= '0' && *at <= '9' && scale > 1; at++)
			value += (uint64_t)(*at - '0') * (scale /= 10);
	return *at == '\0' ? value : UINT64_MAX;
}

/*
 * The words behind -n and -d, each NULL where it is not given, in *options.
 * Errors: -EINVAL after a message.
 */
static int parse_options(const char *count, const char *delay, struct options *options)
{
	uint64_t times = count ? parse_decimal(count) : 0;
	uint64_t ns = delay ? parse_decimal(delay) : DELAY_NS;

	if (count && (times == 0 || times == UINT64_MAX || strchr(count, '.'))) {
		ts_message_say("option '--count' has a bad value '%s'", count);
		ts_message_hint("it must be a number from 1 to %" PRIu64, COUNT_MAX);
		return -EINVAL;
	}
	if (ns < DELAY_MIN_NS || ns > DELAY_MAX_NS) {
		ts_message_say("option '--delay' has a bad value '%s'", delay);
		ts_message_hint("it must be a number of seconds from 0.1 to 3600");
		return -EINVAL;
	}
	options->count = (uint32_t)(times / NS_PER_SECOND);
	options->delay_ns = ns;
	return 0;
}

/* ---- what is shown ----------------------------------------------------------------------- */

/* What earlier lines of a group said. */
struct lines {
	struct lines *next;
	char group[TS_GROUP_MAX + 1];
	struct ts_log_jobs jobs;
};

/* The last two looks; the older one is what rates are told from. */
struct looks {
	struct ts_sample before, now;
	struct lines *lines; /* of JSON */
	uint64_t next_ns;    /* when the next one is due */
	uint32_t shown;
};

/* Those of the group called @name; NULL without memory. */
static struct lines *find_lines(struct looks *looks, const char *name)
{
	struct lines *lines = looks->lines;

	while (lines && strcmp(lines->group, name) != 0)
		lines = lines->next;
	if (lines || !(lines = calloc(1, sizeof(*lines))))
		return lines;
	(void)snprintf(lines->group, sizeof(lines->group), "%s", name);
	lines->next = looks->lines;
	looks->lines = lines;
	return lines;
}

/* A line of each group that has a job, or has lost its last one, or was named. */
static int compose_lines(FILE *out, const struct options *options, struct looks *looks)
{
	for (uint32_t i = 0; i < looks->now.count; i++) {
		const struct ts_sample_group *group = &looks->now.groups[i];
		struct lines *lines = find_lines(looks, group->name);
		if (!lines)
			return -ENOMEM;
		if (options->group || group->jobs > 0 || ts_log_has_jobs(&lines->jobs))
			ts_log_write(&lines->jobs, group, (uint64_t)ts_real_ns() / NS_PER_MS,
				options->delay_ns / NS_PER_MS, out);
	}
	return 0;
}

static void compose_text(FILE *out, const struct options *options, const struct looks *looks)
{
	char when[32] = "";
	time_t seconds = time(NULL);
	struct tm local;

	if (localtime_r(&seconds, &local))
		(void)strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &local);
	fprintf(out, "tsrun top  %s  every %" PRIu64 ".%" PRIu64 " s\n\n", when,
		options->delay_ns / NS_PER_SECOND,
		options->delay_ns % NS_PER_SECOND / (NS_PER_SECOND / 10));
	ts_rates_write(out, &looks->before, &looks->now, options->group != NULL);
}

/* The text of one picture, for free(); NULL without memory. */
static char *compose(const struct options *options, struct looks *looks)
{
	char *text = NULL;
	size_t bytes;
	int r = 0;

	FILE *out = open_memstream(&text, &bytes);
	if (!out)
		return NULL;
	if (options->json)
		r = compose_lines(out, options, looks);
	else
		compose_text(out, options, looks);
	return fclose(out) == 0 && r == 0 ? text : (free(text), NULL);
}

/* Look again. Errors: those of ts_sample_take(). */
static int look(const struct options *options, struct looks *looks)
{
	struct ts_sample sample = {.groups = NULL};
	uint64_t now_ns = ts_now_ns();

	int r = ts_sample_take(options->group, &sample);
	if (r < 0)
		return r;
	ts_sample_finish(&looks->before);
	looks->before = looks->now;
	looks->now = sample;
	looks->next_ns = now_ns + options->delay_ns;
	return 0;
}

/* Print one block; what could not be printed is seen when stdout is closed. */
static int show_block(
	const char *text, const struct options *options, const struct looks *looks)
{
	if (looks->shown > 0 && !options->json)
		putchar('\n');
	fputs(text, stdout);
	return fflush(stdout) == 0 ? 0 : -EIO;
}

/* Look and show until the end; without a screen, blocks of text. */
static int run(const struct options *options, bool has_screen, struct looks *looks)
{
	for (;;) {
		int r = look(options, looks);
		if (r < 0)
			return r;
		char *text = compose(options, looks);
		if (!text)
			return -ENOMEM;
		r = has_screen ? ts_screen_draw(text) : show_block(text, options, looks);
		free(text);
		looks->shown++;
		if (r < 0)
			return has_screen ? r : 0;
		if (options->count > 0 && looks->shown >= options->count)
			return 0;
		uint64_t now_ns = ts_now_ns();
		uint64_t rest = looks->next_ns > now_ns ? looks->next_ns - now_ns : 0;
		if (has_screen && !ts_screen_wait(rest))
			return 0;
		if (!has_screen)
			(void)nanosleep(
				&(struct timespec){.tv_sec = (time_t)(rest / NS_PER_SECOND),
					.tv_nsec = (long)(rest % NS_PER_SECOND)},
				NULL);
	}
}

int ts_top_command(const struct ts_arguments *arguments, const struct ts_config *config)
{
	struct options chosen = {.group = ts_arguments_group(arguments, config, true),
		.batch = arguments->flag[TS_FLAG_BATCH],
		.json = arguments->flag[TS_FLAG_JSON]};
	const struct options *options = &chosen;
	struct looks looks = {.shown = 0};

	if (parse_options(arguments->value[TS_FLAG_BLOCKS], arguments->value[TS_FLAG_DELAY],
		    &chosen) < 0)
		return TS_EXIT_FAILED;
	bool batch = options->batch || options->json || isatty(STDOUT_FILENO) != 1;
	int r = batch ? 0 : ts_screen_begin();
	if (r == 0)
		r = run(options, !batch, &looks);
	if (!batch)
		ts_screen_end();
	ts_sample_finish(&looks.before);
	ts_sample_finish(&looks.now);
	for (struct lines *next; looks.lines; looks.lines = next) {
		next = looks.lines->next;
		free(looks.lines);
	}
	if (r == 0)
		return 0;
	ts_message_say("cannot go on: %s", strerror(-r));
	return TS_EXIT_FAILED;
}
