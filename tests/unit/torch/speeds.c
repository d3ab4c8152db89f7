/* SPDX-License-Identifier: MIT */
/* Jobs of different speed in free order: tests/unit/torch/speeds.h explains it. */
#include "speeds.h"

#include "fixture.h"
#include "hooks/torch/samples_private.h"

#include "hooks/torch/order.h"
#include "leader/journal/journal_private.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAG     UINT64_C(7)
#define ITEMS   2000u
#define AHEAD   32u
#define BATCH   64u
#define LONGEST 0.2 /* to make the last index; 1 is a delivery of the fastest */
#define EPOCHS  6u
#define JOBS    4u

struct chosen {
	int64_t index;
	uint32_t draw;
};

struct speeds_job {
	struct ts_order *order;
	double speed, due;
	uint32_t epoch;
	struct chosen queue[AHEAD];
	unsigned queued, fetched;
	bool is_making;                  /* the one after those that are fetched */
	uint64_t made, delivered, place; /* place: in the epoch, of what is delivered */
	uint32_t position[ITEMS];        /* of each index in the epoch, + 1; 0: not yet */
	uint32_t before[ITEMS];          /* in the epoch before */
	uint32_t last_draw[ITEMS];       /* + 1 */
	double rank_sum;                 /* of index times position, for the correlation */
	double worst_rank;               /* of all epochs */
	uint32_t small;                  /* of a batch: indices of the first half */
	double spread;                   /* of these, squared, of all batches */
	uint32_t batches;
	uint64_t near_visits, visits; /* of an index again within a tenth of an epoch */
};

static struct ts_sample *sample;

static void name_scope(uint32_t draw, unsigned char ret_scope[16])
{
	memset(ret_scope, 0, 16);
	memcpy(ret_scope, &draw, sizeof(draw));
	ret_scope[15] = 1;
}

/* The own order of all jobs in @epoch: Fisher and Yates' shuffle, numbers of a small generator.
 */
static void begin_epoch(struct speeds_job *job)
{
	static int64_t own[ITEMS];
	uint64_t state = UINT64_C(0x9e3779b97f4a7c15) * (job->epoch + 1);

	for (uint32_t i = 0; i < ITEMS; i++)
		own[i] = i;
	for (uint32_t i = ITEMS - 1; i > 0; i--) {
		state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		uint32_t at = (uint32_t)((state >> 33) % (i + 1));
		int64_t kept = own[i];
		own[i] = own[at];
		own[at] = kept;
	}
	cr_assert(eq(int, tsshim_order_begin(job->order, own, ITEMS, job->epoch, TAG), 0));
}

/* Keep the queue full; a new epoch begins when the one before is chosen. */
static void choose(struct speeds_job *job)
{
	while (job->queued < AHEAD) {
		struct chosen *next = &job->queue[job->queued];
		uint32_t wanted, occurrence;
		uint64_t count = tsshim_order_choose(
			job->order, 0, 1, &next->index, &occurrence, &next->draw, &wanted);
		if (wanted != TS_ORDER_NO_DRAW) {
			unsigned char scope[16];
			name_scope(wanted, scope);
			tsshim_order_scope(job->order, wanted, scope);
		} else if (count == 0) {
			job->epoch++;
			begin_epoch(job);
		} else {
			job->queued++;
		}
	}
}

/* As another job than this process's. */
static void note(const struct speeds_job *job, const struct chosen *chosen)
{
	struct ts_note_made note = {.tag = TAG,
		.index = (uint32_t)chosen->index,
		.draw = chosen->draw,
		.epoch = job->epoch};
	struct ts_journal *journal;

	cr_assert(eq(int, ts_journal_attach(fixture_enter()->store, &journal), 0));
	struct ts_journal others = *journal;
	others.job++;
	ts_journal_write(&others, &note);
}

/* Five times as large for the last index as for the first, 60000 in the middle. */
static uint64_t payload_of(int64_t index)
{
	return 20000 + (uint64_t)index * 80000 / ITEMS;
}

/* The job of @jobs that makes it now, or NULL. */
static struct speeds_job *maker_of(
	struct speeds_job *jobs, unsigned count, const struct chosen *chosen)
{
	for (unsigned i = 0; i < count; i++) {
		const struct chosen *made = &jobs[i].queue[jobs[i].fetched];
		if (jobs[i].is_making && made->index == chosen->index &&
			made->draw == chosen->draw)
			return &jobs[i];
	}
	return NULL;
}

/* Say what is to be taken.  Returns whether the ring has it. */
static bool name_sample(const struct chosen *chosen)
{
	unsigned char scope[16], index[9] = {'i'};
	struct ts_key key;

	name_scope(chosen->draw, scope);
	memcpy(index + 1, &chosen->index, sizeof(chosen->index));
	tsshim_sample_name(sample, scope, torch_stream, index, sizeof(index), 0, 0);
	key = ts_sample_key(scope, chosen->index, 0);
	return ts_store_peek(fixture_enter()->store, &key) == TS_PRESENT;
}

static void end_making(struct speeds_job *job)
{
	const struct chosen *chosen = &job->queue[job->fetched++];

	name_sample(chosen);
	cr_assert(eq(int, tsshim_sample_take(sample, 0), TS_CLAIM));
	torch_publish(sample, payload_of(chosen->index), 1);
	note(job, chosen);
	job->made++;
	job->is_making = false;
}

/* Take the next of what is chosen, wait for who makes it, or begin to make it. */
static void fetch(struct speeds_job *job, struct speeds_job *jobs, unsigned count)
{
	const struct chosen *chosen = &job->queue[job->fetched];
	const struct speeds_job *maker = maker_of(jobs, count, chosen);

	if (maker) {
		job->due = maker->due;
	} else if (name_sample(chosen)) {
		cr_assert(eq(int, tsshim_sample_take(sample, 0), TS_HIT));
		tsshim_sample_taken(sample);
		job->fetched++;
	} else {
		job->is_making = true;
		job->due += LONGEST * (double)chosen->index / ITEMS;
	}
}

/* What of an epoch is told when it has been delivered. */
static void end_epoch(struct speeds_job *job)
{
	/* Pearson's correlation of two permutations of 0 ... ITEMS - 1. */
	double n = ITEMS, mean = (n - 1) / 2, variance = (n * n - 1) / 12;
	double rank = (job->rank_sum / n - mean * mean) / variance;

	rank = rank < 0 ? -rank : rank;
	if (rank > job->worst_rank)
		job->worst_rank = rank;
	for (uint32_t i = 0; i < ITEMS; i++) {
		bool came = job->position[i] > 0;
		cr_assert(came, "index %u", i);
		if (job->before[i] > 0) {
			job->visits++;
			job->near_visits +=
				ITEMS - job->before[i] + job->position[i] < ITEMS / 10;
		}
	}
	memcpy(job->before, job->position, sizeof(job->before));
	memset(job->position, 0, sizeof(job->position));
	job->rank_sum = 0;
	job->place = 0;
}

static void deliver(struct speeds_job *job)
{
	struct chosen chosen = job->queue[0];

	memmove(job->queue, job->queue + 1, (AHEAD - 1) * sizeof(job->queue[0]));
	job->queued--;
	job->fetched--;
	cr_assert(eq(u32, job->position[chosen.index], 0), "twice in an epoch");
	cr_assert(ge(u32, chosen.draw, job->last_draw[chosen.index]), "a draw again");
	job->last_draw[chosen.index] = chosen.draw + 1;
	job->small += chosen.index < ITEMS / 2;
	if (job->delivered % BATCH == BATCH - 1) {
		double off = (double)job->small - BATCH / 2.0;
		job->spread += off * off;
		job->batches++;
		job->small = 0;
	}
	job->rank_sum += (double)chosen.index * (double)job->place;
	job->position[chosen.index] = (uint32_t)++job->place;
	job->delivered++;
	if (job->place == ITEMS)
		end_epoch(job);
}

/* What the job does at its time. */
static void step(struct speeds_job *job, struct speeds_job *jobs, unsigned count)
{
	if (job->is_making) {
		end_making(job);
	} else if (job->fetched <= AHEAD / 2) {
		choose(job);
		fetch(job, jobs, count);
	} else {
		deliver(job);
		job->due += 1 / job->speed;
	}
}

double speeds_run(struct speeds_job *jobs, unsigned count, const double *speeds)
{
	uint64_t made = 0, delivered = 0;

	sample = torch_sample();
	for (unsigned i = 0; i < count; i++) {
		jobs[i] = (struct speeds_job){
			.order = tsshim_order_create(NULL), .speed = speeds[i]};
		begin_epoch(&jobs[i]);
	}
	while (jobs[0].delivered < (uint64_t)EPOCHS * ITEMS) {
		struct speeds_job *next = jobs;
		for (unsigned i = 1; i < count; i++)
			if (jobs[i].due < next->due)
				next = &jobs[i];
		step(next, jobs, count);
		if (jobs[0].delivered == 2 * ITEMS && made == 0) {
			delivered = jobs[0].delivered;
			for (unsigned i = 0; i < count; i++)
				made += jobs[i].made;
		}
	}
	uint64_t all = 0;
	for (unsigned i = 0; i < count; i++)
		all += jobs[i].made;
	torch_destroy(sample);
	return (double)(all - made) / (double)(jobs[0].delivered - delivered);
}

struct speeds_job *speeds_begin(void)
{
	struct speeds_job *jobs = calloc(JOBS, sizeof(*jobs));

	cr_assert(ne(ptr, jobs, NULL));
	return jobs;
}

void speeds_end(struct speeds_job *jobs)
{
	for (unsigned i = 0; i < JOBS; i++)
		if (jobs[i].order)
			tsshim_order_destroy(jobs[i].order);
	free(jobs);
}

void speeds_expect_shuffled(const struct speeds_job *jobs, unsigned count, uint64_t near)
{
	/* Of BATCH drawn from ITEMS without putting back.  What 49 batches, those of the
	 * slowest job, say of it deviates by 0.2. */
	double spread = BATCH / 4.0 * (ITEMS - BATCH) / (ITEMS - 1.0);
	/* Of uniform permutations: 1 / sqrt(ITEMS - 1) = 0.022. */
	for (unsigned i = 0; i < count; i++) {
		cr_expect(jobs[i].worst_rank < 0.08, "job %u: %f", i, jobs[i].worst_rank);
		cr_expect(jobs[i].near_visits * 10000 <= near * jobs[i].visits,
			"job %u: %lu of %lu", i, jobs[i].near_visits, jobs[i].visits);
		double ratio = jobs[i].spread / jobs[i].batches / spread;
		cr_expect(ratio > 0.6 && ratio < 1.4, "job %u: %f", i, ratio);
	}
}
