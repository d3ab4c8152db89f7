/* SPDX-License-Identifier: MIT */
/*
 * Making, finding, checking, joining and leaving the shared memory of a group.
 *
 * Objects are files of /dev/shm named tsshim.<uid>.<scope>.<group>.<object>, opened as such
 * because shm_open(3) is not in a glibc 2.28 libc.so.6; docs/rooms/store.md lists them, what
 * they hold and when they go.
 *
 * <scope> is "<user namespace>-<PID namespace>", inode numbers as lsns(8) shows them:
 * processes of different namespaces cannot judge each other's process ids, so they never
 * share, and with names of their own neither what one of them uses nor what it left is in the
 * way of the others.  The kernel may give a number to another namespace later, which does no
 * harm: proof of death asks for more.  The boot is not in the name, so that what an earlier
 * one left on a disk (leader/files/index.h) is found and replaced.
 *
 * Opening, replacing and unlinking are serialised by byte 0 of the ledger (fcntl lock, tried
 * for a bounded time; without it we simply do not share this time).  A ring is
 *
 *   USED  by a member, or by a job of the ledger that lives and has not said that it leaves
 *   KEPT  by neither, until its time is over (leader/group/layout.h)
 *   LEFT  by all, with its time over
 *   GONE  unlinked, never truncated
 *
 *   USED ──the last one leaves──> KEPT or LEFT ──attach──> USED
 *   LEFT ──under the lock, by the last one out, an attach, a looker or gc──> GONE
 *
 * A process that leaves says so first (its job has ended, its member word is FREE) and then
 * tries for the lock.  If another process holds the lock for too long, it goes without it, and
 * the ring is LEFT.  So a process that is no member and lets go of the lock (one that leaves,
 * a looker, gc) looks afterwards, and takes the lock again for a ring that is LEFT: at least
 * one of the two sees the other.  A holder that is killed looks at nothing; the next attach,
 * looker or gc does. If all members and jobs were killed, nobody leaves, and the ring is LEFT
 * as well.  Lookers are jobs of other groups, and helpers (leader/group/left.h).  A KEPT ring
 * stays for the next attach, with its copies and its journal, until its time is over, or gc.
 * A process refuses objects that are foreign or damaged.
 */
#ifndef TS_LEADER_GROUP_ATTACH_H
#define TS_LEADER_GROUP_ATTACH_H

#include "leader/group/store.h"
#include "leader/object/object.h"

struct ts_attach_options {
	char group[TS_GROUP_MAX + 1];
	uint64_t ring_bytes; /* cap, or TS_RING_AUTO; the real size may be smaller */
	uint32_t keep; /* seconds that the ring stays without members; see leader/ring/demand.c
			*/
	uint64_t job;  /* ts_process_id() of the job this process works for */
};

/**
 * Join the store of a group, making it when it is not there.
 *
 * Ownership: *ret_store is the caller's, end it with ts_store_detach().
 * Threads: one at a time per process.  Takes some 100 us; never waits longer than 50 ms.
 * Errors, with *ret_reason set: -EPERM foreign owner, type or mode; -EPROTO another ABI;
 * -EBADMSG damaged; -EXDEV another boot or namespace; -ENOSPC; -EUSERS no member slot;
 * -EAGAIN somebody holds the lock; others from the system calls.
 */
int ts_store_attach(const struct ts_attach_options *options, struct ts_store **ret_store,
	enum ts_reason *ret_reason);

/** Leave; unlink the ring if nobody is left. Accepts NULL. */
void ts_store_detach(struct ts_store *store);

/**
 * In the child of a fork: the parent's membership is not ours.  Join again as a member of
 * our own, keeping the mappings.  On failure the store is unusable (detach it).
 * Not async-signal-safe; call it at the first use, not in an atfork handler.
 */
int ts_store_after_fork(struct ts_store *store);

/**
 * Hold what serialises making, replacing and removing what belongs to the group; tried for 50
 * ms.  One thread at a time per process.  Errors: -EAGAIN somebody else holds it; -EBADF.
 */
int ts_store_lock(struct ts_store *store);
void ts_store_unlock(struct ts_store *store);

/** What an object that goes with a ring begins with. */
struct ts_dependent_head {
	struct ts_object_head head;
	uint64_t ring_device, ring_inode; /* of the ring whose members use it, or 0 */
	uint64_t total_bytes;
	uint64_t check; /* ts_hash64 of everything above */
};
static_assert(sizeof(struct ts_dependent_head) == 80, "of every ABI");

/** An object of that kind. */
struct ts_dependent_kind {
	uint32_t which; /* enum ts_dependent_index */
	uint32_t abi;
	uint64_t magic, bytes;
	bool of_jobs;   /* whichever ring they use */
	bool is_sparse; /* has memory only as far as write(2) has written */
};

/**
 * Map the object @kind of this store, making it, all zero behind its head, when it is not
 * there, and in place of one that another ring has left.
 *
 * Ownership: the mapping is the caller's, for good; no descriptor stays open, which a host
 * might close.  Takes the group's lock.  Errors: those of ts_store_attach(); -ENOSPC no room
 * for it; -ENOMEM; -ESTALE the ring was replaced, unless it is @of_jobs.
 */
int ts_dependent_map(
	struct ts_store *store, const struct ts_dependent_kind *kind, void **ret_start);

/** The ledger that belongs to this store; lives as long as the store. */
struct ts_ledger *ts_store_ledger(struct ts_store *store);

/**
 * Whether @group has a ring and a ledger in which job @id is counted: it was attached, or
 * its workers were.  Three system calls where there is none.
 */
bool ts_group_has_job(const char *group, uint64_t id);

/**
 * Note in that ledger that job @id leaves, which has joined nothing; undone when it joins.
 * Whoever holds the lock of the group meanwhile, so that it cannot join to leave, then sees
 * that nobody needs the ring.
 */
void ts_group_end_job(const char *group, uint64_t id);

/** Whether anything at all exists under the group's name: three system calls. */
bool ts_group_has_ring(const char *group);

/**
 * The ledger of @group to look at, without joining, whether it has a ring or not; NULL where
 * there is none that can be trusted.  Undone by ts_ledger_unmap(), which takes NULL as well.
 */
struct ts_ledger *ts_ledger_map(const char *group);
void ts_ledger_unmap(struct ts_ledger *ledger);

/** The same, to add to its counters as a member does; nothing is locked. */
struct ts_ledger *ts_ledger_map_to_count(const char *group);

#endif
