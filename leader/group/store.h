/* SPDX-License-Identifier: MIT */
/*
 * The store: finished pieces of work, found by a 128-bit key, shared by the processes of a
 * group.  This is all a hook needs to know about shared memory.
 *
 *	struct ts_patience patience = {0};
 *	struct ts_take t;
 *	ts_store_take(store, &key, dataset, TS_KIND_PIXELS, &t);
 *	if (t.verdict == TS_BUSY)
 *		ts_store_wait(store, &key, timeout_ns, &patience, &t);
 *	switch (t.verdict) {
 *	case TS_HIT:                       // t.lease.data .. t.lease.bytes, immutable
 *		copy out;
 *		ts_lease_release(store, &t.lease);
 *		break;
 *	case TS_CLAIM:                     // ours to produce
 *		if (ts_claim_reserve(store, &t.claim, bytes, &buffer) == 0) {
 *			produce into buffer;
 *			ts_claim_publish(store, &t.claim, cpu_ns);
 *		}                          // on any doubt: ts_claim_abandon()
 *		break;
 *	case TS_PASS:                      // work alone; t.reason says why
 *		break;
 *	}
 *
 * Threads: any thread of the process may call any function; nothing here blocks but
 * the two that wait, and they until the deadline at most.  No locks are taken, no memory is
 * allocated.  Not async-signal-safe.  After fork() the child must call
 * ts_store_after_fork() before anything else (leader/group/session.h does).
 * Errors are negative errno values; whatever fails, the caller works alone.
 */
#ifndef TS_LEADER_GROUP_STORE_H
#define TS_LEADER_GROUP_STORE_H

#include "leader/group/kinds.h"
#include "shim/base.h"
#include "shim/reasons.h"

struct ts_store;

/** Content key; never all zero. */
struct ts_key {
	uint64_t lo, hi;
};

/** Set in `lo` of the keys of samples that depend on the state of a job's generators. */
#define TS_KEY_DRAWN UINT64_C(2)

/** A pin on a record while its bytes are used. */
struct ts_lease {
	const void *data; /* 64-byte aligned; page aligned from TS_PAGE_ALIGN_FROM on */
	uint64_t bytes;
	uint64_t produce_ns; /* CPU time the producer spent on it */
	uint64_t origin;     /* of equal key and origin are the same bytes, for as long as the
			      * store lives: one was published, and no other */
	uint32_t slot;       /* lease word of this member */
	uint32_t dataset;
	uint32_t kind;
	uint64_t producer; /* ts_process_id() of the job that made it; 0: it is not known */
};

/** The exclusive right to produce one record, and what is reserved for it. */
struct ts_claim {
	struct ts_key key;
	uint64_t word;  /* exact entry word of this claim */
	uint32_t entry; /* index in the directory */
	uint32_t dataset;
	uint32_t kind;
	int32_t window;  /* private writable window, -1 while nothing is reserved */
	uint32_t slot;   /* lease word that pins the segment */
	uint32_t offset; /* of the record header in its segment, in 64-byte units */
	uint64_t bytes;
	bool fills;      /* into free room only: nobody has asked for it */
	uint64_t origin; /* of the record, when it is published; see struct ts_lease */
};

enum ts_verdict { TS_HIT, TS_CLAIM, TS_BUSY, TS_PASS };

struct ts_take {
	enum ts_verdict verdict;
	enum ts_reason reason; /* of TS_PASS */
	uint32_t entry;        /* of TS_BUSY: what to wait for, */
	uint64_t word;
	bool is_met; /* of TS_CLAIM and TS_PASS: another job has asked for it */
	union {
		struct ts_lease lease; /* of TS_HIT */
		struct ts_claim claim; /* of TS_CLAIM */
	};
};

/**
 * Ask for @key.
 *
 * A key nobody knows becomes a ghost (TS_PASS, TS_REASON_ALONE) until another job asks for
 * one of @dataset's ghosts; from then on such a key is TS_CLAIM, while what is published is
 * also taken (docs/rooms/store.md).  Counts hits, so call it once per piece of work.
 *
 * Ownership: a lease or claim in *ret_take is the caller's; end it exactly once.
 */
void ts_store_take(struct ts_store *store, const struct ts_key *key, uint32_t dataset,
	enum ts_kind kind, struct ts_take *ret_take);

/**
 * Whether somebody outside of this group asks for the records of @kind that this process makes:
 * while so, a key is claimed here though nobody in the group has asked for it.  Until it is
 * said otherwise; a fork child has what its parent had.  Some nanoseconds.
 */
void ts_store_want(struct ts_store *store, enum ts_kind kind, bool is_wanted);

/**
 * As ts_store_take(), of what is there now: TS_HIT, or TS_PASS (TS_REASON_NESTED) for what is
 * made as a part of another record, and which nobody is told of.
 */
void ts_store_find(struct ts_store *store, const struct ts_key *key, struct ts_take *ret_take);

/** What there is under a key. */
enum ts_presence { TS_ABSENT, TS_MADE_ALONE, TS_PRESENT };

/**
 * Whether there is a record with @key, or one was made that nobody else wanted.  Takes no part
 * in anything: costs a cache line or two, changes nothing, and may be wrong the moment after;
 * one key in some thousand millions is taken for another.
 */
enum ts_presence ts_store_peek(struct ts_store *store, const struct ts_key *key);

/**
 * Leave word of this job under @key, where nothing is to be published: whether another job has
 * left word there before.  A word is lost when the directory has no room for it.
 */
bool ts_store_meet(struct ts_store *store, const struct ts_key *key);

/**
 * How long somebody has waited for one claim, and what its owner did meanwhile.  All zero to
 * begin with but for the first; what it says of another claim is forgotten.
 */
struct ts_patience {
	uint64_t longest_ns; /* for owners at work; 0: as for any, TS_WAIT_MAX_NS */
	uint64_t word;       /* of the claim; no claim's is 0 */
	uint32_t entry;
	int pid; /* of the owner; 0: nobody whose progress would tell anything */
	uint64_t waited_ns;
	uint64_t at_ns, cpu_ns; /* when the owner was last looked at, and what it had used */
};

/** Nobody waits longer for owners that are not at work, unless a caller asks for it. */
#define TS_WAIT_MAX_NS UINT64_C(2000000000)

/** Nor so long for any: a process may be at work, and never come to an end. */
#define TS_WAIT_WORK_NS UINT64_C(60000000000)

/**
 * Sleep until the record of a TS_BUSY @take is published or abandoned, and turn *take into
 * TS_HIT, TS_CLAIM (taken over) or TS_PASS (TS_REASON_TIMEOUT where the right could not be
 * had either).
 *
 * An owner is given @timeout_ns, and as long again as it has had, TS_WAIT_MAX_NS at most, while
 * its process has used a quarter of a CPU in the last such time: then it is the record that
 * takes long, and to begin it as well would take longer still.  The wait ends TS_WAIT_MAX_NS
 * after an owner was last found at work, or after @timeout_ns where that is more; and all in
 * all after @patience's longest time, where that is more still.  What was waited for the same
 * claim in moments before is part of the owner's first time.
 */
void ts_store_wait(struct ts_store *store, const struct ts_key *key, uint64_t timeout_ns,
	struct ts_patience *patience, struct ts_take *take);

/**
 * Sleep until the record of a TS_BUSY @take is published or abandoned, 5 ms at most, and ask
 * again: *take may be TS_BUSY as before.  For who has something else to look after meanwhile.
 * An owner that is gone loses its right as in ts_store_wait().  Once @timeout_ns have been
 * waited so, this is ts_store_wait().
 */
void ts_store_wait_a_moment(struct ts_store *store, const struct ts_key *key,
	uint64_t timeout_ns, struct ts_patience *patience, struct ts_take *take);

/** End a lease. The bytes must not be used afterwards. */
void ts_lease_release(struct ts_store *store, struct ts_lease *lease);

/**
 * Get @bytes of ring memory to produce the claimed record in; 64-byte aligned, page aligned
 * from TS_PAGE_ALIGN_FROM on.  Other processes cannot see it before ts_claim_publish().
 *
 * On failure the claim is abandoned.  Errors: -E2BIG larger than half of the ring;
 * -ENOSPC no memory or no segment; -EBUSY too many threads produce at once; -ESTALE taken over.
 */
int ts_claim_reserve(
	struct ts_store *store, struct ts_claim *claim, uint64_t bytes, void **ret_buffer);

/**
 * Make the record visible; @produce_ns is the CPU time it cost.  @bytes, at most what was
 * reserved, is what the record finally holds.  Ends the claim in any case.
 * Errors: -ESTALE the right was taken over meanwhile; the bytes are dropped.
 */
int ts_claim_publish(
	struct ts_store *store, struct ts_claim *claim, uint64_t bytes, uint64_t produce_ns);

/** Give the right back; somebody else may produce. Wakes the waiters. */
void ts_claim_abandon(struct ts_store *store, struct ts_claim *claim);

#endif
