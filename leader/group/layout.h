/* SPDX-License-Identifier: MIT */
/*
 * What lies in shared memory, and the protocol of every word in it.
 *
 * Two POSIX shared-memory objects belong to a group (names in leader/group/attach.h):
 *
 *   the ring    header | members | segment words | directory | segments (the data)
 *   the ledger  counters, datasets and jobs; see leader/group/ledger.h
 *
 * The ring is created under a private name, filled in and then linked to its real name, so
 * no process ever sees a half-made one.  Everything before the segments is mapped writable
 * by every member; the segments are mapped read-only by all.  The owner of an OPEN segment
 * makes that one segment of its mapping writable for as long: a window.
 *
 * Only offsets and indices are stored, never pointers, and whoever reads one checks it
 * against the sizes it copied from the header when it attached: the writer may be buggy.
 *
 * ---- Member word: who is alive -----------------------------------------------------------
 *
 *   FREE ──join──> LIVE(pid, start) ──leave──> FREE, gen+1
 *                    │ another member proves the death
 *                    └──> CLEANING(pid, start of the cleaner) ──> FREE, gen+1
 *
 * A process joins by taking the lock byte of a FREE slot (fcntl, so the kernel drops it at
 * death) and then the word by CAS.  Proven dead = the lock byte is free AND the process
 * (pid, start time) is gone or a zombie without other threads.  Either alone is wrong: closing
 * any descriptor of the file drops a live process's locks, and pids repeat.  The cleaner seals
 * the dead member's OPEN segments, takes its DRAIN segments back to SEALED, clears its leases,
 * and only then frees the slot, so an index never names two processes while anything carries
 * it.  A crash while CLEANING leaves the cleaner's identity in the word: whoever finds that
 * process gone takes over, all steps being idempotent.
 *
 * ---- Directory entry: one key, 16 bytes --------------------------------------------------
 *
 *   EMPTY ──> GHOST(job)      somebody alone produced this key; no bytes
 *   EMPTY | GHOST | READY | CLAIM ──> CLAIM(owner)      all by one CAS on `word`
 *   CLAIM(owner) ──publish──> READY ;  CLAIM(owner) ──abandon──> EMPTY
 *
 * `word` = state, "somebody sleeps" bit, owner, generation and a 32-bit tag of the key.
 * Every new tenure of an entry bumps the generation.  The full key is in the record
 * itself, so the tag may collide: a false match costs a miss, never a wrong byte.
 * `where` (segment, segment generation, offset) is one word and is stored before the CAS
 * to READY.
 *
 * A claim may be taken over when its deadline passes (CAS from the exact old word).  That
 * moves the right only: the old owner's bytes stay in its own segment, and its publish
 * fails.  A late store of `where` by a stopped old owner is harmless, since it names a
 * complete record and the reader compares key and generation found there.
 * An entry that a crash leaves in CLAIM is taken over the same way; proof of death is not
 * needed.
 *
 * ---- Segment word: who owns the bytes ----------------------------------------------------
 *
 *   FREE(gen) ──> OPEN(member, gen) ──> SEALED(gen) ──> DRAIN(member, gen) ──> FREE(gen+1)
 *                                          ^                    │ somebody pins it
 *                                          └────────────────────┘
 *
 * The owner of an OPEN segment allocates in it alone, with private counters.  It seals when
 * the next record does not fit.  To reclaim, a member moves the oldest SEALED segment to
 * DRAIN, fences, and looks at every lease word; a pin puts the segment back and the next
 * oldest is tried.  A crash in OPEN or DRAIN is undone by the cleaner of that member.  A
 * stopped party keeps the segment it writes and the one it reads, and nothing else: bytes that
 * a process not proven dead may still write or read are never reused.
 *
 * With more members than segments every one would be OPEN and late comers could never
 * publish.  Whose turn it is by age is reclaimed whether it is SEALED or another's OPEN that
 * nobody pins: that one is sealed first (OPEN -> SEALED by a CAS from the exact word).  A
 * producer therefore pins before it allocates and looks again (D1): the segment must still be
 * OPEN and its own.  What it had mapped writable may stay so; it writes only under a pin.
 *
 * ---- Runs: a record larger than a segment --------------------------------------------------
 *
 *   head   FREE(gen) ──> OPEN(member, gen, n) ──> SEALED(gen, n) ──> DRAIN(member, gen, n)
 *                                                      ──> FREE(gen+1)
 *   each of the n behind it, distance d = 1 ... n:
 *          FREE(gen) | TIED(gen) of nobody ──> TIED(d, gen or gen+1)
 *          TIED(d, gen) of nobody ──> OPEN, TIED ... (gen+1)
 *
 * Such a record lies in adjacent segments, and fills them alone.  A TIED segment belongs to the
 * segment d before it as long as that one is OPEN, SEALED or DRAIN with n >= d: whoever has
 * the head has them all, and one pin of the head pins all.  With any other word there, it is
 * nobody's, and as good as FREE.  So eviction is what it is for one segment: the step of the
 * head to FREE gives all of them back at once, and there is nothing to undo.
 *
 * A producer takes the head first, pins it, and ties the others then, one by one: each is FREE,
 * or nobody's, or its record is evicted, or it is TIED at that distance already, of a head that
 * was there before.  What a crash leaves is the head as OPEN or DRAIN, which its cleaner seals
 * like any other, n included; a run without a record is evicted in its turn.  A producer that
 * cannot get one of them frees the head.
 *
 * A word that says TIED changes with every new tenure, hence gen+1: whoever has seen that
 * the segment is nobody's changes it by CAS, and fails when a new head has tied it meanwhile.
 *
 * ---- Lease word: what is being read ------------------------------------------------------
 *
 *   0 ──> PIN(segment, gen) ──> 0        only by the process whose member it is
 *
 * The reader stores the pin, fences, and looks again: the entry must be unchanged and the
 * segment OPEN or SEALED in that generation.  Then the bytes cannot change until the pin is
 * cleared.  A producer pins the segment it writes into as well, so that one process may seal
 * a segment while another of its threads still fills a record there.
 *
 * ---- Kept word: how long the ring stays without members ------------------------------------
 *
 *   0 ──> time ──> later time ──> ...        by CAS, of any member that wants it, only upwards
 *
 * A member that keeps the ring (--keep) moves the word to now and that time when it joins and
 * when it leaves.  Whoever finds nobody alive, under the lock, unlinks a ring whose time is
 * over and leaves or joins any other: to join one without a living member is to join one whose
 * other members are all dead.  A crash leaves the time of the last joining; a squatter's value
 * costs memory until `tsrun gc`.
 *
 * ---- Ordering ----------------------------------------------------------------------------
 *
 *   R1  record bytes, then `where`, then READY          pairs with
 *   A1  load of `word`, then `where`, then the bytes
 *       (`where` is stored with release and loaded with acquire itself: after a take-over
 *       READY may be the new owner's and `where` the old one's)
 *   D1  store of a lease word; full fence; load of the entry and segment words
 *   D2  CAS of a segment word to DRAIN; full fence; loads of all lease words
 *       (at least one of D1 and D2 sees the other: Dekker)
 *   D3  CAS of an entry to CLAIM; full fence; loads of the other ways of its set
 *       (of two members that claim two ways for one key, at least one sees the other)
 *   R2  last write into a segment, then SEALED          pairs with the CAS to DRAIN (A2)
 *   R3  last read under a pin, then the store of 0      pairs with the loads in D2 (A3)
 *   R4  memory of a segment exists, then `allocated`    pairs with the load in a hit (A4)
 *
 * tests/models/ring.pml says the same to Spin, step by step.
 */
#ifndef TS_LEADER_GROUP_LAYOUT_H
#define TS_LEADER_GROUP_LAYOUT_H

#include "leader/object/object.h"

#include <assert.h>
#include <stdatomic.h>

#define TS_RING_MAGIC UINT64_C(0x31474e4952535354) /* "TSSRING1", little endian */
#define TS_ABI        7u

#define TS_MEMBER_MAX  1024u /* 10 bits of owner in a word */
#define TS_LEASES      8u    /* per member: one cache line */
#define TS_SEGMENT_MAX 4096u /* 12 bits of a `where` */
#define TS_WAYS        8u    /* entries of a set: two cache lines */
#define TS_HUGE_BYTES  (UINT64_C(2) << 20)

/* Lock bytes lie beyond any possible size, where no read or write can meet them. */
#define TS_LOCK_BASE (INT64_C(1) << 60)

enum ts_member_state { TS_MEMBER_FREE = 0, TS_MEMBER_LIVE = 1, TS_MEMBER_CLEANING = 2 };

enum ts_entry_state {
	TS_ENTRY_EMPTY = 0,
	TS_ENTRY_GHOST = 1,
	TS_ENTRY_CLAIM = 2,
	TS_ENTRY_READY = 3
};

enum ts_segment_state {
	TS_SEGMENT_FREE = 0,
	TS_SEGMENT_OPEN = 1,
	TS_SEGMENT_SEALED = 2,
	TS_SEGMENT_DRAIN = 3,
	TS_SEGMENT_TIED = 4
};

/** One process that uses the ring; two cache lines, the second written at every hit. */
struct ts_member {
	_Atomic uint64_t word; /* state, generation, start time, pid */
	_Atomic uint64_t job;  /* ts_process_id() of the job it works for; 0 while joining */
	_Atomic uint64_t joined_ns; /* CLOCK_BOOTTIME, for people */
	uint64_t reserved[5];
	_Atomic uint64_t lease[TS_LEASES]; /* 0, or bit 63 | segment << 32 | generation */
};
static_assert(sizeof(struct ts_member) == 128, "ABI 2");
static_assert(offsetof(struct ts_member, lease) == 64, "lease line of its own");

/** One segment's control words; a line of its own, for its owner writes it. */
struct ts_segment {
	_Atomic uint64_t word;
	_Atomic uint64_t
		written_at; /* seal clock of the last record: smallest = oldest; a hint */
	_Atomic uint32_t allocated; /* pages exist (posix_fallocate succeeded); never undone */
	_Atomic uint32_t huge; /* so many times TS_HUGE_BYTES at its start are huge pages */
	_Atomic uint64_t used; /* bytes bump-allocated in this generation; for statistics */
	/* Hints for who looks for room, of this generation; see room.c. */
	_Atomic uint64_t job;      /* ts_process_id() of its owner's job */
	_Atomic uint32_t taken;    /* another job took a record of it */
	_Atomic uint32_t is_probe; /* of a job that nobody follows, it is kept as any other */
	uint64_t reserved[2];
};
static_assert(sizeof(struct ts_segment) == 64, "ABI 2");

struct ts_entry {
	_Atomic uint64_t word;
	_Atomic uint64_t
		where; /* offset in 64-byte units 22 | segment 12 | gen (low bits) 30 */
};
static_assert(sizeof(struct ts_entry) == 16, "ABI 2");

/** In front of every record's bytes, inside the segment; immutable once published. */
struct ts_record {
	uint64_t key_lo, key_hi;
	uint64_t bytes;      /* of the payload */
	uint32_t skip;       /* from the start of this header to the payload */
	uint32_t generation; /* of the segment */
	uint64_t produce_ns; /* CPU time the producer spent: what a hit saves */
	uint32_t kind;       /* enum ts_kind */
	uint32_t dataset;    /* row in the ledger */
	uint64_t producer;   /* ts_process_id() of the producer's job */
	uint64_t check;      /* ts_hash64 of the fields above */
};
static_assert(sizeof(struct ts_record) == 64, "ABI 2");

/* Payloads of this size and more start on a page. */
#define TS_PAGE_ALIGN_FROM UINT64_C(65536)

/** The first page of the ring. Constant after creation, but for the last lines. */
struct ts_ring_header {
	struct ts_object_head head;
	uint64_t total_bytes; /* of the object */
	uint64_t members_at;  /* all offsets from the start of the object */
	uint64_t segments_at;
	uint64_t directory_at;
	uint64_t data_at; /* here the read-only part begins; huge page aligned, aligned to the
			   * machine's pages where segments are smaller than that */
	uint64_t segment_bytes;
	uint32_t member_count;
	uint32_t segment_count;
	uint32_t set_count; /* power of two */
	uint32_t why;       /* see leader/object/limits.h; 0 of older versions */
	uint64_t check;     /* ts_hash64 of everything above */
	uint8_t reserved1[136];
	_Alignas(64) _Atomic uint64_t seal_clock;
	_Alignas(64) _Atomic uint64_t allocated_bytes; /* of the segments */
	_Alignas(64) _Atomic uint32_t member_high;     /* slots >= this were never used */
	uint32_t reserved3;
	_Atomic uint64_t kept_until_ns; /* ts_now_ns(); 0: the ring goes with its last member */
};
static_assert(offsetof(struct ts_ring_header, check) == 112, "ABI 3");
static_assert(offsetof(struct ts_ring_header, seal_clock) == 256, "ABI 2");
static_assert(sizeof(struct ts_ring_header) == 448, "ABI 2");

/* Packing and unpacking of the words; fields from the lowest bits on. */

/** The bits of a word from @low on: name() reads them, name_put() is a word with only them. */
#define TS_FIELD(name, type, low, bits)                                       \
	static inline type name(uint64_t word)                                \
	{                                                                     \
		return (type)(word >> (low) & ((UINT64_C(1) << (bits)) - 1)); \
	}                                                                     \
	static inline uint64_t name##_put(uint64_t value)                     \
	{                                                                     \
		return (value & ((UINT64_C(1) << (bits)) - 1)) << (low);      \
	}                                                                     \
	static_assert((low) + (bits) <= 64, #name)

/* ---- member word: state 2 | gen 14 | start 26 | pid 22 ---------------------------------- */

TS_FIELD(ts_member_state, enum ts_member_state, 0, 2);
TS_FIELD(ts_member_generation, uint32_t, 2, 14);
TS_FIELD(ts_member_start, uint32_t, 16, 26);
TS_FIELD(ts_member_pid, int, 42, 22);

/** A member word naming @process, which is a ts_process_id() or 0. */
static inline uint64_t ts_member_pack(
	enum ts_member_state state, uint32_t generation, uint64_t process)
{
	return ts_member_state_put(state) | ts_member_generation_put(generation) |
	       ts_member_start_put(process >> 24) | ts_member_pid_put(process);
}

/** Whether @word names @process (its start time is compared in the bits that are kept). */
static inline bool ts_member_names(uint64_t word, uint64_t process)
{
	return (word >> 16) == (ts_member_pack(TS_MEMBER_FREE, 0, process) >> 16);
}

/* ---- entry word: state 3 | waited 1 | owner 10 | gen 18 | tag 32 ------------------------ */

TS_FIELD(ts_entry_state, enum ts_entry_state, 0, 3);
TS_FIELD(ts_entry_owner, uint32_t, 4, 10);
TS_FIELD(ts_entry_generation, uint32_t, 14, 18);
TS_FIELD(ts_entry_tag, uint32_t, 32, 32);

#define TS_ENTRY_WAITED (UINT64_C(1) << 3)

static inline uint64_t ts_entry_pack(
	enum ts_entry_state state, uint32_t owner, uint32_t generation, uint32_t tag)
{
	return ts_entry_state_put(state) | ts_entry_owner_put(owner) |
	       ts_entry_generation_put(generation) | ts_entry_tag_put(tag);
}

/**
 * Ten bits of job @id, which a ghost carries in place of an owner: a job outlives its
 * workers, whose member slots other jobs take over.  Two jobs with the same mark do not see
 * each other's ghosts; that is one pair in a thousand, and other jobs' ghosts still count.
 */
static inline uint32_t ts_job_mark(uint64_t id)
{
	return (uint32_t)((id * UINT64_C(0x9e3779b97f4a7c15)) >> 54);
}

/** The word with another state and nobody waiting; same tenure. */
static inline uint64_t ts_entry_with_state(uint64_t word, enum ts_entry_state state)
{
	return (word & ~UINT64_C(0xf)) | (uint64_t)state;
}

/* ---- `where`: offset 22 | segment 12 | gen (low bits) 30 -------------------------------- */

/* The offset is in units of 64 bytes from the start of the segment. */
TS_FIELD(ts_where_offset, uint32_t, 0, 22);
TS_FIELD(ts_where_segment, uint32_t, 22, 12);
TS_FIELD(ts_where_generation, uint32_t, 34, 30);

static inline uint64_t ts_where_pack(uint32_t offset, uint32_t segment, uint32_t generation)
{
	return ts_where_offset_put(offset) | ts_where_segment_put(segment) |
	       ts_where_generation_put(generation);
}

/** Whether @where was stored in a generation that agrees with @generation in 30 bits. */
static inline bool ts_where_fits(uint64_t where, uint32_t generation)
{
	return ts_where_generation_put(generation ^ ts_where_generation(where)) == 0;
}

/* ---- segment word: state 3 | owner 10 | tied 12 | unused 7 | gen 32 --------------------- */

TS_FIELD(ts_segment_state, enum ts_segment_state, 0, 3);
TS_FIELD(ts_segment_owner, uint32_t, 3, 10);
/* Of a head: how many segments are tied to it; of a TIED one: how far before it the head is. */
TS_FIELD(ts_segment_tied, uint32_t, 13, 12);
TS_FIELD(ts_segment_generation, uint32_t, 32, 32);

static inline uint64_t ts_segment_pack(
	enum ts_segment_state state, uint32_t owner, uint32_t generation)
{
	return ts_segment_state_put(state) | ts_segment_owner_put(owner) |
	       ts_segment_generation_put(generation);
}

/** @word with another state and owner; what is tied, and the generation, stay. */
static inline uint64_t ts_segment_become(
	uint64_t word, enum ts_segment_state state, uint32_t owner)
{
	return (word & ~(ts_segment_state_put(7) | ts_segment_owner_put(UINT64_MAX))) |
	       ts_segment_pack(state, owner, 0);
}

/** Whether records may be read there: OPEN or SEALED. */
static inline bool ts_segment_readable(uint64_t word)
{
	enum ts_segment_state state = ts_segment_state(word);
	return state == TS_SEGMENT_OPEN || state == TS_SEGMENT_SEALED;
}

/* ---- lease word: 0, or bit 63 | segment << 32 | generation ------------------------------ */

TS_FIELD(ts_lease_generation, uint32_t, 0, 32);
TS_FIELD(ts_lease_segment, uint32_t, 32, 31);

static inline uint64_t ts_lease_pack(uint32_t segment, uint32_t generation)
{
	return (UINT64_C(1) << 63) | ts_lease_segment_put(segment) |
	       ts_lease_generation_put(generation);
}

#endif
