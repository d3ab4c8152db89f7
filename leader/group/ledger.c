/* SPDX-License-Identifier: MIT */
/* The ledger of a group: rows of datasets and jobs. */
#include "leader/group/ledger.h"

#include "leader/group/layout.h"
#include "shim/atomic.h"
#include "shim/hash.h"
#include "shim/identity.h"

#include <string.h>

int ts_ledger_check(const struct ts_ledger *ledger)
{
	return ts_object_head_check(
		ledger, TS_LEDGER_MAGIC, TS_ABI, offsetof(struct ts_ledger, check));
}

/* Times a row of a dead job may be snatched away before a job goes without. */
#define FIND_TRIES 3

static bool name_is(struct ts_dataset_row *row, const char *name, size_t length)
{
	/* Acquire: pairs with the release in write_name(), name before the flag. */
	return ts_load_acquire(&row->named) && memcmp(row->name, name, length) == 0 &&
	       row->name[length] == '\0';
}

/*
 * Every byte is written in one go and always the same, so that two members may do it at
 * once, and one may do it again for a maker that died before it could.
 */
static void write_name(struct ts_dataset_row *row, const char *name, size_t length)
{
	char padded[TS_DATASET_NAME] = {0};
	memcpy(padded, name, length);
	memcpy(row->name, padded, sizeof(padded));
	ts_write_release(&row->named, 1);
}

/* Take @row for @name, or find that it has it already. */
static bool take_dataset_row(
	struct ts_dataset_row *row, const char *name, size_t length, uint64_t hash)
{
	uint64_t there = 0;
	if (!ts_cas(&row->name_hash, &there, hash) && there != hash)
		return false;
	if (!ts_load_acquire(&row->named))
		write_name(row, name, length);
	return name_is(row, name, length);
}

int ts_ledger_find_dataset(struct ts_ledger *ledger, const char *name)
{
	size_t length = strnlen(name, TS_DATASET_NAME - 1);
	uint64_t hash = ts_hash64(name, length) | 1;
	for (uint32_t i = 0; i < TS_DATASET_MAX - 1; i++)
		if (take_dataset_row(ts_ledger_dataset(ledger, i), name, length, hash))
			return (int)i;
	name = TS_DATASET_OTHERS;
	length = strlen(name);
	hash = ts_hash64(name, length) | 1;
	uint32_t last = TS_DATASET_MAX - 1;
	return take_dataset_row(ts_ledger_dataset(ledger, last), name, length, hash) ? (int)last
										     : -ENOSPC;
}

static int claim_job_row(struct ts_ledger *ledger, uint32_t index, uint64_t old, uint64_t id)
{
	struct ts_job_row *row = ts_ledger_job(ledger, index);
	if (!ts_cas(&row->id, &old, id))
		return old == id ? (int)index : -EAGAIN;
	/* A row that belonged to a dead job starts from zero.  Another member of the same new
	 * job may add to it meanwhile and lose a count or two: only statistics. */
	ts_write_relaxed(&row->ended, 0);
	for (uint32_t i = 0; i < TS_JOB_DATASETS; i++)
		ts_write_relaxed(&row->dataset[i], 0);
	for (uint32_t i = 0; i < TS_KIND_COUNT; i++) {
		ts_write_relaxed(&row->kinds[i].produced, 0);
		ts_write_relaxed(&row->kinds[i].shared, 0);
		ts_write_relaxed(&row->kinds[i].shared_bytes, 0);
		ts_write_relaxed(&row->kinds[i].saved_ns, 0);
	}
	for (uint32_t i = 0; i < TS_REASON_SLOTS; i++)
		ts_write_relaxed(&row->passed[i], 0);
	ts_write_relaxed(&ts_ledger_drawn(ledger, index)->identity, 0);
	ts_write_relaxed(&ts_ledger_drawn(ledger, index)->computed, 0);
	ts_write_relaxed(&ts_ledger_drawn(ledger, index)->delivered, 0);
	ts_progress_clear(ts_ledger_progress(ledger, index));
	ts_refusal_clear(ts_ledger_refusal_row(ledger, index));
	ts_write_relaxed(&ts_ledger_launch_row(ledger, index)->launch_xor_id, 0);
	ts_write_relaxed(&ts_ledger_recorder_row(ledger, index)->recorder_xor_id, 0);
	ts_write_relaxed(&ts_ledger_recorder_row(ledger, index)->state_xor_id, 0);
	ts_meeting_begin(ts_ledger_meeting_row(ledger, index), id);
	ts_write_relaxed(&row->ticket, ts_add_relaxed(&ledger->tickets, 1) + 1);
	return (int)index;
}

static int reuse_oldest_dead(struct ts_ledger *ledger, uint64_t id)
{
	uint32_t oldest = TS_JOB_MAX;
	uint64_t oldest_ticket = UINT64_MAX, oldest_id = 0;
	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		struct ts_job_row *row = ts_ledger_job(ledger, i);
		uint64_t there = ts_load_relaxed(&row->id),
			 ticket = ts_load_relaxed(&row->ticket);
		if (ticket >= oldest_ticket || ts_process_is_alive(there))
			continue;
		oldest = i;
		oldest_ticket = ticket;
		oldest_id = there;
	}
	return oldest == TS_JOB_MAX ? -ENOSPC : claim_job_row(ledger, oldest, oldest_id, id);
}

/* Errors: -EAGAIN somebody else was faster; -ENOSPC. */
static int find_job(struct ts_ledger *ledger, uint64_t id)
{
	uint32_t unused = TS_JOB_MAX;
	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		uint64_t there = ts_load_acquire(&ts_ledger_job(ledger, i)->id);
		if (there == id)
			return (int)i;
		if (there == 0 && unused == TS_JOB_MAX)
			unused = i;
	}
	/* Members of one new job start at the same free row, so all but one find it there. */
	for (uint32_t i = unused; i < TS_JOB_MAX; i++) {
		if (ts_load_relaxed(&ts_ledger_job(ledger, i)->id) != 0)
			continue;
		int r = claim_job_row(ledger, i, 0, id);
		if (r >= 0)
			return r;
	}
	return reuse_oldest_dead(ledger, id);
}

int ts_ledger_find_job(struct ts_ledger *ledger, uint64_t id)
{
	int r = id ? -EAGAIN : -EINVAL;
	for (int i = 0; i < FIND_TRIES && r == -EAGAIN; i++)
		r = find_job(ledger, id);
	if (r >= 0)
		ts_write_relaxed(&ts_ledger_job(ledger, (uint32_t)r)->ended, 0);
	return r == -EAGAIN ? -ENOSPC : r;
}

struct ts_job_row *ts_ledger_row_of(struct ts_ledger *ledger, uint64_t id)
{
	for (uint32_t i = 0; i < TS_JOB_MAX; i++)
		if (ts_load_relaxed(&ts_ledger_job(ledger, i)->id) == id)
			return ts_ledger_job(ledger, i);
	return NULL;
}

void ts_ledger_note(struct ts_ledger *ledger, uint32_t job, uint32_t dataset)
{
	if (job >= TS_JOB_MAX || dataset >= TS_DATASET_MAX)
		return;
	struct ts_job_row *row = ts_ledger_job(ledger, job);
	uint64_t ticket = 0;
	for (uint32_t i = 0; i < TS_JOB_DATASETS; i++) {
		uint64_t there = ts_load_relaxed(&row->dataset[i]);
		if ((there & 0xff) == dataset + 1)
			return;
		if (there != 0)
			continue;
		if (ticket == 0)
			ticket = ts_add_relaxed(&ledger->tickets, 1) + 1;
		if (ts_cas(&row->dataset[i], &there, ticket << 8 | (dataset + 1)) ||
			(there & 0xff) == dataset + 1)
			return;
	}
}

void ts_ledger_add_drawn(struct ts_ledger *ledger, uint32_t job, uint64_t identity,
	uint64_t computed, uint64_t delivered)
{
	if (job >= TS_JOB_MAX || identity == 0)
		return;
	struct ts_drawn_row *row = ts_ledger_drawn(ledger, job);
	uint64_t there = 0;
	if (ts_cas(&row->identity, &there, identity) || there == identity) {
		ts_add_relaxed(&row->computed, computed);
		ts_add_relaxed(&row->delivered, delivered);
	}
}

/* The same for the data set of row @first; nothing when an earlier row has it, too. */
static uint64_t alignable_from(struct ts_ledger *ledger, uint32_t first, uint64_t *ret_samples)
{
	uint64_t identity = ts_load_relaxed(&ts_ledger_drawn(ledger, first)->identity);
	uint64_t sum = 0, most = 0, jobs = 0;
	*ret_samples = 0;
	for (uint32_t i = 0; identity != 0 && i < TS_JOB_MAX; i++) {
		struct ts_drawn_row *row = ts_ledger_drawn(ledger, i);
		if (ts_load_relaxed(&row->identity) != identity)
			continue;
		if (i < first)
			return 0;
		jobs++;
		sum += ts_load_relaxed(&row->computed);
		most = ts_max_u64(most, ts_load_relaxed(&row->delivered));
	}
	if (jobs > 1)
		*ret_samples = sum;
	return sum > most ? sum - most : 0;
}

uint64_t ts_ledger_alignable(struct ts_ledger *ledger, uint64_t *ret_samples)
{
	uint64_t alignable = 0, samples;
	*ret_samples = 0;
	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		alignable += alignable_from(ledger, i, &samples);
		*ret_samples += samples;
	}
	return alignable;
}

/* The ticket with which job row @job joined @dataset, or UINT64_MAX. */
static uint64_t ticket_of(struct ts_job_row *row, uint32_t dataset)
{
	for (uint32_t i = 0; i < TS_JOB_DATASETS; i++) {
		uint64_t there = ts_load_relaxed(&row->dataset[i]);
		if ((there & 0xff) == dataset + 1)
			return there >> 8;
	}
	return UINT64_MAX;
}

int ts_ledger_leader(struct ts_ledger *ledger, uint32_t dataset, bool *ret_alive)
{
	int best = -ENOENT;
	uint64_t best_ticket = UINT64_MAX;
	bool best_alive = false;
	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		struct ts_job_row *row = ts_ledger_job(ledger, i);
		uint64_t id = ts_load_relaxed(&row->id);
		uint64_t ticket = id ? ticket_of(row, dataset) : UINT64_MAX;
		if (ticket == UINT64_MAX)
			continue;
		bool alive = ts_process_is_alive(id);
		if (alive < best_alive || (alive == best_alive && ticket >= best_ticket))
			continue;
		best = (int)i;
		best_ticket = ticket;
		best_alive = alive;
	}
	if (best >= 0)
		*ret_alive = best_alive;
	return best;
}

bool ts_ledger_has_live_job(struct ts_ledger *ledger, uint64_t except)
{
	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		struct ts_job_row *row = ts_ledger_job(ledger, i);
		uint64_t id = ts_load_acquire(&row->id);
		if (id != except && !ts_load_relaxed(&row->ended) && ts_process_is_alive(id))
			return true;
	}
	return false;
}

void ts_ledger_set_launch(struct ts_ledger *ledger, uint32_t job, uint64_t launch)
{
	if (job >= TS_JOB_MAX)
		return;
	uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, job)->id);
	ts_write_relaxed(
		&ts_ledger_launch_row(ledger, job)->launch_xor_id, launch ? launch ^ id : 0);
}

bool ts_ledger_is_of_launch(struct ts_ledger *ledger, uint32_t job, uint64_t launch)
{
	uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, job)->id);
	uint64_t there = ts_load_relaxed(&ts_ledger_launch_row(ledger, job)->launch_xor_id);
	/* The process may be the job itself: then 0 is written, as of a job of nobody's. */
	return id != 0 && (id == launch || (there != 0 && (there ^ id) == launch));
}

void ts_ledger_end_job(struct ts_ledger *ledger, uint64_t id)
{
	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		struct ts_job_row *row = ts_ledger_job(ledger, i);
		if (ts_load_acquire(&row->id) == id)
			ts_write_relaxed(&row->ended, ts_meeting_now_ns());
	}
}
