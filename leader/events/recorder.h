/* SPDX-License-Identifier: MIT */
/*
 * What became of a job's log: which process is its recorder (leader/events/events.h), and in
 * which state.  Both are in a row of the ledger.  A row of another job, or of a version of
 * tsshim that does not know these rows, reads as nothing.
 */
#ifndef TS_LEADER_EVENTS_RECORDER_H
#define TS_LEADER_EVENTS_RECORDER_H

#include "leader/group/ledger.h"

/* The words are those of `tsrun stats --json`. */
#define TS_RECORDER_STATES(X)                                                              \
	X(NONE, "none")                                                                    \
	X(WAITS, "waits")           /* another recorder writes for this job as well */     \
	X(WRITES, "writes")         /* it writes for all jobs of the group */              \
	X(DONE, "done")             /* the job is over, and its last counts are written */ \
	X(ENDED, "ended")           /* with an error: this job's recorder is gone */       \
	X(NO_HELPER, "not-started") /* with an error: there was never one */

enum ts_recorder_state {
#define TS_X(name, id) TS_RECORDER_##name,
	TS_RECORDER_STATES(TS_X)
#undef TS_X
		TS_RECORDER_STATE_COUNT
};

/**
 * Let @process (a ts_process_id()) be the recorder of job @id in row @job, unless that has one
 * that lives, other than @before: the process that starts a recorder stands in for it until it
 * is there.  Threads and processes: any.  Errors: -EEXIST it has; -ENOENT the row is another
 * job's.
 */
int ts_recorder_enter(
	struct ts_ledger *ledger, uint32_t job, uint64_t id, uint64_t process, uint64_t before);

/** Whether job @id in row @job has a recorder that lives.  Reads one file of /proc if so. */
bool ts_recorder_is_there(struct ts_ledger *ledger, uint32_t job, uint64_t id);

/**
 * Note @state, and @error (negative, or 0), of job @id in row @job; that it is DONE is the last
 * word.  Rows that do not exist are ignored.  Threads and processes: any.
 */
void ts_recorder_tell(struct ts_ledger *ledger, uint32_t job, uint64_t id,
	enum ts_recorder_state state, int error);

/** What was noted of job @id in row @job; *ret_error (may be NULL) is negative, or 0. */
enum ts_recorder_state ts_recorder_state(
	struct ts_ledger *ledger, uint32_t job, uint64_t id, int *ret_error);

#endif
