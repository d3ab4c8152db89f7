/* SPDX-License-Identifier: MIT */
/* This process's one store, joined at the first use and again after a fork. */
#include "leader/group/session.h"

#include "leader/group/attach.h"
#include "leader/group/ledger.h"
#include "leader/group/line.h"
#include "leader/group/recorder.h"
#include "leader/group/summary.h"
#include "shim/atomic.h"
#include "shim/config.h"
#include "shim/identity.h"
#include "shim/log.h"
#include "shim/sys.h"

#include <string.h>
#include <unistd.h>

extern char **environ;

#define RETRY_FIRST_NS UINT64_C(1000000000)
#define RETRY_MAX_NS   (64 * RETRY_FIRST_NS)

/* Waiting less than a scheduling round is of no use; more than TS_WAIT_MAX_NS is a hang. */
#define DEADLINE_MIN_NS UINT64_C(20000000)

static struct ts_session session;
static struct ts_session *_Atomic current; /* &session while it may be used */
static _Atomic pid_t attaching;            /* the process one thread of which is at it, or 0 */
static _Atomic uint64_t retry_at, retry_wait;
static _Atomic uint32_t last_reason = TS_REASON_NO_STORE;
static struct ts_job_row waiting; /* what cannot be counted in the ledger yet */

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
	return session.job < TS_JOB_MAX ? ts_ledger_job(ledger, session.job) : &nobodys;
}

static void flush_waiting(struct ts_ledger *ledger)
{
	struct ts_job_row *job = row_of_job(ledger);
	struct ts_dataset_row *dataset = ts_ledger_dataset(ledger, session.dataset);
	for (uint32_t i = 0; i < TS_REASON_COUNT; i++) {
		uint64_t passed = take_out(&waiting.passed[i]);
		if (passed == 0)
			continue;
		ts_add_relaxed(&ledger->passed[i], passed);
		ts_add_relaxed(&job->passed[i], passed);
	}
	for (uint32_t i = 0; i < TS_KIND_COUNT; i++) {
		uint64_t produced = take_out(&waiting.kinds[i].produced);
		if (produced == 0)
			continue;
		ts_add_relaxed(&dataset->kinds[i].produced, produced);
		ts_add_relaxed(&job->kinds[i].produced, produced);
	}
}

static void find_rows(struct ts_ledger *ledger)
{
	int dataset = ts_ledger_find_dataset(ledger, ts_config()->dataset);
	int job = ts_ledger_find_job(ledger, ts_identity_job());
	session.dataset = dataset < 0 ? 0 : (uint32_t)dataset;
	session.job = job < 0 ? TS_JOB_MAX : (uint32_t)job;
	ts_ledger_note(ledger, session.job, session.dataset);
	ts_ledger_set_launch(ledger, session.job, ts_config()->line.launch);
}

static int attach_store(enum ts_reason *ret_reason)
{
	const struct ts_config *config = ts_config();
	struct ts_attach_options options = {.ring_bytes = config->ring_bytes,
		.keep = config->keep,
		.job = ts_identity_job()};
	memcpy(options.group, config->group, sizeof(options.group));
	int r = ts_store_attach(&options, &session.store, ret_reason);
	if (r == 0)
		find_rows(ts_store_ledger(session.store));
	return r;
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

/* Pairs with the loads of `current`: the session is complete. */
static const struct ts_session *show_session(void)
{
	ts_write_release(&current, &session);
	/* From here on nobody counts in private any more. */
	flush_waiting(ts_store_ledger(session.store));
	return &session;
}

/* Other threads go on meanwhile. */
static const struct ts_session *begin_session(void)
{
	const struct ts_session *shown = show_session();
	ts_recorder_begin(ts_store_ledger(session.store), session.job);
	return shown;
}

/* The caller is the one that is attaching. */
static const struct ts_session *join(enum ts_reason *ret_reason)
{
	check_environment();
	if (attach_store(ret_reason) < 0) {
		postpone(*ret_reason);
		return NULL;
	}
	ts_write_relaxed(&retry_wait, 0);
	return begin_session();
}

static const struct ts_session *attach(enum ts_reason *ret_reason)
{
	*ret_reason = (enum ts_reason)ts_load_relaxed(&last_reason);
	if (ts_now_ns() < ts_load_relaxed(&retry_at) || !begin_attaching())
		return NULL;
	const struct ts_session *joined = ts_load_acquire(&current);
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
	struct ts_store *store = ts_load_relaxed(&current) ? session.store : NULL;
	ts_write_relaxed(&current, NULL);
	for (uint32_t i = 0; i < TS_REASON_COUNT; i++)
		ts_write_relaxed(&waiting.passed[i], 0);
	for (uint32_t i = 0; i < TS_KIND_COUNT; i++)
		ts_write_relaxed(&waiting.kinds[i].produced, 0);
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
		joined = ts_load_acquire(&current);
	}
	end_attaching();
	return joined;
}

TS_THREAD_LOCAL bool is_nested;

void ts_session_nest(bool nested)
{
	is_nested = nested;
}

const struct ts_session *ts_session_enter(enum ts_reason *ret_reason)
{
	if (is_nested) {
		*ret_reason = TS_REASON_NESTED;
		return NULL;
	}
	const struct ts_config *config = ts_config();
	if (config->share == TS_SHARE_OFF) {
		*ret_reason = TS_REASON_DISABLED;
		return NULL;
	}
	return ts_session_enter_for_files(ret_reason);
}

const struct ts_session *ts_session_enter_for_pixels(enum ts_reason *ret_reason)
{
	const struct ts_config *config = ts_config();
	return is_nested && config->keep && config->share != TS_SHARE_OFF
		       ? ts_session_enter_for_files(ret_reason)
		       : ts_session_enter(ret_reason);
}

void ts_session_take_pixels(
	const struct ts_session *this, const struct ts_key *key, struct ts_take *ret_take)
{
	if (is_nested)
		ts_store_find(this->store, key, ret_take);
	else
		ts_store_take(this->store, key, this->dataset, TS_KIND_PIXELS, ret_take);
}

const struct ts_session *ts_session_enter_for_files(enum ts_reason *ret_reason)
{
	const struct ts_config *config = ts_config();
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
	const struct ts_session *joined = ts_load_acquire(&current);
	return joined ? joined : attach(ret_reason);
}

/* ---- counting --------------------------------------------------------------------------- */

/* The ledger, unless there is none or it is a parent's that this fork child has not rejoined.
 */
static struct ts_ledger *ledger_of_session(void)
{
	const struct ts_session *joined = ts_load_acquire(&current);
	return joined && !ts_identity_forked() ? ts_store_ledger(joined->store) : NULL;
}

void ts_session_count_pass(enum ts_reason reason)
{
	struct ts_ledger *ledger = ledger_of_session();
	/* Between vfork and exec even a private counter would be the parent's. */
	if (reason == TS_REASON_VFORK)
		return;
	if (!ledger) {
		ts_add_relaxed(&waiting.passed[reason], 1);
		return;
	}
	ts_add_relaxed(&ledger->passed[reason], 1);
	ts_add_relaxed(&row_of_job(ledger)->passed[reason], 1);
}

static void learn_cost(
	struct ts_dataset_row *row, enum ts_kind kind, uint64_t bytes, uint64_t ns)
{
	uint64_t cost = ns * 1024 / ts_max_u64(bytes, 1024);
	uint64_t old = ts_load_relaxed(&row->cost_ns_per_kib[kind]);
	ts_write_relaxed(&row->cost_ns_per_kib[kind], old ? old - old / 8 + cost / 8 : cost);
}

void ts_session_count_produced(enum ts_kind kind, uint64_t bytes, uint64_t produce_ns)
{
	struct ts_ledger *ledger = ledger_of_session();
	if (!ledger) {
		ts_add_relaxed(&waiting.kinds[kind].produced, 1);
		return;
	}
	struct ts_dataset_row *row = ts_ledger_dataset(ledger, session.dataset);
	ts_add_relaxed(&row->kinds[kind].produced, 1);
	ts_add_relaxed(&row_of_job(ledger)->kinds[kind].produced, 1);
	if (produce_ns)
		learn_cost(row, kind, bytes, produce_ns);
}

void ts_session_count_drawn(uint64_t identity, uint64_t computed, uint64_t delivered)
{
	struct ts_ledger *ledger = ledger_of_session();
	if (ledger)
		ts_ledger_add_drawn(ledger, session.job, identity, computed, delivered);
}

void ts_session_advance(uint64_t identity, uint64_t epoch, uint64_t done, uint64_t count,
	enum ts_epoch_order order)
{
	struct ts_ledger *ledger = ledger_of_session();
	uint64_t part = count ? ts_min_u64(done, count) * TS_EPOCH / count : 0;
	if (ledger)
		ts_ledger_advance(
			ledger, session.job, identity, epoch * TS_EPOCH + part, order);
}

void ts_session_refuse(const char *text)
{
	struct ts_ledger *ledger = ledger_of_session();
	if (ledger)
		ts_ledger_refuse(ledger, session.job, text);
}

void ts_session_learn_cost(enum ts_kind kind, uint64_t bytes, uint64_t produce_ns)
{
	struct ts_ledger *ledger = ledger_of_session();
	if (ledger && produce_ns)
		learn_cost(ts_ledger_dataset(ledger, session.dataset), kind, bytes, produce_ns);
}

static void count_shared(struct ts_tally *tally, const struct ts_lease *lease)
{
	ts_add_relaxed(&tally->shared, 1);
	ts_add_relaxed(&tally->shared_bytes, lease->bytes);
	ts_add_relaxed(&tally->saved_ns, lease->produce_ns);
}

void ts_session_count_shared(enum ts_kind kind, const struct ts_lease *lease)
{
	struct ts_ledger *ledger = ledger_of_session();
	if (!ledger)
		return;
	count_shared(&ts_ledger_dataset(ledger, session.dataset)->kinds[kind], lease);
	count_shared(&row_of_job(ledger)->kinds[kind], lease);
}

uint64_t ts_session_deadline_ns(enum ts_kind kind, uint64_t bytes)
{
	struct ts_ledger *ledger = ledger_of_session();
	uint64_t cost = 0;
	if (ledger)
		cost = ts_load_relaxed(
			&ts_ledger_dataset(ledger, session.dataset)->cost_ns_per_kib[kind]);
	/* Whatever is in there, keep the product far from overflow. */
	cost = ts_min_u64(cost, TS_WAIT_MAX_NS);
	uint64_t kib = ts_min_u64(bytes / 1024 + 1, UINT64_C(1) << 24);
	return ts_min_u64(ts_max_u64(4 * cost * kib, DEADLINE_MIN_NS), TS_WAIT_MAX_NS);
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
	if (lease->dataset != session.dataset)
		switch_off(ledger, session.dataset);
}

/* ---- the end ---------------------------------------------------------------------------- */

/* Workers may have used the store for this job and be gone: then we are the last one out. */
static struct ts_session *join_to_leave(void)
{
	enum ts_reason reason = TS_REASON_NO_STORE;
	if (!ts_summary_has_job(ts_config()->group, ts_identity_job()))
		return NULL;
	/* Before the lock is tried for, so that who holds it finds the ring left behind. */
	ts_summary_end_job(ts_config()->group, ts_identity_job());
	if (attach_store(&reason) < 0) {
		ts_add_relaxed(&waiting.passed[reason], 1);
		return NULL;
	}
	flush_waiting(ts_store_ledger(session.store));
	return &session;
}

/* Whether anything was counted that no ledger has. */
static bool has_waiting(void)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < TS_REASON_COUNT; i++)
		sum += ts_load_relaxed(&waiting.passed[i]);
	for (uint32_t i = 0; i < TS_KIND_COUNT; i++)
		sum += ts_load_relaxed(&waiting.kinds[i].produced);
	return sum != 0;
}

/* Whether the store could not be had: then nobody has heard of this process. */
static bool was_refused(void)
{
	uint64_t sum = 0;
	for (uint32_t i = TS_REASON_NO_STORE; i <= TS_REASON_NO_MEMBER; i++)
		sum += ts_load_relaxed(&waiting.passed[i]);
	return sum != 0;
}

/*
 * The ledger may be there without a ring: for `tsrun stats`, and for the line of the process
 * that has started this one.
 */
static void leave_counts(void)
{
	struct ts_ledger *ledger = ts_summary_map_to_count(ts_config()->group);
	if (!ledger)
		return;
	find_rows(ledger);
	flush_waiting(ledger);
	if (ts_identity_self() == ts_identity_job())
		ts_ledger_end_job(ledger, ts_identity_job());
	ts_summary_unmap(ledger);
}

static bool wants_summary(bool has_counts)
{
	const struct ts_config *config = ts_config();
	if (!config->summary)
		return false;
	/* What tsrun started may be a shell whose children are the jobs. */
	return has_counts || config->summary_pid == getpid();
}

void ts_session_finish(void)
{
	/* A fork child that never used the store has its parent's membership: not ours. */
	const struct ts_config *config = ts_config();
	if (config->disable || ts_identity_check() != TS_SAME_PROCESS)
		return;
	struct ts_session *joined = ts_load_acquire(&current);
	/* Most processes that end here are shells and tools: ask the cheapest question first.
	 */
	bool is_told = config->line.launch && !config->quiet &&
		       (ts_line_is_ours(&config->line) || has_waiting());
	bool refused = !joined && was_refused();
	if (!joined && !config->summary && !is_told && !refused &&
		!ts_summary_has_group(config->group))
		return;
	bool is_job = ts_identity_self() == ts_identity_job();
	if (!joined && is_job)
		joined = join_to_leave();
	if (is_job && wants_summary(joined || has_waiting()))
		ts_summary_print(joined ? ts_store_ledger(joined->store) : NULL,
			ts_identity_job(), &waiting);
	if (is_job && (is_told || joined))
		ts_line_finish(joined ? ts_store_ledger(joined->store) : NULL, &waiting);
	if (!joined && refused)
		leave_counts();
	ts_write_relaxed(&current, NULL);
	/* Two jobs that leave at once must not wait for each other to take the ring along. */
	if (joined && is_job)
		ts_ledger_end_job(ts_store_ledger(joined->store), ts_identity_job());
	if (joined)
		ts_store_detach(joined->store);
}
