/* SPDX-License-Identifier: MIT */
/* tsrun stats: gather what a group did, and print it as JSON. */
#include "shim/tsrun/stats.h"
#include "leader/group/store_private.h"
#include "shim/identity.h"
#include "shim/tsrun/json.h"
#include "shim/tsrun/message.h"
#include "shim/tsrun/names.h"
#include "shim/tsrun/report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const kind_ids[TS_KIND_COUNT] = {
#define TS_X(name, id, text) id,
	TS_KINDS(TS_X)
#undef TS_X
};

static const char *const reason_ids[TS_REASON_COUNT] = {
#define TS_X(name, id, text) id,
	TS_REASONS(TS_X)
#undef TS_X
};

bool ts_report_uses(struct ts_job_row *job, uint32_t dataset)
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
			if (ts_load_relaxed(&job->id) == member->job &&
				ts_report_uses(job, dataset)) {
				count++;
				break;
			}
		}
	}
	return count;
}

int ts_report_leader(const struct ts_report *report, uint32_t dataset, bool *ret_alive)
{
	bool alive;
	int job = ts_ledger_leader(report->ledger, dataset, &alive);
	if (job < 0 || (uint32_t)job >= TS_JOB_MAX)
		return 0;
	uint64_t id = ts_load_relaxed(&ts_ledger_job(report->ledger, (uint32_t)job)->id);
	*ret_alive = alive;
	return TS_PROCESS_PID(id);
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

static void write_tallies(struct ts_json *json, struct ts_tally *tallies)
{
	for (int kind = 0; kind < TS_KIND_COUNT; kind++) {
		struct ts_tally *t = &tallies[kind];
		ts_json_open(json, kind_ids[kind], '{');
		ts_json_number(json, "produced", ts_load_relaxed(&t->produced));
		ts_json_number(json, "shared", ts_load_relaxed(&t->shared));
		ts_json_number(json, "shared_bytes", ts_load_relaxed(&t->shared_bytes));
		ts_json_seconds(json, "saved_seconds", ts_load_relaxed(&t->saved_ns));
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
			ts_json_number(json, reason_ids[i], count);
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

static void write_job(struct ts_json *json, const struct ts_report *report, uint32_t index)
{
	struct ts_job_row *job = ts_ledger_job(report->ledger, index);
	uint64_t id = ts_load_relaxed(&job->id);
	char name[TS_DATASET_NAME];

	if (id == 0)
		return;
	ts_json_open(json, NULL, '{');
	ts_json_number(json, "pid", (uint64_t)TS_PROCESS_PID(id));
	ts_json_bool(json, "alive", ts_view_is_alive(id));
	ts_json_open(json, "datasets", '[');
	for (uint32_t d = 0; d < TS_DATASET_MAX; d++)
		if (ts_report_uses(job, d) && ts_report_dataset(report, d, name))
			ts_json_string(json, NULL, name);
	ts_json_close(json, ']');
	write_tallies(json, job->kinds);
	write_passed(json, job->passed);
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
	ts_json_open(&json, "made_apart", '{');
	ts_json_number(&json, "samples", drawn);
	ts_json_number(&json, "align_would_share", alignable);
	ts_json_close(&json, '}');
	ts_json_number(&json, "verified", ledger ? ts_load_relaxed(&ledger->verified) : 0);
	ts_json_number(&json, "elsewhere", report->elsewhere);
	ts_json_number(&json, "mismatched", ledger ? ts_load_relaxed(&ledger->mismatched) : 0);
	ts_json_close(&json, '}');
}

/* Open "ledger" or "ring" of @group; 0 with *ret_fd -1 when there is none. */
static int open_part(const char *group, const char *suffix, int *ret_fd)
{
	char path[TS_PATH_BYTES];
	struct stat st;

	*ret_fd = -1;
	int r = ts_object_path(path, sizeof(path), group, suffix);
	if (r == 0)
		r = ts_view_open(path, false, ret_fd, &st);
	return r == -ENOENT ? 0 : r;
}

static int gather(struct ts_report *report)
{
	int fd;

	int r = open_part(report->group, "ledger", &fd);
	if (r == 0 && fd >= 0) {
		r = ts_view_ledger(fd, &report->ledger);
		(void)close(fd);
	}
	if (r < 0) {
		ts_message_say("cannot read the counters of group '%s': %s", report->group,
			ts_view_explain(r));
		return r;
	}
	r = open_part(report->group, "ring", &fd);
	if (r == 0 && fd >= 0) {
		r = ts_view_ring(fd, &report->ring);
		(void)close(fd);
	}
	/* The counters are worth printing without the ring. */
	if (r < 0)
		ts_message_say("cannot read the ring of group '%s': %s", report->group,
			ts_view_explain(r));
	return r;
}

int ts_stats_print(const char *group, bool json)
{
	struct ts_report report = {.group = group, .elsewhere = ts_names_elsewhere(group)};

	int r = gather(&report);
	if (r == -EBADMSG || r == -EPROTO || r == -ESTALE)
		ts_message_hint("`tsrun gc --group %s` removes it when nobody uses it", group);
	if (r == 0 || report.ledger) {
		if (json)
			ts_report_json(&report, stdout);
		else
			ts_report_text(&report, stdout);
	}
	free(report.ledger);
	ts_view_ring_finish(&report.ring);
	return r < 0 ? TS_EXIT_FAILED : 0;
}
