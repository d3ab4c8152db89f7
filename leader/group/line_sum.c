/* SPDX-License-Identifier: MIT */
/* What the one line at the end is about: the counts of several jobs together. */
#include "leader/group/line.h"

#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/scratch.h"

#include <string.h>

void ts_line_add(struct ts_line_sum *sum, struct ts_job_row *row)
{
	for (uint32_t i = 0; i < TS_KIND_COUNT; i++) {
		sum->made[i] += ts_load_relaxed(&row->kinds[i].produced);
		sum->taken[i] += ts_load_relaxed(&row->kinds[i].shared);
		if (i != TS_KIND_BYTES)
			sum->saved_ns += ts_load_relaxed(&row->kinds[i].saved_ns);
	}
	for (uint32_t i = 0; i < TS_REASON_COUNT; i++)
		sum->passed[i] += ts_load_relaxed(&row->passed[i]);
}

/* Whether a job that ran beside has the data set of the job in row @index, of which both draw.
 */
static bool has_twin(struct ts_ledger *ledger, uint32_t index)
{
	uint64_t identity = ts_load_relaxed(&ts_ledger_drawn(ledger, index)->identity);
	for (uint32_t i = 0; identity != 0 && i < TS_JOB_MAX; i++)
		if (i != index &&
			ts_load_relaxed(&ts_ledger_drawn(ledger, i)->identity) == identity &&
			ts_ledger_beside_ns(ledger, i, index) > 0)
			return true;
	return false;
}

static bool is_meant(struct ts_ledger *ledger, uint32_t index, uint64_t launch, uint64_t job)
{
	return ts_ledger_is_of_launch(ledger, index, launch) &&
	       (job == 0 || ts_load_relaxed(&ts_ledger_job(ledger, index)->id) == job);
}

void ts_line_add_jobs(
	struct ts_line_sum *sum, struct ts_ledger *ledger, uint64_t launch, uint64_t job)
{
	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		if (!is_meant(ledger, i, launch, job))
			continue;
		ts_line_add(sum, ts_ledger_job(ledger, i));
		struct ts_meeting_row *meeting = ts_ledger_meeting(ledger, i);
		if (meeting) {
			sum->given[TS_KIND_SAMPLE] += ts_load_relaxed(&meeting->given_samples);
			sum->given[TS_KIND_PIXELS] += ts_load_relaxed(&meeting->given_images);
			sum->own += ts_load_relaxed(&meeting->own);
		}
		if (!sum->drawn_apart)
			sum->drawn_apart = has_twin(ledger, i);
	}
}

/* What exactly, as the first loader of the job in row @index says that gives @reason. */
static void find_detail(struct ts_line_sum *sum, struct ts_ledger *ledger,
	struct ts_loaders *loaders, uint32_t index, enum ts_reason reason)
{
	uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, index)->id);
	struct ts_loader *loader TS_SCRATCH = ts_scratch();

	for (uint32_t i = 0; loader && i < TS_LOADER_MAX && sum->detail[0] == '\0'; i++) {
		if (!ts_loaders_read(loaders, index, id, i, loader) ||
			loader->verdict != TS_LOADER_VERDICT_NOT || loader->reason != reason)
			continue;
		memcpy(sum->detail, loader->detail, sizeof(sum->detail));
	}
	/* It goes to a terminal, and anybody of the group may have written it. */
	for (char *at = sum->detail; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
}

/* The reason for which none of the loaders of the job in row @index is shared, the first one's
 * if there are several; TS_REASON_COUNT: one is, or there are none. */
static enum ts_reason kept_by(
	struct ts_ledger *ledger, struct ts_loaders *loaders, uint32_t index)
{
	uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, index)->id);
	struct ts_loader *loader TS_SCRATCH = ts_scratch();
	enum ts_reason reason = TS_REASON_COUNT;

	for (uint32_t i = 0; loader && i < TS_LOADER_MAX; i++) {
		if (!ts_loaders_read(loaders, index, id, i, loader))
			continue;
		if (loader->verdict != TS_LOADER_VERDICT_NOT ||
			loader->reason >= TS_REASON_COUNT)
			return TS_REASON_COUNT;
		if (reason == TS_REASON_COUNT)
			reason = (enum ts_reason)loader->reason;
	}
	return reason;
}

/* Where all jobs that are meant agree that there is one. */
static void find_kept(struct ts_line_sum *sum, struct ts_ledger *ledger,
	struct ts_loaders *loaders, uint64_t launch, uint64_t job)
{
	enum ts_reason reason = TS_REASON_COUNT;

	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		if (!is_meant(ledger, i, launch, job))
			continue;
		reason = kept_by(ledger, loaders, i);
		if (reason == TS_REASON_COUNT)
			return;
	}
	sum->kept = reason == TS_REASON_COUNT ? 0 : reason + 1;
}

void ts_line_add_loaders(struct ts_line_sum *sum, struct ts_ledger *ledger,
	struct ts_loaders *loaders, const struct ts_config *config, uint64_t launch,
	uint64_t job)
{
	if (ts_line_reason(sum, config->align) == TS_REASON_ALONE)
		find_kept(sum, ledger, loaders, launch, job);
	enum ts_reason reason = ts_line_reason(sum, config->align);

	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		if (!is_meant(ledger, i, launch, job))
			continue;
		if (reason != TS_REASON_COUNT && sum->detail[0] == '\0')
			find_detail(sum, ledger, loaders, i, reason);
		if (!sum->apart.found && sum->taken[TS_KIND_SAMPLE] == 0)
			ts_apart_find(ledger, loaders, i, &sum->apart);
	}
}
