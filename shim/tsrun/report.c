/* SPDX-License-Identifier: MIT */
/*
 * What the rows of a group say, and the output of `tsrun stats` for people; its words may
 * change, the JSON does not.
 */
#include "shim/tsrun/events.h"
#include "shim/tsrun/report.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/tsrun/units.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* ---- for people -------------------------------------------------------------------------- */

#define NS_PER_SECOND UINT64_C(1000000000)

static void print_duration(FILE *out, uint64_t ns)
{
	unsigned long long seconds = ns / NS_PER_SECOND;
	if (seconds >= 3600)
		fprintf(out, "%llu h %llu min", seconds / 3600, seconds % 3600 / 60);
	else if (seconds >= 60)
		fprintf(out, "%llu min %llu s", seconds / 60, seconds % 60);
	else
		fprintf(out, "%llu.%02llu s", seconds,
			(unsigned long long)(ns % NS_PER_SECOND / 10000000));
}

static void print_share(FILE *out, const char *what, uint64_t part, uint64_t whole)
{
	char number[TS_UNITS_BYTES];
	/* Tenths of a per cent; halves first so that 1000 * part cannot wrap. */
	uint64_t tenths = whole == 0                  ? 0
			  : whole > UINT64_MAX / 1000 ? part / (whole / 1000)
						      : part * 1000 / whole;
	fprintf(out, "    %-22s %15s  (%llu.%llu %%)\n", what, ts_units_grouped(part, number),
		(unsigned long long)(tenths / 10), (unsigned long long)(tenths % 10));
}

static void print_dataset(FILE *out, const struct ts_report *report, uint32_t dataset)
{
	char name[TS_DATASET_NAME], number[TS_UNITS_BYTES];
	bool alive, any = false;

	if (!ts_report_dataset(report, dataset, name))
		return;
	ts_units_make_printable(name);
	struct ts_dataset_row *row = ts_ledger_dataset(report->ledger, dataset);
	uint32_t members = ts_report_members(report, dataset);
	int leader = ts_report_leader(report, dataset, &alive);
	fprintf(out, "\nDataset %s  (", name);
	if (leader > 0)
		fprintf(out, "leader pid %d%s, ", leader, alive ? "" : ", ended");
	else
		fputs("no leader, ", out);
	fprintf(out, "%u process%s attached)\n", members, members == 1 ? "" : "es");

	for (int kind = 0; kind < TS_KIND_COUNT; kind++) {
		uint64_t produced = ts_load_relaxed(&row->kinds[kind].produced);
		uint64_t shared = ts_load_relaxed(&row->kinds[kind].shared);
		if (produced + shared == 0)
			continue;
		any = true;
		fprintf(out, "  %-24s %15s\n", ts_kinds[kind].text,
			ts_units_grouped(produced + shared, number));
		bool files = kind == TS_KIND_BYTES;
		print_share(out, files ? "copied by a job" : "worked out by a job", produced,
			produced + shared);
		print_share(out, files ? "opened as copies" : "taken from the ring", shared,
			produced + shared);
		if (files)
			continue;
		fprintf(out, "    %-22s ", "CPU time saved");
		print_duration(out, ts_load_relaxed(&row->kinds[kind].saved_ns));
		fputs("\n", out);
	}
	if (!any)
		fputs("  nothing counted yet\n", out);
	if (ts_load_relaxed(&row->off) != 0)
		fputs("  SWITCHED OFF: verification found a difference\n", out);
}

static bool says_where(struct ts_ledger *ledger, uint32_t index)
{
	return ts_load_relaxed(&ts_ledger_progress(ledger, index)->identity) != 0;
}

/* Epochs with two decimals. */
static void print_epochs(FILE *out, uint64_t position)
{
	fprintf(out, "%llu.%02llu", (unsigned long long)(position / TS_EPOCH),
		(unsigned long long)(position % TS_EPOCH * 100 / TS_EPOCH));
}

static void print_job(FILE *out, struct ts_ledger *ledger, uint32_t index)
{
	struct ts_job_row *job = ts_ledger_job(ledger, index);
	char made[TS_UNITS_BYTES], taken[TS_UNITS_BYTES], refusal[TS_REFUSAL_BYTES];

	fprintf(out, "    pid %d", TS_PROCESS_PID(ts_load_relaxed(&job->id)));
	for (int kind = 0; kind < TS_KIND_COUNT; kind++) {
		uint64_t produced = ts_load_relaxed(&job->kinds[kind].produced);
		uint64_t shared = ts_load_relaxed(&job->kinds[kind].shared);
		if (produced + shared > 0)
			fprintf(out, "; %s: %s made, %s taken", ts_kinds[kind].text,
				ts_units_grouped(produced, made),
				ts_units_grouped(shared, taken));
	}
	if (ts_ledger_refusal(ledger, index, refusal))
		fprintf(out, "; samples not shared: %s", refusal);
	if (says_where(ledger, index)) {
		uint64_t front = ts_ledger_front(ledger, index);
		uint64_t here = ts_load_relaxed(&ts_ledger_progress(ledger, index)->position);
		fputs("; at epoch ", out);
		print_epochs(out, here);
		fputs(here < front ? ", behind by " : ", in front", out);
		if (here < front)
			print_epochs(out, front - here);
	}
	ts_events_print(ledger, index, out);
	fputs("\n", out);
}

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

static void print_passed(FILE *out, struct ts_ledger *ledger)
{
	char number[TS_UNITS_BYTES];
	uint64_t total = 0, unknown = 0;

	for (int i = 0; i < TS_REASON_SLOTS; i++)
		total += ts_load_relaxed(&ledger->passed[i]);
	fprintf(out, "\n%-26s %15s\n", "Not shared", ts_units_grouped(total, number));
	for (int i = 0; i < TS_REASON_SLOTS; i++) {
		uint64_t count = ts_load_relaxed(&ledger->passed[i]);
		if (count == 0)
			continue;
		if (i >= TS_REASON_COUNT) {
			unknown += count;
			continue;
		}
		fprintf(out, "    %-22s %15s  %s\n", ts_reasons[i].id,
			ts_units_grouped(count, number), ts_reasons[i].text);
	}
	if (unknown > 0)
		fprintf(out, "    %-22s %15s  counted by a newer version\n", "unknown",
			ts_units_grouped(unknown, number));
}

/* Less than one in so many is not worth a word. */
#define FREE_MATTERS 20

/* What the user could do about it, where that is known. */
static void print_advice(FILE *out, struct ts_ledger *ledger)
{
	uint64_t drawn, alignable = ts_ledger_alignable(ledger, &drawn);
	char number[TS_UNITS_BYTES];

	/* Damaged counters may say anything. */
	if (alignable > 0 && alignable <= drawn)
		fprintf(out,
			"\n%s samples were made by several jobs, each with its own seed: "
			"--align would have shared %.0f %% of them\n",
			ts_units_grouped(drawn, number),
			100.0 * (double)alignable / (double)drawn);
	uint64_t strict, freeable = ts_ledger_freeable(ledger, &strict);
	/* Jobs in step are never quite in step. */
	if (freeable > strict / FREE_MATTERS && freeable <= strict)
		fprintf(out,
			"\n%s samples were made by jobs of different speed in strict order: "
			"--order free would have shared %.0f %% of them\n",
			ts_units_grouped(strict, number),
			100.0 * (double)freeable / (double)strict);
}

void ts_report_elsewhere(const struct ts_report *report, FILE *out)
{
	unsigned count = report->elsewhere;

	if (count > 0)
		fprintf(out,
			"\n%u other container%s or namespace%s %s a group of this name, which "
			"shares only inside\n",
			count, count == 1 ? "" : "s", count == 1 ? "" : "s",
			count == 1 ? "has" : "have");
}

/* When `tsrun stats --reset` was there. */
static void print_since(FILE *out, uint64_t since_ns)
{
	time_t seconds = (time_t)(since_ns / NS_PER_SECOND);
	char when[32] = "";
	struct tm local;

	if (since_ns == 0)
		return;
	if (localtime_r(&seconds, &local))
		(void)strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &local);
	fprintf(out, "Counted since %s (--reset)\n", when);
}

static void print_ring(FILE *out, const struct ts_view_ring *ring)
{
	char used[TS_UNITS_BYTES], capacity[TS_UNITS_BYTES];

	if (ring->capacity == 0)
		fputs("Ring: none\n", out);
	else
		fprintf(out, "Ring: %s of %s in use\n", ts_units_size(ring->used, used),
			ts_units_size(ring->capacity, capacity));
}

void ts_report_head(const struct ts_report *report, FILE *out)
{
	uint32_t jobs = 0, processes = 0;

	if (!report->ledger && report->ring.capacity == 0) {
		fprintf(out, "Group %s: no job has shared anything yet.\n", report->group);
		return;
	}
	for (uint32_t j = 0; report->ledger && j < TS_JOB_MAX; j++)
		if (ts_process_is_alive(ts_load_relaxed(&ts_ledger_job(report->ledger, j)->id)))
			jobs++;
	for (uint32_t m = 0; m < report->ring.member_count; m++)
		if (report->ring.members[m].live)
			processes++;
	fprintf(out, "Group %s: %u job%s running, %u process%s attached\n", report->group, jobs,
		jobs == 1 ? "" : "s", processes, processes == 1 ? "" : "es");
	print_ring(out, &report->ring);
	print_since(out, report->since_ns);
}

static void print_ledger(FILE *out, const struct ts_report *report)
{
	struct ts_ledger *ledger = report->ledger;

	for (uint32_t d = 0; d < TS_DATASET_MAX; d++)
		print_dataset(out, report, d);
	print_jobs(out, ledger);
	print_passed(out, ledger);
	print_advice(out, ledger);
	uint64_t verified = ts_load_relaxed(&ledger->verified);
	uint64_t mismatched = ts_load_relaxed(&ledger->mismatched);
	if (verified + mismatched > 0)
		fprintf(out, "\nVerified %llu shared results, %llu differed\n",
			(unsigned long long)verified, (unsigned long long)mismatched);
}

void ts_report_text(const struct ts_report *report, FILE *out)
{
	ts_report_head(report, out);
	if (report->ledger)
		print_ledger(out, report);
	ts_report_nodes(report, out);
	ts_report_elsewhere(report, out);
}
