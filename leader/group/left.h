/* SPDX-License-Identifier: MIT */
/*
 * What dead jobs have left: whether anybody may still use a ring, and removing what is LEFT
 * (leader/group/attach.h) of groups that this process is no member of.
 *
 * If all jobs of a group were killed, no process leaves as the last one.  So a job of any
 * group looks through the names of shared memory when it starts and when it ends, tsrun when
 * it starts a job, and a helper process of ours when it ends:
 *
 *	find a ring ──> ask without a lock ──> lock byte 0 of its ledger ──> ask again ──> GONE
 *	                  │ used, kept              │ held: its holder looks       │ used
 *	                  └─ leave it               └─ leave it                    └─ let go
 *
 * The lock is that of leader/group/attach.h, and so is the rule to look again after letting go
 * of it.  Dependents go before the ring, so a looker that is killed anywhere leaves a ring
 * that the next looker finds; the kernel drops its lock.  Of two lookers one has the lock.  A
 * process that joins holds the lock until it is a member; a later one finds no ring and makes
 * one. Nobody waits: each tries the lock once.
 *
 * Nothing is removed without proof.  These stay: groups of other namespaces and users, which
 * have other names; objects of another version or boot, and damaged ones, for the proof needs
 * the ledger's jobs and the ring's members; a ring without a ledger; a ring or ledger on which
 * another process holds a lock; and a ring that is kept.  `tsrun gc` knows more
 * (shim/tsrun/gc.c).
 *
 * No object of the own group is opened: closing one would drop the locks that this process
 * holds as a member.
 */
#ifndef TS_LEADER_GROUP_LEFT_H
#define TS_LEADER_GROUP_LEFT_H

#include "leader/object/object.h"

/** Who may use a ring. */
enum ts_ring_use {
	TS_RING_UNUSED, /* no member: proven dead is each that was one, and its time is over */
	TS_RING_LOCKED, /* somebody else holds a lock on it */
	TS_RING_MEMBER, /* a process that is named as a member lives */
	TS_RING_KEPT,   /* neither, but it is kept (--keep) */
};

/**
 * Who may use the ring behind @fd; of its jobs the ledger knows.  Read by pread(2) alone, so a
 * damaged one does no harm.  @fd must not be the descriptor of a ring that this process has
 * joined.  Threads: any; allocates nothing.
 *
 * Returns an enum ts_ring_use.  Errors: -EPROTO another version; -EBADMSG damaged; -ESTALE of
 * another boot; -EXDEV, -EPERM of other namespaces, of another user.
 */
int ts_ring_ask_use(int fd, const struct ts_scope *scope);

/** For ts_left_remove(): no end of looking. */
#define TS_LEFT_ALL UINT64_MAX

/**
 * Remove what is LEFT of this user's groups in our namespaces, but @own (NULL: none), for which
 * this process must hold no descriptor; and what processes that are gone have left half made.
 * No other group is looked at once @budget_ns are over; one that was begun is ended.
 *
 * Takes some 5 us for each ring that is used.  Threads: one at a time.  Allocates nothing with
 * malloc(3), uses less than 2 KiB of stack, keeps errno.
 */
void ts_left_remove(const char *own, uint64_t budget_ns);

#endif
