/* SPDX-License-Identifier: MIT */
/* Packing and unpacking of the shared words; leader/group/layout.h says what they mean. */
#ifndef TS_LEADER_GROUP_WORDS_H
#define TS_LEADER_GROUP_WORDS_H

#include "leader/group/layout.h"

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

/* ---- member word: state 2 | gen 14 | start 26 | pid 22 ----------------------------------- */

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

/* ---- entry word: state 3 | waited 1 | owner 10 | gen 18 | tag 32 ---- */

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

/* ---- `where`: offset 22 | segment 12 | gen (low bits) 30 ---- */

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

/* ---- segment word: state 3 | owner 10 | unused 19 | gen 32 ---- */

TS_FIELD(ts_segment_state, enum ts_segment_state, 0, 3);
TS_FIELD(ts_segment_owner, uint32_t, 3, 10);
TS_FIELD(ts_segment_generation, uint32_t, 32, 32);

static inline uint64_t ts_segment_pack(
	enum ts_segment_state state, uint32_t owner, uint32_t generation)
{
	return ts_segment_state_put(state) | ts_segment_owner_put(owner) |
	       ts_segment_generation_put(generation);
}

/** Whether records may be read there: OPEN or SEALED. */
static inline bool ts_segment_readable(uint64_t word)
{
	enum ts_segment_state state = ts_segment_state(word);
	return state == TS_SEGMENT_OPEN || state == TS_SEGMENT_SEALED;
}

/* ---- lease word: 0, or bit 63 | segment << 32 | generation ---- */

TS_FIELD(ts_lease_generation, uint32_t, 0, 32);
TS_FIELD(ts_lease_segment, uint32_t, 32, 31);

static inline uint64_t ts_lease_pack(uint32_t segment, uint32_t generation)
{
	return (UINT64_C(1) << 63) | ts_lease_segment_put(segment) |
	       ts_lease_generation_put(generation);
}

#endif
