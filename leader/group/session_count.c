/* SPDX-License-Identifier: MIT */
/* A session as it is, and what it counts, in the ledger or waiting for one. */
#include "leader/group/session_private.h"

#include "leader/group/attach.h"
#include "shim/identity.h"
#include "shim/log.h"
#include "shim/sys.h"

#include <string.h>
#include <unistd.h>

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

/* ---- counting --------------------------------------------------------------------------- */

/* The ledger, unless there is none or it is a parent's that this fork child has not rejoined.
 */
static struct ts_ledger *ledger_of_session(void)
{
	const struct ts_session *joined = ts_load_acquire(&ts_session_shown);
	return joined && !ts_identity_forked() ? ts_store_ledger(joined->store) : NULL;
}

void ts_session_count_pass(enum ts_reason reason)
{
	struct ts_ledger *ledger = ledger_of_session();
	/* Between vfork and exec even a private counter would be the parent's. */
	if (reason == TS_REASON_VFORK)
		return;
	if (!ledger) {
		ts_add_relaxed(&ts_session_waiting.passed[reason], 1);
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
		ts_add_relaxed(&ts_session_waiting.kinds[kind].produced, 1);
		return;
	}
	struct ts_dataset_row *row = ts_ledger_dataset(ledger, ts_session_own.dataset);
	ts_add_relaxed(&row->kinds[kind].produced, 1);
	ts_add_relaxed(&row_of_job(ledger)->kinds[kind].produced, 1);
	if (produce_ns)
		learn_cost(row, kind, bytes, produce_ns);
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
	if (ledger && produce_ns)
		learn_cost(ts_ledger_dataset(ledger, ts_session_own.dataset), kind, bytes,
			produce_ns);
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
	count_shared(&ts_ledger_dataset(ledger, ts_session_own.dataset)->kinds[kind], lease);
	count_shared(&row_of_job(ledger)->kinds[kind], lease);
	ts_ledger_give(ledger, ts_session_own.job, lease->producer, kind);
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

uint64_t ts_session_deadline_ns(enum ts_kind kind, uint64_t bytes)
{
	struct ts_ledger *ledger = ledger_of_session();
	uint64_t cost = 0;
	if (ledger)
		cost = ts_load_relaxed(&ts_ledger_dataset(ledger, ts_session_own.dataset)
						->cost_ns_per_kib[kind]);
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
	if (lease->dataset != ts_session_own.dataset)
		switch_off(ledger, ts_session_own.dataset);
}
