/* SPDX-License-Identifier: MIT */
/*
 * This process's one store, joined at the first use and again after a fork.
 *
 * Hooks never attach by themselves.  The session owns the policy: when to try, when to try
 * again after a failure, which dataset label to use, and where to count.
 */
#ifndef TS_LEADER_GROUP_SESSION_H
#define TS_LEADER_GROUP_SESSION_H

#include "leader/group/kinds.h"
#include "leader/group/store.h"
#include "shim/config.h"

/** What a hook needs to take and count; filled in by ts_session_enter(). */
struct ts_session {
	struct ts_store *store;
	uint32_t dataset; /* row in the ledger */
	uint32_t job;     /* row in the ledger; TS_JOB_MAX: none was free, count without */
};

/**
 * The store of this process, attached when it is not yet (some 100 us once per process).
 *
 * Returns NULL with *ret_reason set while there is nothing to share with: switched off,
 * between vfork and exec, or attaching failed (tried again after 1 s, 2 s, 4 s ... 64 s).
 * Cheap when it has been answered before: one load and a fork check.
 * Threads: any; one attaches, or joins again after a fork, while the others get NULL.
 * Fork: the child joins again here, at its first use.  Not async-signal-safe.
 */
const struct ts_session *ts_session_enter(enum ts_reason *ret_reason);

/** The same for files, which are shared inside of whole samples as well, whatever --share says.
 */
const struct ts_session *ts_session_enter_for_files(enum ts_reason *ret_reason);

/**
 * The same for pixels.  In a kept ring they are looked for inside of whole samples as well,
 * where an earlier epoch or job has put them; elsewhere none would be found there, and looking
 * costs a hash of the picture.
 */
const struct ts_session *ts_session_enter_for_pixels(enum ts_reason *ret_reason);

/**
 * Ask for @key of pixels, in such a @session, and wait where another process decodes it, as
 * long as @bytes of pixels are worth: see ts_store_take() and ts_store_wait().
 */
void ts_session_take_pixels(const struct ts_session *session, const struct ts_key *key,
	uint64_t bytes, struct ts_take *ret_take);

/** Count @count pieces of work that were not shared; in private when there is no store. */
void ts_session_count_passes(enum ts_reason reason, uint64_t count);

/** The same with one. */
static inline void ts_session_count_pass(enum ts_reason reason)
{
	ts_session_count_passes(reason, 1);
}

/** Why ts_claim_reserve() failed with @error, for the counters. */
static inline enum ts_reason ts_session_why_no_room(int error)
{
	switch (error) {
	case -E2BIG:
		return TS_REASON_TOO_LARGE;
	case -EBUSY:
		return TS_REASON_NO_LEASE;
	case -ESTALE:
		return TS_REASON_TIMEOUT;
	default:
		return TS_REASON_NO_SEGMENT;
	}
}

/**
 * What making a record of @bytes costs here in CPU time, for ts_session_deadline_ns(); 0: not
 * known.
 */
void ts_session_learn_cost(enum ts_kind kind, uint64_t bytes, uint64_t produce_ns);

/** Count @count pieces of work done here. */
void ts_session_count_made(enum ts_kind kind, uint64_t count);

/** Count one piece of work done here (@produce_ns of CPU time, @bytes of result). */
static inline void ts_session_count_produced(
	enum ts_kind kind, uint64_t bytes, uint64_t produce_ns)
{
	ts_session_count_made(kind, 1);
	ts_session_learn_cost(kind, bytes, produce_ns);
}

/** Count @part of the @whole pieces of work in a record, which were taken instead of done. */
void ts_session_count_part(
	enum ts_kind kind, const struct ts_lease *lease, uint64_t part, uint64_t whole);

/** The same with a record that is one piece. */
static inline void ts_session_count_shared(enum ts_kind kind, const struct ts_lease *lease)
{
	ts_session_count_part(kind, lease, 1, 1);
}

/** Another job has asked for a sample of the same name as this job now does. */
void ts_session_count_met(void);

/** This job has published a sample. */
void ts_session_count_published(void);

/**
 * Count samples that draw random numbers of the job's own, of the data set @identity (not 0);
 * see struct ts_drawn_row.  Not counted while there is no store.
 */
void ts_session_count_drawn(uint64_t identity, uint64_t computed, uint64_t delivered);

/**
 * This job was given @done of @count parts (0: not known) of an @epoch of the data set and
 * loader @identity (not 0), in @order: ts_ledger_advance().  Nothing while there is no store.
 */
void ts_session_advance(uint64_t identity, uint64_t epoch, uint64_t done, uint64_t count,
	enum ts_epoch_order order);

/** What keeps samples of this job from being shared: ts_ledger_refuse(); as above. */
void ts_session_refuse(const char *text);

/**
 * While @nested, what this thread does is part of a record that is shared as a whole:
 * ts_session_enter() answers NULL with TS_REASON_NESTED, and of pixels only such are given as
 * are there.  Per thread.
 */
void ts_session_nest(bool nested);

/**
 * How long to wait for somebody else's @kind of work of about @bytes: the moving average of
 * what that work costs in this dataset, within 20 ms and 2 s (docs/rooms/store.md).
 */
uint64_t ts_session_deadline_ns(enum ts_kind kind, uint64_t bytes);

/** Whether to recompute this hit and compare (verify mode). */
bool ts_session_verify_this_hit(void);

/**
 * Result of such a comparison with the record under @lease.  A mismatch switches the dataset
 * of the record off for the group, and that of this session, which would meet it again.
 */
void ts_session_count_verified(bool equal, const struct ts_lease *lease);

/**
 * At the end of the process: say what is to be said, and leave the store.  Of the room above
 * (leader/line/at_exit.c).
 */
void ts_session_finish(void);

#endif
