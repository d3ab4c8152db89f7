/* SPDX-License-Identifier: MIT */
/* The ledger of a group: how far its aligned jobs are, and what another order would share. */
#include "leader/group/ledger.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/sys.h"

void ts_progress_clear(struct ts_progress_row *row)
{
	ts_write_relaxed(&row->identity, 0);
	ts_write_relaxed(&row->position, 0);
	ts_write_relaxed(&row->order, TS_ORDER_STRICT);
	ts_write_relaxed(&row->began_ns, 0);
	ts_write_relaxed(&row->latest_ns, 0);
}

void ts_ledger_advance(struct ts_ledger *ledger, uint32_t job, uint64_t identity,
	uint64_t position, enum ts_epoch_order order)
{
	if (job >= TS_JOB_MAX || identity == 0)
		return;
	struct ts_progress_row *row = ts_ledger_progress(ledger, job);
	uint64_t there = 0, now_ns = ts_now_ns();
	if (ts_cas(&row->identity, &there, identity))
		ts_write_relaxed(&row->began_ns, now_ns);
	else if (there != identity)
		return;
	ts_write_relaxed(&row->position, position);
	ts_write_relaxed(&row->order, order);
	ts_write_relaxed(&row->latest_ns, now_ns);
}

uint64_t ts_ledger_front(struct ts_ledger *ledger, uint32_t job)
{
	uint64_t identity = ts_load_relaxed(&ts_ledger_progress(ledger, job)->identity);
	uint64_t front = 0;
	for (uint32_t i = 0; identity != 0 && i < TS_JOB_MAX; i++) {
		struct ts_progress_row *row = ts_ledger_progress(ledger, i);
		if (ts_load_relaxed(&row->identity) == identity &&
			ts_process_is_alive(ts_load_relaxed(&ts_ledger_job(ledger, i)->id)))
			front = ts_max_u64(front, ts_load_relaxed(&row->position));
	}
	return front;
}

/* ---- what free order would share --------------------------------------------------------- */

/* A job in strict order, as its rows say. */
struct strict {
	uint64_t identity; /* 0: it is none */
	uint64_t made;     /* of what others could have taken */
	uint64_t given, taken;
	bool has_met; /* another job asked for a sample of the same name */
	uint64_t began_ns, latest_ns;
};

/*
 * How many of the @made samples of the job in row @job others could have taken.  Whether one
 * can be published shows when it is: of those that nobody asked for as many are taken to be
 * refused as of the others.
 */
static uint64_t shareable_of(struct ts_ledger *ledger, uint32_t job, uint64_t made)
{
	struct ts_meeting_row *meeting = ts_ledger_meeting(ledger, job);
	struct ts_job_row *row = ts_ledger_job(ledger, job);
	uint64_t published = meeting ? ts_load_relaxed(&meeting->published) : 0, refused = 0;

	for (uint32_t i = 0; i < TS_REASON_COUNT; i++)
		if (ts_reason_is_refusal((enum ts_reason)i))
			refused += ts_load_relaxed(&row->passed[i]);
	if (published == 0)
		return 0;
	return (uint64_t)((double)made * (double)published / (double)(published + refused));
}

/* Whether the job in row @job and another one asked for the same sample. */
static bool has_met(struct ts_ledger *ledger, uint32_t job)
{
	struct ts_meeting_row *row = ts_ledger_meeting(ledger, job);

	return row &&
	       (ts_load_relaxed(&row->met) > 0 || ts_load_relaxed(&row->given_samples) > 0 ||
		       ts_load_relaxed(
			       &ts_ledger_job(ledger, job)->kinds[TS_KIND_SAMPLE].shared) > 0);
}

static struct strict strict_of(struct ts_ledger *ledger, uint32_t job)
{
	struct ts_progress_row *row = ts_ledger_progress(ledger, job);
	struct ts_tally *tally = &ts_ledger_job(ledger, job)->kinds[TS_KIND_SAMPLE];
	bool is_strict = ts_load_relaxed(&row->order) == TS_ORDER_STRICT;
	uint64_t identity = is_strict ? ts_load_relaxed(&row->identity) : 0;
	uint64_t made = ts_load_relaxed(&tally->produced);

	if (identity == 0)
		return (struct strict){.identity = 0};
	return (struct strict){
		.identity = identity,
		.has_met = has_met(ledger, job),
		.made = shareable_of(ledger, job, made),
		.given = made + ts_load_relaxed(&tally->shared),
		.taken = ts_load_relaxed(&tally->shared),
		.began_ns = ts_load_relaxed(&row->began_ns),
		.latest_ns = ts_load_relaxed(&row->latest_ns),
	};
}

/* What @other made while @most was there, as if it had made as many at any time. */
static uint64_t made_beside(const struct strict *other, const struct strict *most)
{
	uint64_t from = ts_max_u64(other->began_ns, most->began_ns);
	uint64_t to = ts_min_u64(other->latest_ns, most->latest_ns);
	if (other->latest_ns <= other->began_ns || to <= from)
		return 0;
	double part = (double)(to - from) / (double)(other->latest_ns - other->began_ns);
	return (uint64_t)((double)other->made * (part < 1 ? part : 1));
}

/* The job that was given most of those that share the data set of @first, the first such one.
 */
static uint32_t find_most(struct ts_ledger *ledger, uint32_t first, uint64_t identity)
{
	uint32_t most = first;
	for (uint32_t i = first + 1; i < TS_JOB_MAX; i++) {
		struct strict job = strict_of(ledger, i);
		if (job.identity == identity && job.given > strict_of(ledger, most).given)
			most = i;
	}
	return most;
}

/* The same for the data set of row @first, whose job is the first in strict order with it. */
static uint64_t freeable_from(struct ts_ledger *ledger, uint32_t first, uint64_t *ret_samples)
{
	uint64_t identity = strict_of(ledger, first).identity, beside = 0, sum = 0, jobs = 0;
	uint32_t most_at = find_most(ledger, first, identity);
	struct strict most = strict_of(ledger, most_at);
	bool has_met = false;
	for (uint32_t i = first; i < TS_JOB_MAX; i++) {
		struct strict job = strict_of(ledger, i);
		if (job.identity != identity)
			continue;
		jobs++;
		sum += job.made;
		has_met |= job.has_met;
		if (i != most_at)
			beside += made_beside(&job, &most);
	}
	*ret_samples = jobs > 1 && has_met ? sum : 0;
	/* Named apart, no sample of one is one of the other, whatever the order. */
	if (!has_met)
		return 0;
	/* Strict jobs in step share what each of them makes: none of it is left to free order.
	 */
	return beside > most.taken ? beside - most.taken : 0;
}

static bool is_first(struct ts_ledger *ledger, uint32_t job, uint64_t identity)
{
	for (uint32_t i = 0; i < job; i++)
		if (strict_of(ledger, i).identity == identity)
			return false;
	return true;
}

uint64_t ts_ledger_freeable(struct ts_ledger *ledger, uint64_t *ret_samples)
{
	uint64_t freeable = 0, samples;
	*ret_samples = 0;
	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		uint64_t identity = strict_of(ledger, i).identity;
		if (identity == 0 || !is_first(ledger, i, identity))
			continue;
		freeable += freeable_from(ledger, i, &samples);
		*ret_samples += samples;
	}
	return freeable;
}
