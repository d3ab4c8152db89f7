/* SPDX-License-Identifier: MIT */
/* What a job shared, in one block on stderr when it ends. */
#ifndef TS_LEADER_GROUP_SUMMARY_H
#define TS_LEADER_GROUP_SUMMARY_H

#include "leader/group/attach.h"
#include "leader/group/ledger.h"

/**
 * Whether @group has a ring and a ledger in which job @id is counted: it was attached, or
 * its workers were.  Three system calls where there is none.
 */
bool ts_summary_has_job(const char *group, uint64_t id);

/**
 * Note in that ledger that job @id leaves, which has joined nothing; undone when it joins.
 * Whoever holds the lock of the group meanwhile, so that it cannot join to leave, then sees
 * that nobody needs the ring.
 */
void ts_summary_end_job(const char *group, uint64_t id);

/** Whether anything at all exists under the group's name: three system calls. */
bool ts_summary_has_group(const char *group);

/**
 * The ledger of @group to look at, without joining, whether it has a ring or not; NULL where
 * there is none that can be trusted.  Undone by ts_summary_unmap(), which takes NULL as well.
 */
struct ts_ledger *ts_summary_map(const char *group);
void ts_summary_unmap(struct ts_ledger *ledger);

/** The same, to add to its counters as a member does; nothing is locked. */
struct ts_ledger *ts_summary_map_to_count(const char *group);

/**
 * Print the block for job @id in one write.  @alone is what was counted outside @ledger, which
 * may be NULL: what a job did without shared memory, and why.  Async-signal-safe.
 */
void ts_summary_print(struct ts_ledger *ledger, uint64_t id, struct ts_job_row *alone);

#endif
