/* SPDX-License-Identifier: MIT */
/* Packing and unpacking of the shared words; leader/group/layout.h says what they mean. */
#ifndef TS_LEADER_GROUP_WORDS_H
#define TS_LEADER_GROUP_WORDS_H

#include "leader/group/layout.h"

#define TS_BITS(word, low, count) (((word) >> (low)) & ((UINT64_C(1) << (count)) - 1))
#define TS_PUT(value, low, count) \
	(((uint64_t)(value) & ((UINT64_C(1) << (count)) - 1)) << (low))

/* ---- member word: state 2 | gen 14 | start 26 | pid 22 ----------------------------------- */

/** A member word naming @process, which is a ts_process_id() or 0. */
static inline uint64_t ts_member_pack(
	enum ts_member_state state, uint32_t generation, uint64_t process)
{
	return TS_PUT(state, 0, 2) | TS_PUT(generation, 2, 14) | TS_PUT(process >> 24, 16, 26) |
	       TS_PUT(process, 42, 22);
}

static inline enum ts_member_state ts_member_state(uint64_t word)
{
	return (enum ts_member_state)TS_BITS(word, 0, 2);
}

static inline uint32_t ts_member_generation(uint64_t word)
{
	return (uint32_t)TS_BITS(word, 2, 14);
}

static inline int ts_member_pid(uint64_t word)
{
	return (int)TS_BITS(word, 42, 22);
}

/** Whether @word names @process (its start time is compared in the bits that are kept). */
static inline bool ts_member_names(uint64_t word, uint64_t process)
{
	return (word >> 16) == (ts_member_pack(TS_MEMBER_FREE, 0, process) >> 16);
}

/* ---- entry word: state 3 | waited 1 | owner 10 | gen 18 | tag 32 ---- */

#define TS_ENTRY_WAITED (UINT64_C(1) << 3)

static inline uint64_t ts_entry_pack(
	enum ts_entry_state state, uint32_t owner, uint32_t generation, uint32_t tag)
{
	return TS_PUT(state, 0, 3) | TS_PUT(owner, 4, 10) | TS_PUT(generation, 14, 18) |
	       TS_PUT(tag, 32, 32);
}

static inline enum ts_entry_state ts_entry_state(uint64_t word)
{
	return (enum ts_entry_state)TS_BITS(word, 0, 3);
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

static inline uint32_t ts_entry_owner(uint64_t word)
{
	return (uint32_t)TS_BITS(word, 4, 10);
}

static inline uint32_t ts_entry_generation(uint64_t word)
{
	return (uint32_t)TS_BITS(word, 14, 18);
}

static inline uint32_t ts_entry_tag(uint64_t word)
{
	return (uint32_t)TS_BITS(word, 32, 32);
}

/** The word with another state and nobody waiting; same tenure. */
static inline uint64_t ts_entry_with_state(uint64_t word, enum ts_entry_state state)
{
	return (word & ~UINT64_C(0xf)) | (uint64_t)state;
}

/* ---- `where`: offset 24 | segment 10 | gen (low bits) 30 ---- */

static inline uint64_t ts_where_pack(uint32_t offset, uint32_t segment, uint32_t generation)
{
	return TS_PUT(offset, 0, 24) | TS_PUT(segment, 24, 10) | TS_PUT(generation, 34, 30);
}

/** In units of 64 bytes from the start of the segment. */
static inline uint32_t ts_where_offset(uint64_t where)
{
	return (uint32_t)TS_BITS(where, 0, 24);
}

static inline uint32_t ts_where_segment(uint64_t where)
{
	return (uint32_t)TS_BITS(where, 24, 10);
}

/** Whether @where was stored in a generation that agrees with @generation in 30 bits. */
static inline bool ts_where_fits(uint64_t where, uint32_t generation)
{
	return TS_BITS(where, 34, 30) == (generation & ((UINT32_C(1) << 30) - 1));
}

/* ---- segment word: state 3 | owner 10 | unused 19 | gen 32 ---- */

static inline uint64_t ts_segment_pack(
	enum ts_segment_state state, uint32_t owner, uint32_t generation)
{
	return TS_PUT(state, 0, 3) | TS_PUT(owner, 3, 10) | TS_PUT(generation, 32, 32);
}

static inline enum ts_segment_state ts_segment_state(uint64_t word)
{
	return (enum ts_segment_state)TS_BITS(word, 0, 3);
}

static inline uint32_t ts_segment_owner(uint64_t word)
{
	return (uint32_t)TS_BITS(word, 3, 10);
}

static inline uint32_t ts_segment_generation(uint64_t word)
{
	return (uint32_t)TS_BITS(word, 32, 32);
}

/** Whether records may be read there: OPEN or SEALED. */
static inline bool ts_segment_readable(uint64_t word)
{
	enum ts_segment_state state = ts_segment_state(word);
	return state == TS_SEGMENT_OPEN || state == TS_SEGMENT_SEALED;
}

/* ---- lease word: 0, or bit 63 | segment << 32 | generation ---- */

static inline uint64_t ts_lease_pack(uint32_t segment, uint32_t generation)
{
	return (UINT64_C(1) << 63) | ((uint64_t)segment << 32) | generation;
}

static inline uint32_t ts_lease_segment(uint64_t word)
{
	return (uint32_t)(word >> 32) & 0x7fffffff;
}

#endif
