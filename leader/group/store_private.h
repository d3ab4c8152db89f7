/* SPDX-License-Identifier: MIT */
/* What the files of leader/ share about an attached store; hooks see leader/group/store.h only.
 */
#ifndef TS_LEADER_GROUP_STORE_PRIVATE_H
#define TS_LEADER_GROUP_STORE_PRIVATE_H

#include "leader/object/killpoint.h"
#include "leader/object/limits.h"
#include "leader/object/object.h"
#include "leader/group/layout.h"
#include "leader/group/ledger.h"
#include "leader/group/store.h"
#include "shim/atomic.h"

/* Segments one process may write at once: that many threads can produce at the same time. */
#define TS_WINDOWS 8u

/* Longest path of a copy of a file without its digits: a directory of the user's, a name. */
#define TS_STAGE_STEM 384

/** Where the parts of a ring lie; follows from the first three fields alone. */
struct ts_shape {
	uint64_t segment_bytes;
	uint32_t segment_count, set_count;
	uint64_t members_at, segments_at, directory_at, data_at, total_bytes;
	uint64_t control_bytes; /* what is used of what lies before data_at */
};

/** A private writable view of a segment this process has OPEN. */
struct ts_window {
	_Atomic uint32_t busy; /* held from reserve to publish or abandon, by any thread */
	int32_t segment;       /* -1: none open */
	uint32_t generation;
	uint32_t tied;      /* segments behind it that are tied to it */
	uint64_t next;      /* first byte not yet allocated */
	unsigned char *map; /* the segments, writable while it is OPEN; NULL: none */
};

/** What goes with a ring when its last user goes: objects of other rooms, by their names. */
struct ts_dependent {
	const char *suffix; /* of its object's name */
	/* No more use of it by this process; false when some is left. NULL: nothing to stop. */
	bool (*stop)(struct ts_store *store);
	void (*remove)(const char *path);
	bool passes; /* means nothing without members, so a kept ring does not keep it */
	/* Is of the jobs in the ledger, whichever ring they use, and goes with the last one. */
	bool of_jobs;
};

/** In the order of removal. */
enum ts_dependent_index {
	TS_DEPENDENT_STAGE,
	TS_DEPENDENT_DEVICE,
	TS_DEPENDENT_JOURNAL,
	TS_DEPENDENT_LOADERS,
	TS_DEPENDENT_PEERS,
	TS_DEPENDENT_PLACES,
	TS_DEPENDENTS
};

/* In leader/dependents.c, above the rooms whose objects these are. */
extern const struct ts_dependent ts_dependents[TS_DEPENDENTS];

/**
 * A store as this process sees it.  All sizes are copies made when the header was checked
 * and are what every index from shared memory is compared with.
 */
struct ts_store {
	struct ts_scope scope;
	struct ts_object ring, ledger_object;
	char dependents[TS_DEPENDENTS][TS_PATH_BYTES]; /* paths of what goes with the ring */
	/* This process's views of them, NULL: none. */
	struct ts_device *_Atomic device;
	struct ts_journal *_Atomic journal;
	struct ts_loaders *_Atomic loaders;
	struct ts_shape shape;
	uint32_t why; /* the ring that this process makes is so large */
	struct ts_ledger *ledger;
	struct ts_ring_header *header; /* start of the writable control part */
	struct ts_member *members;
	struct ts_segment *segments;
	struct ts_entry *entries;
	const unsigned char *data; /* read-only */
	uint64_t job;
	uint32_t keep; /* seconds, see leader/ring/demand.c */
	_Atomic uint64_t
		fill_at; /* ts_now_ns() from which to fill it again; see leader/ring/demand.c */
	int32_t member;  /* -1: not joined */
	_Atomic uint32_t wanted[TS_KIND_COUNT]; /* ts_store_want() */
	_Atomic uint32_t clean_next;
	_Atomic uint32_t window_hint;
	_Atomic uint32_t lease_busy[TS_LEASES];
	struct ts_window windows[TS_WINDOWS];
	_Atomic uint64_t
		populated[TS_SEGMENT_MAX / 64]; /* whose pages this process has mapped */
	_Atomic uint32_t no_huge;               /* the kernel gives us no huge pages */
	_Atomic uint64_t grow_at;               /* ts_now_ns() of the next look for room */
	_Atomic uint32_t huge_pause;            /* openings until huge pages are tried again */
	_Atomic uint32_t openings;              /* of segments; each so many is a probe */
};

/** Take a word of this process that one thread holds at a time, and give back by storing 0. */
static inline bool ts_try_hold(_Atomic uint32_t *word)
{
	uint32_t idle = 0;

	return ts_load_relaxed(word) == 0 && ts_cas(word, &idle, 1);
}

/* ---- leader/ring/ring.c ----------------------------------------------------------------- */

/** Shape of a ring of at most @bytes, control part included. Errors: -ENOSPC too small. */
int ts_limits_shape(uint64_t bytes, struct ts_shape *ret_shape);

/**
 * Check the header of the open object @ring against us and against itself.
 * Errors: those of ts_store_attach().
 */
int ts_ring_check(
	const struct ts_scope *scope, struct ts_object *ring, struct ts_shape *ret_shape);

/** Make the ring of @store, at most @wanted bytes, and map it. Errors: -ENOSPC, -EEXIST... */
int ts_ring_make(struct ts_store *store, uint64_t wanted);

/** Map the open and checked ring. Errors: -ENOMEM. */
int ts_ring_map(struct ts_store *store);

/** Accepts a ring that is not mapped. */
void ts_ring_unmap(struct ts_store *store);

/** Whether @segment has memory (A4), so that reading there cannot fault for want of space. */
bool ts_pages_exist(const struct ts_store *store, uint32_t segment);

/**
 * Give @segment, which is OPEN and ours, memory: by whoever produces into it, so that its own
 * cgroup is charged.  Errors: -ENOSPC and others of posix_fallocate(3).
 */
int ts_pages_allocate(struct ts_store *store, int fd, uint32_t segment);

/**
 * Make @count segments from @segment on, which is OPEN and ours, writable here; they have
 * memory.  Errors: -ENOMEM.
 */
int ts_pages_open(
	struct ts_store *store, uint32_t segment, uint32_t count, unsigned char **ret_map);

/** Make the @count segments at @map read-only again. */
void ts_pages_close(const struct ts_store *store, unsigned char *map, uint32_t count);

/** In the child of a fork: nothing is mapped here yet. */
void ts_pages_forget(struct ts_store *store);

/* ---- leader/group/objects.c ------------------------------------------------------------- */

/**
 * Open the ledger at store->ledger_object.path, making it when it is not there, and lock it.
 *
 * Ownership: the store's, until ts_ledger_leave().  Threads: one at a time per process.
 * Errors: those of ts_store_attach(); -EAGAIN it was held, or replaced, for too long.
 */
int ts_ledger_enter(struct ts_store *store);

/**
 * Open the ledger at @object's path, which is there, and map it, for munmap(2) of
 * TS_LEDGER_BYTES. Takes no lock.  Errors: those of ts_object_open(); -EPROTO, -EBADMSG,
 * -EXDEV; -ENOMEM.
 */
int ts_ledger_open(
	const struct ts_scope *scope, struct ts_object *object, struct ts_ledger **ret_ledger);

/** Give the ledger back, and its lock with its descriptor. Accepts a store without one. */
void ts_ledger_leave(struct ts_store *store);

/* ---- leader/ring/members.c -------------------------------------------------------------- */

/** The byte whose lock proves that member @index lives. */
static inline int64_t ts_member_lock_byte(uint32_t index)
{
	return TS_LOCK_BASE + index;
}

/** Whether the process that the member word @word names runs: half of the proof of death. */
bool ts_member_is_running(uint64_t word);

/** As ts_object_fd() of the ring; takes the lock byte of our slot again if it was lost. */
int ts_member_ring_fd(struct ts_store *store);

/** Whether @index's process is proven dead or the slot is free already. */
bool ts_member_is_gone(struct ts_store *store, uint32_t index);

/** Whether any member but ourselves is not proven dead. */
bool ts_member_any_alive(struct ts_store *store);

/** Slots that were ever used, checked. */
static inline uint32_t ts_member_high(const struct ts_store *store)
{
	uint32_t high = ts_load_relaxed(&store->header->member_high);

	return high < TS_MEMBER_MAX ? high : TS_MEMBER_MAX;
}

/** A free lease word of ours. Errors: -EBUSY. */
int ts_lease_acquire(struct ts_store *store);

/** Store a pin in the lease word @slot of ours. */
void ts_lease_pin(struct ts_store *store, uint32_t slot, uint32_t segment, uint32_t generation);

/** Clear the lease word @slot of ours, which the caller keeps. */
void ts_lease_unpin(struct ts_store *store, uint32_t slot);

/** Clear the lease word @slot of ours and give it back. */
void ts_lease_drop(struct ts_store *store, uint32_t slot);

/** Take a member slot. Errors: -EUSERS none free; -EBADF the ring's descriptor is lost. */
int ts_member_join(struct ts_store *store);

/**
 * Take every window and lease of this process for good: other threads get no more of either.
 * False when a thread holds one: it still reads or writes ring memory, which only our death
 * may free then.
 */
bool ts_member_stop(struct ts_store *store);

/** Seal what is open, drop the leases, free the slot; after ts_member_stop() said true. */
void ts_member_leave(struct ts_store *store);

/** Clean up after @index if it is proven dead; true when that freed the slot. */
bool ts_member_clean(struct ts_store *store, uint32_t index);

/** Clean up after every dead member; returns how many. */
uint32_t ts_member_clean_all(struct ts_store *store);

/** Look at one other member, the next one each time. */
void ts_member_clean_next(struct ts_store *store);

/* ---- leader/ring/segments.c ------------------------------------------------------------- */

/** Whether any lease word pins @segment in @generation. */
bool ts_segment_is_pinned(struct ts_store *store, uint32_t segment, uint32_t generation);

/**
 * From the word @sealed of segment @index over DRAIN to FREE of the next generation, or back.
 * Errors: -EBUSY somebody reads there, or was faster.
 */
int ts_segment_drain(struct ts_store *store, uint32_t index, uint64_t sealed);

/** From the word @open, OPEN and ours, to SEALED. All writes of this process there are done. */
void ts_segment_seal_word(struct ts_store *store, uint32_t index, uint64_t open);

/** Whether @word of segment @index says FREE, or TIED to no head that has it. */
bool ts_segment_is_free(const struct ts_store *store, uint32_t index, uint64_t word);

/**
 * How many bytes from the start of segment @index on, pinned and with this @word, may be read:
 * with those of the segments tied to it.  0: these are not what the word says.
 */
uint64_t ts_segment_room(const struct ts_store *store, uint32_t index, uint64_t word);

/** Note that something was written into @segment, which is OPEN and ours. */
void ts_segment_touch(struct ts_store *store, uint32_t segment);

/** Seal the segment of @window, which the caller holds; no-op without one. */
void ts_segment_seal(struct ts_store *store, struct ts_window *window);

/**
 * Forget a segment that somebody took from @window while it was idle.  It stays writable in
 * this process: another window may have it by now, and nobody writes through this one.
 */
void ts_segment_forget(struct ts_window *window);

/** Whether the segment of @window still is OPEN and ours: see take() in room.c. */
bool ts_segment_is_mine(struct ts_store *store, const struct ts_window *window);

/** Undo what a dead @member left in segment words; part of cleaning. */
void ts_segment_clean(struct ts_store *store, uint32_t member);

/** In the child of a fork: the parent's windows are not ours. */
void ts_segment_forget_windows(struct ts_store *store);

/** Bytes in those of @count @segments that hold records now, @segment_bytes in each at most. */
uint64_t ts_segments_used(struct ts_segment *segments, uint32_t count, uint64_t segment_bytes);

/* ---- leader/ring/room.c ----------------------------------------------------------------- */

/** Whether @count more segments may be allocated: not past 85 % of the machine's limits. */
bool ts_limits_may_grow(struct ts_store *store, uint32_t count);

/**
 * Whether @word lets us evict segment @index: it is SEALED, or another member's OPEN one, for a
 * member that stopped producing would keep its segment for ever.
 */
bool ts_segment_is_candidate(struct ts_store *store, uint32_t index, uint64_t word);

/**
 * Make the candidate @index FREE.  One that is OPEN is sealed in its owner's name first; the
 * owner notices before it writes again (claims.c, hold_room).  Errors: -EBUSY.
 */
int ts_segment_take(struct ts_store *store, uint32_t index);

/** From the word @free of segment @index, which is free, to @state; *ret_word is the new one.
 */
bool ts_segment_begin(struct ts_store *store, uint32_t index, uint64_t free,
	enum ts_segment_state state, uint32_t tied, uint64_t *ret_word);

/** Segments a crash left sealed without memory become FREE, so that growth can use them. */
void ts_segment_free_unallocated(struct ts_store *store);

/** The head @index, OPEN with the word @open and ours, goes back with what is tied to it. */
void ts_segment_give_back(struct ts_store *store, uint32_t index, uint64_t open);

/** A record of segment @index was taken by this process; a hint for who looks for room. */
static inline void ts_segment_note_taken(struct ts_store *store, uint32_t index)
{
	struct ts_segment *segment = &store->segments[index];

	if (!ts_load_relaxed(&segment->taken) && ts_load_relaxed(&segment->job) != store->job)
		ts_write_relaxed(&segment->taken, 1);
}

/**
 * Give @window, which the caller holds, a fresh OPEN segment; nobody's records go for it where
 * it @spares them.  Errors: -ENOSPC, -EBADF...
 */
int ts_segment_open(struct ts_store *store, struct ts_window *window, bool spares);

/* ---- leader/ring/runs.c ----------------------------------------------------------------- */

/**
 * Give @window, which the caller holds, @count fresh segments in a row, the first of them
 * pinned in lease word @slot; nobody's records go for them where it @spares them.  Takes as
 * long as the kernel needs for their memory, and holds nothing that others need.  Errors:
 * -ENOSPC...
 */
int ts_run_open(struct ts_store *store, struct ts_window *window, uint32_t count, uint32_t slot,
	bool spares);

/**
 * The record in the run of @window is published, or never will be: seal it, or give it back,
 * and clear the lease word @slot.
 */
void ts_run_end(struct ts_store *store, struct ts_window *window, uint32_t slot);

/* ---- leader/ring/demand.c --------------------------------------------------------------- */

/** Move the end of the ring's time to that which this process keeps it for, if any. */
void ts_keep_extend(struct ts_store *store);

/** Whether the ring stays though nobody is alive. */
bool ts_keep_holds(const struct ts_store *store);

/** Whether a record of @demand's kind goes into free room though nobody has asked for it. */
bool ts_keep_fills(struct ts_store *store, const struct ts_dataset_row *row,
	const struct ts_demand *demand);

/**
 * Whether another job may be alive.  In a ring that is kept ghosts of jobs that are long over
 * would have a lone one publish, for nobody, in place of what it is kept for.
 */
bool ts_keep_has_company(struct ts_store *store);

/** There was no free room. */
void ts_keep_is_full(struct ts_store *store);

/** The row of @dataset, or of dataset 0 when there is no such row. */
static inline struct ts_dataset_row *ts_demand_row(struct ts_store *store, uint32_t dataset)
{
	return ts_ledger_dataset(store->ledger, dataset < TS_DATASET_MAX ? dataset : 0);
}

/** The demand that records of @key and @kind belong to. */
static inline struct ts_demand *ts_demand_of(
	struct ts_dataset_row *row, enum ts_kind kind, const struct ts_key *key)
{
	bool drawn = kind == TS_KIND_SAMPLE && (key->lo & TS_KEY_DRAWN);

	return &row->demands[drawn ? TS_DEMAND_DRAWN : (uint32_t)kind % TS_KIND_COUNT];
}

/** Another job asked for a ghost; true when such records are captured from now on. */
bool ts_demand_count(struct ts_demand *demand);

/** A record was taken. */
static inline void ts_demand_taken(struct ts_demand *demand)
{
	ts_add_relaxed(&demand->window_taken, 1);
}

/** A record of @bytes was published; judges the window after @capacity bytes. */
void ts_demand_published(struct ts_demand *demand, uint64_t bytes, uint64_t capacity);

/* ---- leader/ring/directory.c ------------------------------------------------------------ */

/**
 * End the claim @word of @entry: to READY, or to EMPTY; wakes who waits.
 * Errors: -ESTALE it was taken over.
 */
int ts_entry_end(struct ts_entry *entry, uint64_t word, enum ts_entry_state state);

/** Whether @entry still holds the claim @word. */
bool ts_entry_is_claimed(const struct ts_entry *entry, uint64_t word);

/**
 * Replace the entry word @old of entry @at by a new tenure of ours; sleepers on the old one
 * are woken when the new one ends.  False when the word was not @old any more.
 */
bool ts_entry_begin(struct ts_store *store, uint32_t at, uint64_t old,
	enum ts_entry_state state, uint32_t tag, uint64_t *ret_word);

/** Make *take the claim @word of @entry, or TS_PASS. */
void ts_take_give_claim(struct ts_take *take, const struct ts_key *key, uint32_t entry,
	uint64_t word, uint32_t dataset, enum ts_kind kind);
void ts_take_give_pass(struct ts_take *take, enum ts_reason reason);

/** The bits of a key that its entry shows; other bits choose the set. */
static inline uint32_t ts_key_tag(const struct ts_key *key)
{
	return (uint32_t)(key->hi >> 32);
}

#endif
