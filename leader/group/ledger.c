/* SPDX-License-Identifier: MIT */
/* The ledger of a group: its rows, and what they say of jobs that ran side by side. */
#include "leader/group/ledger.h"

#include "leader/group/layout.h"
#include "shim/atomic.h"
#include "shim/hash.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S UINT64_C(1000000000)

enum { NOTHING, IN_WRITING, SAID }; /* whether there is a refusal */

const struct ts_kind_row ts_kinds[TS_KIND_COUNT] = {
#define TS_X(name, id, text) {id, text},
	TS_KINDS(TS_X)
#undef TS_X
};

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

/* Set @bytes of counters to 0, which others may add to. */
static void clear(void *counters, size_t bytes)
{
	_Atomic uint64_t *words = counters;

	for (size_t i = 0; i < bytes / sizeof(*words); i++)
		ts_write_relaxed(&words[i], 0);
}

static int claim_job_row(struct ts_ledger *ledger, uint32_t index, uint64_t old, uint64_t id)
{
	struct ts_job_row *row = ts_ledger_job(ledger, index);
	if (!ts_cas(&row->id, &old, id))
		return old == id ? (int)index : -EAGAIN;
	/* A row that belonged to a dead job starts from zero.  Another member of the same new
	 * job may add to it meanwhile and lose a count or two: only statistics. */
	clear(&row->ended, sizeof(*row) - offsetof(struct ts_job_row, ended));
	clear(ts_ledger_drawn(ledger, index), sizeof(struct ts_drawn_row));
	clear(ts_ledger_progress(ledger, index), sizeof(struct ts_progress_row));
	ts_write_relaxed(&ts_ledger_refusal_row(ledger, index)->state, NOTHING);
	clear(ts_ledger_launch_row(ledger, index), sizeof(struct ts_launch_row));
	clear(ts_ledger_recorder_row(ledger, index), sizeof(struct ts_recorder_row));
	struct ts_meeting_row *meeting = ts_ledger_meeting_row(ledger, index);
	clear(&meeting->given_samples,
		sizeof(*meeting) - offsetof(struct ts_meeting_row, given_samples));
	ts_write_relaxed(&meeting->id, id);
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

/* @place of job row @job: by @mark with the job's id in it, the next job of the row is not
 * meant. */
static void set_mark(
	struct ts_ledger *ledger, uint32_t job, _Atomic uint64_t *place, uint64_t mark)
{
	uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, job)->id);

	ts_write_relaxed(place, mark ? mark ^ id : 0);
}

void ts_ledger_set_launch(struct ts_ledger *ledger, uint32_t job, uint64_t launch)
{
	if (job < TS_JOB_MAX)
		set_mark(
			ledger, job, &ts_ledger_launch_row(ledger, job)->launch_xor_id, launch);
}

bool ts_ledger_is_of_launch(struct ts_ledger *ledger, uint32_t job, uint64_t launch)
{
	uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, job)->id);
	uint64_t there = ts_load_relaxed(&ts_ledger_launch_row(ledger, job)->launch_xor_id);
	/* The process may be the job itself: then 0 is written, as of a job of nobody's. */
	return id != 0 && (id == launch || (there != 0 && (there ^ id) == launch));
}

void ts_ledger_set_batch(struct ts_ledger *ledger, uint32_t job, uint64_t batch)
{
	if (job < TS_JOB_MAX)
		set_mark(ledger, job, &ts_ledger_progress(ledger, job)->batch_xor_id, batch);
}

bool ts_ledger_is_of_batch(struct ts_ledger *ledger, uint32_t job, uint64_t batch)
{
	uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, job)->id);
	uint64_t there = ts_load_relaxed(&ts_ledger_progress(ledger, job)->batch_xor_id);

	return id != 0 && there != 0 && (there ^ id) == batch;
}

void ts_ledger_end_job(struct ts_ledger *ledger, uint64_t id)
{
	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		struct ts_job_row *row = ts_ledger_job(ledger, i);
		if (ts_load_acquire(&row->id) == id)
			ts_write_relaxed(&row->ended, ts_meeting_now_ns());
	}
}

/* ---- what keeps samples of a job from being shared -------------------------------------- */

void ts_ledger_refuse(struct ts_ledger *ledger, uint32_t job, const char *text)
{
	uint64_t words[TS_REFUSAL_WORDS] = {0}, nothing = NOTHING;

	if (job >= TS_JOB_MAX)
		return;
	struct ts_refusal_row *row = ts_ledger_refusal_row(ledger, job);
	if (!ts_cas(&row->state, &nothing, IN_WRITING))
		return;
	memcpy(words, text, strnlen(text, sizeof(words) - 1));
	for (uint32_t i = 0; i < TS_REFUSAL_WORDS; i++)
		ts_write_relaxed(&row->words[i], words[i]);
	/* Release: the text before the word that it is there.  Pairs with ts_ledger_refusal().
	 */
	ts_write_release(&row->state, SAID);
}

bool ts_ledger_refusal(struct ts_ledger *ledger, uint32_t job, char ret_text[TS_REFUSAL_BYTES])
{
	uint64_t words[TS_REFUSAL_WORDS];
	struct ts_refusal_row *row = ts_ledger_refusal_row(ledger, job);

	if (ts_load_acquire(&row->state) != SAID)
		return false;
	for (uint32_t i = 0; i < TS_REFUSAL_WORDS; i++)
		words[i] = ts_load_relaxed(&row->words[i]);
	memcpy(ret_text, words, sizeof(words));
	ret_text[TS_REFUSAL_BYTES - 1] = '\0';
	/* It goes to a terminal, and anybody of the group may have written it. */
	for (char *at = ret_text; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	return ret_text[0] != '\0';
}

/* ---- how jobs met, by what they made and by the time they ran --------------------------- */

struct ts_meeting_row *ts_ledger_meeting(struct ts_ledger *ledger, uint32_t job)
{
	if (job >= TS_JOB_MAX)
		return NULL;
	struct ts_meeting_row *row = ts_ledger_meeting_row(ledger, job);
	uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, job)->id);
	return id != 0 && ts_load_relaxed(&row->id) == id ? row : NULL;
}

/* The row of job @producer, most often the one that was found last; NULL: it has lost it. */
static struct ts_meeting_row *find_producer(struct ts_ledger *ledger, uint64_t producer)
{
	static _Atomic uint32_t last;
	uint32_t first = ts_load_relaxed(&last) % TS_JOB_MAX;

	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		uint32_t at = (first + i) % TS_JOB_MAX;
		if (ts_load_relaxed(&ts_ledger_meeting_row(ledger, at)->id) != producer)
			continue;
		ts_write_relaxed(&last, at);
		return ts_ledger_meeting(ledger, at);
	}
	return NULL;
}

void ts_ledger_give(struct ts_ledger *ledger, uint32_t job, uint64_t producer,
	enum ts_kind kind, uint64_t count)
{
	if (producer == 0 || job >= TS_JOB_MAX ||
		(kind != TS_KIND_SAMPLE && kind != TS_KIND_PIXELS))
		return;
	struct ts_meeting_row *mine = ts_ledger_meeting(ledger, job);
	if (mine && ts_load_relaxed(&mine->id) == producer) {
		ts_add_relaxed(&mine->own, count);
		return;
	}
	struct ts_meeting_row *row = find_producer(ledger, producer);
	if (row)
		ts_add_relaxed(
			kind == TS_KIND_SAMPLE ? &row->given_samples : &row->given_images,
			count);
}

uint64_t ts_meeting_now_ns(void)
{
	struct timespec now;

	/* As the start of a process is counted; never 0, which says that a job is there. */
	if (clock_gettime(CLOCK_BOOTTIME, &now) < 0)
		return 1;
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec + 1;
}

/* When process @id started; ts_process_id() counts in clock ticks. */
static uint64_t started_ns(uint64_t id)
{
	long ticks = sysconf(_SC_CLK_TCK);

	return (id >> TS_PROCESS_PID_BITS) * (NS_PER_S / (ticks > 0 ? (uint64_t)ticks : 100));
}

/* When the job of @row ended; now, while it is there; 0: it is not known. */
static uint64_t ended_ns(struct ts_job_row *row, uint64_t now)
{
	uint64_t ended = ts_load_relaxed(&row->ended);

	if (ended != 0)
		return ended;
	return ts_process_is_alive(ts_load_relaxed(&row->id)) ? now : 0;
}

uint64_t ts_ledger_beside_ns(struct ts_ledger *ledger, uint32_t a, uint32_t b)
{
	if (a >= TS_JOB_MAX || b >= TS_JOB_MAX)
		return 0;
	struct ts_job_row *one = ts_ledger_job(ledger, a), *other = ts_ledger_job(ledger, b);
	uint64_t now = ts_meeting_now_ns();
	uint64_t from = ts_max_u64(
		started_ns(ts_load_relaxed(&one->id)), started_ns(ts_load_relaxed(&other->id)));
	uint64_t to = ts_min_u64(ended_ns(one, now), ended_ns(other, now));

	return to > from ? to - from : 0;
}

/* ---- how far aligned jobs are ----------------------------------------------------------- */

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

/* ---- what free order would share -------------------------------------------------------- */

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
