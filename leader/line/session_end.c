/* SPDX-License-Identifier: MIT */
/* The end of a process's session: its last counts, what it says, and that it leaves. */
#include "leader/group/session_private.h"

#include "leader/group/attach.h"
#include "leader/group/left.h"
#include "leader/line/line.h"
#include "shim/identity.h"

#include <unistd.h>

/* So long a job that ends looks for what other groups have left. */
#define LEFT_NS UINT64_C(20000000)

/* Workers may have used the store for this job and be gone: then we are the last one out. */
static struct ts_session *join_to_leave(void)
{
	enum ts_reason reason = TS_REASON_NO_STORE;
	if (!ts_book_has_job(ts_config()->group, ts_identity_job()))
		return NULL;
	/* Before the lock is tried for, so that who holds it finds the ring left behind. */
	ts_book_end_job(ts_config()->group, ts_identity_job());
	if (ts_session_attach(&reason) < 0) {
		ts_add_relaxed(&ts_session_waiting.passed[reason], 1);
		return NULL;
	}
	ts_session_flush(ts_store_ledger(ts_session_own.store));
	return &ts_session_own;
}

/* Whether anything was counted that no ledger has. */
static bool has_waiting(void)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < TS_REASON_COUNT; i++)
		sum += ts_load_relaxed(&ts_session_waiting.passed[i]);
	for (uint32_t i = 0; i < TS_KIND_COUNT; i++)
		sum += ts_load_relaxed(&ts_session_waiting.kinds[i].produced);
	return sum != 0;
}

/* Whether the store could not be had: then nobody has heard of this process. */
static bool was_refused(void)
{
	uint64_t sum = 0;
	for (uint32_t i = TS_REASON_NO_STORE; i <= TS_REASON_NO_MEMBER; i++)
		sum += ts_load_relaxed(&ts_session_waiting.passed[i]);
	return sum != 0;
}

/*
 * The ledger may be there without a ring: for `tsrun stats`, and for the line of the process
 * that has started this one.
 */
static void leave_counts(void)
{
	struct ts_ledger *ledger = ts_book_map_to_count(ts_config()->group);
	if (!ledger)
		return;
	ts_session_find_rows(ledger);
	ts_session_flush(ledger);
	if (ts_identity_self() == ts_identity_job())
		ts_ledger_end_job(ledger, ts_identity_job());
	ts_book_unmap(ledger);
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
	struct ts_session *joined = ts_load_acquire(&ts_session_shown);
	/* Most processes that end here are shells and tools: ask the cheapest question first.
	 */
	bool is_told = !config->quiet && (ts_line_may_speak(config) || has_waiting());
	bool refused = !joined && was_refused();
	if (!joined && !config->summary && !is_told && !refused &&
		!ts_book_has_ring(config->group))
		return;
	bool is_job = ts_identity_self() == ts_identity_job();
	if (!joined && is_job)
		joined = join_to_leave();
	if (is_job && wants_summary(joined || has_waiting()))
		ts_summary_print(joined ? ts_store_ledger(joined->store) : NULL,
			ts_identity_job(), &ts_session_waiting);
	if (is_job && (is_told || joined))
		ts_line_finish(
			joined ? ts_store_ledger(joined->store) : NULL, &ts_session_waiting);
	if (!joined && refused)
		leave_counts();
	ts_write_relaxed(&ts_session_shown, NULL);
	/* Two jobs that leave at once must not wait for each other to take the ring along. */
	if (joined && is_job)
		ts_ledger_end_job(ts_store_ledger(joined->store), ts_identity_job());
	if (joined)
		ts_store_detach(joined->store);
	if (joined && is_job)
		ts_left_remove(config->group, LEFT_NS);
}
