/* SPDX-License-Identifier: MIT */
/* This process's one store, joined at the first use and again after a fork; and its counters.
 */
#include "leader/group/session_private.h"
#include "leader/group/attach.h"
#include "leader/group/left.h"
#include "shim/identity.h"
#include "shim/log.h"
#include "shim/sys.h"

#include <string.h>
#include <unistd.h>

extern char **environ;

#define RETRY_FIRST_NS UINT64_C(1000000000)
#define RETRY_MAX_NS   (64 * RETRY_FIRST_NS)

/* So long a job that starts looks for what other groups have left. */
#define LEFT_NS UINT64_C(1000000)

static _Atomic pid_t attaching; /* the process one thread of which is at it, or 0 */
static _Atomic uint64_t retry_at, retry_wait;
static _Atomic uint32_t last_reason = TS_REASON_NO_STORE;
static _Atomic uint64_t leave_at; /* when what waits may go to a ledger again */
static bool is_new_job; /* the last joining was the first of this job; of who is attaching */

/* ---- joining ---------------------------------------------------------------------------- */

static void complain(
	enum ts_option option, const char *name, const char *value, const char *suggestion)
{
	if (option < TS_OPTION_COUNT)
		ts_log(TS_LEVEL_WARN, "%s=%s is not %s, ignoring", name, value,
			ts_config_expect(option));
	else if (suggestion)
		ts_log(TS_LEVEL_WARN, "unknown setting %s, did you mean %s?", name, suggestion);
	else
		ts_log(TS_LEVEL_WARN, "unknown setting %s, ignoring", name);
}

/* Once per job, by the process that is the job; workers inherit the same environment. */
static void check_environment(void)
{
	static _Atomic uint32_t done;
	struct ts_config unused;
	if (ts_add_relaxed(&done, 1) == 0 && ts_identity_self() == ts_identity_job())
		ts_config_load(&unused, environ, complain);
}

void ts_session_find_rows(struct ts_ledger *ledger)
{
	int dataset = ts_ledger_find_dataset(ledger, ts_config()->dataset);
	int job = ts_ledger_find_job(ledger, ts_identity_job());
	ts_session_own.dataset = dataset < 0 ? 0 : (uint32_t)dataset;
	ts_session_own.job = job < 0 ? TS_JOB_MAX : (uint32_t)job;
	ts_ledger_note(ledger, ts_session_own.job, ts_session_own.dataset);
	ts_ledger_set_launch(ledger, ts_session_own.job, ts_config()->line.launch);
	ts_ledger_set_batch(ledger, ts_session_own.job, ts_config()->batch);
}

int ts_session_attach(enum ts_reason *ret_reason)
{
	const struct ts_config *config = ts_config();
	struct ts_attach_options options = {.ring_bytes = config->ring_bytes,
		.keep = config->keep,
		.job = ts_identity_job()};
	memcpy(options.group, config->group, sizeof(options.group));
	int r = ts_store_attach(&options, &ts_session_own.store, ret_reason);
	if (r < 0)
		return r;
	struct ts_ledger *ledger = ts_store_ledger(ts_session_own.store);
	is_new_job = !ts_ledger_row_of(ledger, ts_identity_job());
	ts_session_find_rows(ledger);
	return 0;
}

static void postpone(enum ts_reason reason)
{
	uint64_t wait = ts_load_relaxed(&retry_wait);
	wait = wait ? ts_min_u64(wait * 2, RETRY_MAX_NS) : RETRY_FIRST_NS;
	ts_write_relaxed(&retry_wait, wait);
	ts_write_relaxed(&retry_at, ts_now_ns() + wait);
	ts_write_relaxed(&last_reason, reason);
	ts_log(TS_LEVEL_INFO, "cannot share now (reason %u), working alone", (unsigned)reason);
}

/*
 * One thread at a time.  It is the process that is noted, not just that somebody is at it: a
 * fork child may have been given a note of its parent's, whose thread it does not have.
 */
static bool begin_attaching(void)
{
	pid_t self = getpid(), holder = ts_load_relaxed(&attaching);
	return holder != self && ts_cas(&attaching, &holder, self);
}

static void end_attaching(void)
{
	ts_write_release(&attaching, 0);
}

/* Pairs with the loads of ts_session_shown: the session is complete. */
static const struct ts_session *show_session(void)
{
	ts_write_release(&ts_session_shown, &ts_session_own);
	/* From here on nobody counts in private any more. */
	ts_session_flush(ts_store_ledger(ts_session_own.store));
	return &ts_session_own;
}

/* Other threads go on meanwhile. */
static const struct ts_session *begin_session(void)
{
	const struct ts_session *shown = show_session();
	ts_recorder_begin(ts_store_ledger(ts_session_own.store), ts_session_own.job);
	return shown;
}

/* The caller is the one that is attaching. */
static const struct ts_session *join(enum ts_reason *ret_reason)
{
	check_environment();
	if (ts_session_attach(ret_reason) < 0) {
		postpone(*ret_reason);
		return NULL;
	}
	ts_write_relaxed(&retry_wait, 0);
	const struct ts_session *joined = begin_session();
	/* Once in a job, whichever of its processes is the first to join. */
	if (is_new_job)
		ts_left_remove(ts_config()->group, LEFT_NS);
	return joined;
}

static const struct ts_session *attach(enum ts_reason *ret_reason)
{
	*ret_reason = (enum ts_reason)ts_load_relaxed(&last_reason);
	if (ts_now_ns() < ts_load_relaxed(&retry_at) || !begin_attaching())
		return NULL;
	const struct ts_session *joined = ts_load_acquire(&ts_session_shown);
	/* Another thread may have been faster: to join, or to fail and postpone. */
	if (!joined && ts_now_ns() >= ts_load_relaxed(&retry_at))
		joined = join(ret_reason);
	end_attaching();
	return joined;
}

/* The caller is the one that is attaching.  Counts of other threads up to here are lost. */
static const struct ts_session *start_again(enum ts_reason *ret_reason)
{
	/* A parent that was just attaching may have left half a session, but not shown it. */
	struct ts_store *store =
		ts_load_relaxed(&ts_session_shown) ? ts_session_own.store : NULL;
	ts_write_relaxed(&ts_session_shown, NULL);
	for (uint32_t i = 0; i < TS_REASON_COUNT; i++)
		ts_write_relaxed(&ts_session_waiting.passed[i], 0);
	for (uint32_t i = 0; i < TS_KIND_COUNT; i++)
		ts_write_relaxed(&ts_session_waiting.kinds[i].produced, 0);
	/* Whoever sees that we are settled sees that there is no session yet, too. */
	ts_identity_settle();
	if (!store)
		return join(ret_reason);
	if (ts_store_after_fork(store) == 0)
		return begin_session();
	/* The mappings stay: a call that was begun before the fork may still read there. */
	postpone(TS_REASON_NO_MEMBER);
	*ret_reason = TS_REASON_NO_MEMBER;
	return NULL;
}

/* A fork child may have started threads before its first call that is ours. */
static const struct ts_session *rejoin(enum ts_reason *ret_reason)
{
	*ret_reason = TS_REASON_NO_STORE;
	if (!begin_attaching())
		return NULL;
	const struct ts_session *joined;
	if (ts_identity_forked()) {
		joined = start_again(ret_reason);
	} else {
		*ret_reason = (enum ts_reason)ts_load_relaxed(&last_reason);
		joined = ts_load_acquire(&ts_session_shown);
	}
	end_attaching();
	return joined;
}

TS_THREAD_LOCAL bool is_nested;

void ts_session_nest(bool nested)
{
	is_nested = nested;
}

static const struct ts_session *enter(
	const struct ts_config *config, enum ts_reason *ret_reason)
{
	if (config->disable || config->ring_bytes == 0) {
		*ret_reason = TS_REASON_DISABLED;
		return NULL;
	}
	switch (ts_identity_check()) {
	case TS_VFORK_CHILD:
		*ret_reason = TS_REASON_VFORK;
		return NULL;
	case TS_FORK_CHILD:
		return rejoin(ret_reason);
	default:
		break;
	}
	const struct ts_session *joined = ts_load_acquire(&ts_session_shown);
	return joined ? joined : attach(ret_reason);
}

const struct ts_session *ts_session_enter_for_files(enum ts_reason *ret_reason)
{
	return enter(ts_config(), ret_reason);
}

const struct ts_session *ts_session_enter(enum ts_reason *ret_reason)
{
	const struct ts_config *config = ts_config();
	*ret_reason = is_nested ? TS_REASON_NESTED : TS_REASON_DISABLED;
	return is_nested || config->share == TS_SHARE_OFF ? NULL : enter(config, ret_reason);
}

const struct ts_session *ts_session_enter_for_pixels(enum ts_reason *ret_reason)
{
	const struct ts_config *config = ts_config();
	return is_nested && config->keep && config->share != TS_SHARE_OFF
		       ? ts_session_enter_for_files(ret_reason)
		       : ts_session_enter(ret_reason);
}

/* Waiting less than a scheduling round is of no use; more than TS_WAIT_MAX_NS is a hang. */
#define DEADLINE_MIN_NS UINT64_C(20000000)

struct ts_session ts_session_own;
struct ts_session *_Atomic ts_session_shown;
struct ts_job_row ts_session_waiting;

/* ---- what waits ------------------------------------------------------------------------- */

/* Empty @counter; what other threads add meanwhile stays in it. */
static uint64_t take_out(_Atomic uint64_t *counter)
{
	uint64_t value = ts_load_relaxed(counter);
	if (value)
		ts_sub_relaxed(counter, value);
	return value;
}

/* The counters of our job; where the ledger has no row left for it they are nobody's. */
static struct ts_job_row *row_of_job(struct ts_ledger *ledger)
{
	static struct ts_job_row nobodys;
	return ts_session_own.job < TS_JOB_MAX ? ts_ledger_job(ledger, ts_session_own.job)
					       : &nobodys;
}

void ts_session_flush(struct ts_ledger *ledger)
{
	struct ts_job_row *job = row_of_job(ledger);
	struct ts_dataset_row *dataset = ts_ledger_dataset(ledger, ts_session_own.dataset);
	for (uint32_t i = 0; i < TS_REASON_COUNT; i++) {
		uint64_t passed = take_out(&ts_session_waiting.passed[i]);
		if (passed == 0)
			continue;
		ts_add_relaxed(&ledger->passed[i], passed);
		ts_add_relaxed(&job->passed[i], passed);
	}
	for (uint32_t i = 0; i < TS_KIND_COUNT; i++) {
		uint64_t produced = take_out(&ts_session_waiting.kinds[i].produced);
		if (produced == 0)
			continue;
		ts_add_relaxed(&dataset->kinds[i].produced, produced);
		ts_add_relaxed(&job->kinds[i].produced, produced);
	}
}

void ts_session_leave_counts(void)
{
	struct ts_ledger *ledger = ts_ledger_map_to_count(ts_config()->group);
	if (!ledger)
		return;
	ts_session_find_rows(ledger);
	ts_session_flush(ledger);
	if (ts_identity_self() == ts_identity_job())
		ts_ledger_end_job(ledger, ts_identity_job());
	ts_ledger_unmap(ledger);
}

/*
 * A loader's worker ends without a word to us.  So one that cannot join leaves what it counts
 * each second, or nobody would hear why nothing is shared.
 */
static void leave_some(void)
{
	uint64_t now = ts_now_ns();
	if (now < ts_load_relaxed(&leave_at) || ts_identity_self() == ts_identity_job() ||
		!begin_attaching())
		return;
	ts_write_relaxed(&leave_at, now + RETRY_FIRST_NS);
	ts_session_leave_counts();
	end_attaching();
}

/* ---- counting --------------------------------------------------------------------------- */

/* The ledger, unless there is none or it is a parent's that this fork child has not rejoined.
 */
static struct ts_ledger *ledger_of_session(void)
{
	const struct ts_session *joined = ts_load_acquire(&ts_session_shown);
	return joined && !ts_identity_forked() ? ts_store_ledger(joined->store) : NULL;
}

void ts_session_count_passes(enum ts_reason reason, uint64_t count)
{
	struct ts_ledger *ledger = ledger_of_session();
	/* Between vfork and exec even a private counter would be the parent's. */
	if (reason == TS_REASON_VFORK)
		return;
	if (!ledger) {
		ts_add_relaxed(&ts_session_waiting.passed[reason], count);
		if (count > 0 && reason == ts_load_relaxed(&last_reason) &&
			ts_load_relaxed(&retry_wait) != 0)
			leave_some();
		return;
	}
	ts_add_relaxed(&ledger->passed[reason], count);
	ts_add_relaxed(&row_of_job(ledger)->passed[reason], count);
}

void ts_session_count_made(enum ts_kind kind, uint64_t count)
{
	struct ts_ledger *ledger = ledger_of_session();
	if (!ledger) {
		ts_add_relaxed(&ts_session_waiting.kinds[kind].produced, count);
		return;
	}
	struct ts_dataset_row *row = ts_ledger_dataset(ledger, ts_session_own.dataset);
	ts_add_relaxed(&row->kinds[kind].produced, count);
	ts_add_relaxed(&row_of_job(ledger)->kinds[kind].produced, count);
}

void ts_session_count_drawn(uint64_t identity, uint64_t computed, uint64_t delivered)
{
	struct ts_ledger *ledger = ledger_of_session();
	if (ledger)
		ts_ledger_add_drawn(ledger, ts_session_own.job, identity, computed, delivered);
}

void ts_session_advance(uint64_t identity, uint64_t epoch, uint64_t done, uint64_t count,
	enum ts_epoch_order order)
{
	struct ts_ledger *ledger = ledger_of_session();
	uint64_t part = count ? ts_min_u64(done, count) * TS_EPOCH / count : 0;
	if (ledger)
		ts_ledger_advance(
			ledger, ts_session_own.job, identity, epoch * TS_EPOCH + part, order);
}

void ts_session_refuse(const char *text)
{
	struct ts_ledger *ledger = ledger_of_session();
	if (ledger)
		ts_ledger_refuse(ledger, ts_session_own.job, text);
}

void ts_session_learn_cost(enum ts_kind kind, uint64_t bytes, uint64_t produce_ns)
{
	struct ts_ledger *ledger = ledger_of_session();
	if (!ledger || produce_ns == 0)
		return;
	_Atomic uint64_t *mean =
		&ts_ledger_dataset(ledger, ts_session_own.dataset)->cost_ns_per_kib[kind];
	uint64_t cost = produce_ns * 1024 / ts_max_u64(bytes, 1024);
	uint64_t old = ts_load_relaxed(mean);
	ts_write_relaxed(mean, old ? old - old / 8 + cost / 8 : cost);
}

static void count_part(
	struct ts_tally *tally, const struct ts_lease *lease, uint64_t part, uint64_t whole)
{
	ts_add_relaxed(&tally->shared, part);
	ts_add_relaxed(&tally->shared_bytes, lease->bytes * part / whole);
	ts_add_relaxed(&tally->saved_ns, lease->produce_ns * part / whole);
}

void ts_session_count_part(
	enum ts_kind kind, const struct ts_lease *lease, uint64_t part, uint64_t whole)
{
	struct ts_ledger *ledger = ledger_of_session();
	if (!ledger)
		return;
	count_part(&ts_ledger_dataset(ledger, ts_session_own.dataset)->kinds[kind], lease, part,
		whole);
	count_part(&row_of_job(ledger)->kinds[kind], lease, part, whole);
	ts_ledger_give(ledger, ts_session_own.job, lease->producer, kind, part);
}

/* How this job met others; NULL where that is not counted. */
static struct ts_meeting_row *meeting_of_session(void)
{
	struct ts_ledger *ledger = ledger_of_session();

	return ledger ? ts_ledger_meeting(ledger, ts_session_own.job) : NULL;
}

void ts_session_count_met(void)
{
	struct ts_meeting_row *row = meeting_of_session();
	if (row)
		ts_add_relaxed(&row->met, 1);
}

void ts_session_count_published(void)
{
	struct ts_meeting_row *row = meeting_of_session();
	if (row)
		ts_add_relaxed(&row->published, 1);
}

/* Four times what others took to make so much of @kind; 0 where it is not known. */
static uint64_t worth_ns(enum ts_kind kind, uint64_t bytes)
{
	struct ts_ledger *ledger = ledger_of_session();
	uint64_t cost = 0;
	if (ledger)
		cost = ts_load_relaxed(&ts_ledger_dataset(ledger, ts_session_own.dataset)
						->cost_ns_per_kib[kind]);
	/* Whatever is in there, keep the product far from overflow. */
	cost = ts_min_u64(cost, TS_WAIT_MAX_NS);
	uint64_t kib = ts_min_u64(bytes / 1024 + 1, UINT64_C(1) << 24);
	return ts_min_u64(4 * cost * kib, TS_WAIT_WORK_NS);
}

uint64_t ts_session_deadline_ns(enum ts_kind kind, uint64_t bytes)
{
	return ts_min_u64(ts_max_u64(worth_ns(kind, bytes), DEADLINE_MIN_NS), TS_WAIT_MAX_NS);
}

void ts_session_take_pixels(const struct ts_session *this, const struct ts_key *key,
	uint64_t bytes, struct ts_take *ret_take)
{
	/* A program may rest between two rows of a picture, and work on something else. */
	struct ts_patience patience = {.longest_ns = worth_ns(TS_KIND_PIXELS, bytes)};

	if (is_nested)
		ts_store_find(this->store, key, ret_take);
	else
		ts_store_take(this->store, key, this->dataset, TS_KIND_PIXELS, ret_take);
	if (ret_take->verdict == TS_BUSY)
		ts_store_wait(this->store, key, ts_session_deadline_ns(TS_KIND_PIXELS, bytes),
			&patience, ret_take);
}

/* ---- verify mode ------------------------------------------------------------------------ */

bool ts_session_verify_this_hit(void)
{
	TS_THREAD_LOCAL uint64_t random;
	uint32_t ppm = ts_config()->verify_ppm;
	if (ppm == 0 || ppm >= 1000000)
		return ppm != 0;
	if (random == 0)
		random = (ts_now_ns() << 20 ^ (uint64_t)getpid()) | 1;
	/* Marsaglia's xorshift64: any choice of hits is as good as another. */
	random ^= random << 13;
	random ^= random >> 7;
	random ^= random << 17;
	return random % 1000000 < ppm;
}

static void switch_off(struct ts_ledger *ledger, uint32_t dataset)
{
	struct ts_dataset_row *row = ts_ledger_dataset(ledger, dataset);
	char name[TS_DATASET_NAME];
	memcpy(name, row->name, sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	ts_write_relaxed(&row->off, 1);
	ts_log(TS_LEVEL_ERROR,
		"a shared result of dataset %s differs from its own computation; "
		"sharing is off for this dataset, please report this",
		name);
}

void ts_session_count_verified(bool equal, const struct ts_lease *lease)
{
	struct ts_ledger *ledger = ledger_of_session();
	if (!ledger)
		return;
	ts_add_relaxed(&ledger->verified, 1);
	if (equal)
		return;
	ts_add_relaxed(&ledger->mismatched, 1);
	if (lease->dataset < TS_DATASET_MAX)
		switch_off(ledger, lease->dataset);
	/* What is asked for under our own label would be answered with that record again. */
	if (lease->dataset != ts_session_own.dataset)
		switch_off(ledger, ts_session_own.dataset);
}
