/* SPDX-License-Identifier: MIT */
/* The table of a group's GPUs as it lies in shared memory; leader/slots/device.h is its
 * protocol. */
#ifndef TS_LEADER_SLOTS_DEVICE_PRIVATE_H
#define TS_LEADER_SLOTS_DEVICE_PRIVATE_H

#include "leader/slots/device.h"
#include "leader/group/attach.h"
#include "leader/group/store_private.h"

#include <assert.h>

enum ts_ring_state { TS_RING_EMPTY, TS_RING_MAKING, TS_RING_LIVE, TS_RING_CLOSING };

enum ts_slot_state {
	TS_SLOT_FREE,
	TS_SLOT_TAKEN,
	TS_SLOT_WRITING,
	TS_SLOT_READY,
	TS_SLOT_LOST
};

/* Keys that are remembered; and the part of the slots for what is brought again, see
 * device.c. */
#define TS_DEVICE_HISTORY    2048u
#define TS_DEVICE_AGAIN_PART 4u

/** One slot's control words. All but @word belong to who has it TAKEN. */
struct ts_device_slot {
	_Atomic uint64_t word;           /* state, sleepers, tenure, turn */
	_Atomic uint64_t key_lo, key_hi; /* complete in WRITING and READY */
	_Atomic uint64_t bytes;
	_Atomic uint64_t since_ns; /* ts_now_ns() of WRITING */
	_Atomic uint64_t written;  /* the row's clock when READY: smallest = oldest; a hint */
	_Atomic uint64_t late;     /* the turn whose WRITING is not worth waiting for; a hint */
	_Atomic uint64_t again;    /* the turn in which a job that is behind wrote it; a hint */
};
static_assert(sizeof(struct ts_device_slot) == 64, "ABI 2");

/** One GPU; taken for its UUID once and for good. */
struct ts_device_row {
	_Atomic uint64_t uuid_hash; /* 0 = free; taken by CAS, then `uuid` is written */
	_Atomic uint32_t named;     /* `uuid` is complete */
	uint32_t reserved0;
	uint8_t uuid[TS_DEVICE_UUID];
	uint64_t reserved1[4];
	_Atomic uint64_t word; /* state, tenure, generation */
	_Atomic uint64_t slot_bytes, slot_count;
	_Atomic uint64_t memory;   /* whose: a ring word without state and generation, or 0 */
	_Atomic uint64_t asked_ns; /* ts_now_ns() when it was last asked back, or 0 */
	_Atomic uint64_t met_ns;   /* ts_now_ns() when two jobs that bring the same last met */
	uint64_t reserved2[2];
	_Atomic uint64_t handle[TS_DEVICE_HANDLE / 8];
	_Atomic uint64_t clock; /* slots written; it and the next two have their own line */
	_Atomic uint64_t looked, found; /* ts_device_count() */
	uint64_t reserved3[5];
	struct ts_device_slot slots[TS_DEVICE_SLOTS];
};
static_assert(offsetof(struct ts_device_row, word) == 64, "ABI 2");
static_assert(offsetof(struct ts_device_row, handle) == 128, "ABI 2");
static_assert(offsetof(struct ts_device_row, clock) == 192, "ABI 2");
static_assert(offsetof(struct ts_device_row, slots) == 256, "ABI 2");
static_assert(sizeof(struct ts_device_row) == 4352, "ABI 4");

/** Leases of one member. */
struct ts_device_line {
	_Atomic uint64_t lease[TS_DEVICE_HOLDS];
};
static_assert(sizeof(struct ts_device_line) == 128, "ABI 2");

/** Memory of others that one member has mapped. */
struct ts_device_maps {
	_Atomic uint64_t map[TS_DEVICE_MAPS];
};
static_assert(sizeof(struct ts_device_maps) == 128, "ABI 3");

/* Of this object alone; 3 has map words: who does not write any must not map; 4 more slots and
 * what was brought. */
#define TS_DEVICE_ABI 4u

struct ts_device_table {
	struct ts_dependent_head head;
	_Atomic uint64_t met_ns; /* as of a row, of jobs whatever their GPU */
	_Alignas(4096) struct ts_device_line lines[TS_MEMBER_MAX];
	struct ts_device_row rows[TS_DEVICE_RINGS];
	struct ts_device_maps maps[TS_MEMBER_MAX];
	_Atomic uint64_t brought[TS_DEVICE_HISTORY]; /* traces of keys; hints */
};
static_assert(offsetof(struct ts_device_table, lines) == 4096, "ABI 2");
static_assert(offsetof(struct ts_device_table, rows) == 135168, "ABI 2");
static_assert(offsetof(struct ts_device_table, maps) == 413696, "ABI 4");
static_assert(sizeof(struct ts_device_table) == 561152, "ABI 4");

/** A table as this process sees it. */
struct ts_device {
	struct ts_store *store;
	struct ts_device_table *table; /* mapped for good */
	uint32_t serial;               /* ts_identity_serial() of who attached */
	uint32_t member, tenure;
	_Atomic uint32_t stopped; /* has left the group, or tries to */
	_Atomic uint32_t busy[TS_DEVICE_HOLDS];
	_Atomic uint32_t mapping[TS_DEVICE_MAPS];
	_Atomic uint32_t kept[TS_DEVICE_RINGS]; /* LOST slots of our ring there, now gone */
	_Atomic uint64_t alive_until[TS_MEMBER_MAX]; /* ts_now_ns() of the next look */
	_Atomic uint64_t asked[TS_DEVICE_HISTORY];   /* traces of keys */
};

/* ---- ring word: state 2 | owner 10 | its generation 14 | unused 6 | gen 32 (low to high) ----
 */

TS_FIELD(ts_device_ring_state, enum ts_ring_state, 0, 2);
TS_FIELD(ts_device_ring_owner, uint32_t, 2, 10);
TS_FIELD(ts_device_ring_tenure, uint32_t, 12, 14);
TS_FIELD(ts_device_ring_generation, uint32_t, 32, 32);

static inline uint64_t ts_device_ring_pack(
	enum ts_ring_state state, uint32_t owner, uint32_t tenure, uint32_t generation)
{
	return ts_device_ring_state_put(state) | ts_device_ring_owner_put(owner) |
	       ts_device_ring_tenure_put(tenure) | ts_device_ring_generation_put(generation);
}

/* ---- slot word: state 3 | waited 1 | owner 10 | its generation 14 | turn 36 ------------- */

TS_FIELD(ts_device_slot_state, enum ts_slot_state, 0, 3);
TS_FIELD(ts_device_slot_owner, uint32_t, 4, 10);
TS_FIELD(ts_device_slot_tenure, uint32_t, 14, 14);
TS_FIELD(ts_device_slot_turn, uint64_t, 28, 36);

#define TS_DEVICE_WAITED (UINT64_C(1) << 3)

static inline uint64_t ts_device_slot_pack(
	enum ts_slot_state state, uint32_t owner, uint32_t tenure, uint64_t turn)
{
	return ts_device_slot_state_put(state) | ts_device_slot_owner_put(owner) |
	       ts_device_slot_tenure_put(tenure) | ts_device_slot_turn_put(turn);
}

/** The word with another state and nobody waiting; same tenure, same turn. */
static inline uint64_t ts_device_slot_with(uint64_t word, enum ts_slot_state state)
{
	return (word & ~UINT64_C(0xf)) | (uint64_t)state;
}

/* ---- lease word: 0, or bit 63 | member gen 14 | ring 6 | slot 6 | ring gen 32 (to low) ----
 * ---- map word: the same, with no slot (0) ---------------------------------------------------
 */

TS_FIELD(ts_device_pin_generation, uint32_t, 0, 32);
TS_FIELD(ts_device_pin_slot, uint32_t, 32, 6);
TS_FIELD(ts_device_pin_ring, uint32_t, 38, 6);
TS_FIELD(ts_device_pin_tenure, uint32_t, 44, 14);

static inline uint64_t ts_device_pin_pack(
	uint32_t tenure, uint32_t ring, uint32_t slot, uint32_t generation)
{
	return (UINT64_C(1) << 63) | ts_device_pin_tenure_put(tenure) |
	       ts_device_pin_ring_put(ring) | ts_device_pin_slot_put(slot) |
	       ts_device_pin_generation_put(generation);
}

/** Whether a ring may have @slots slots of @slot_bytes, offsets in which do not overflow. */
static inline bool ts_device_is_shape(uint64_t slots, uint64_t slot_bytes)
{
	return slots > 0 && slots <= TS_DEVICE_SLOTS && slot_bytes > 0 &&
	       slot_bytes <= UINT64_MAX / TS_DEVICE_SLOTS;
}

/* ---- leader/slots/device.c -------------------------------------------------------------- */

/** Whether @device may be used here. Errors: -ECHILD, -ESTALE, -EINVAL no such row. */
int ts_device_check(const struct ts_device *device, uint32_t ring);

/**
 * Begin something that only our death may break off: the index of one of the @count @words, the
 * holds or mappings of this process.  Errors: -EUSERS none is free; -ESTALE it has left.
 */
int ts_device_begin(struct ts_device *device, _Atomic uint32_t *words, uint32_t count);
void ts_device_hold_end(struct ts_device *device, uint32_t index);

/** The ring word of @row, after taking the ring back from an owner whose tenure is over. */
uint64_t ts_device_settle(struct ts_device *device, struct ts_device_row *row);

/** Whether some tenure that is not over reads slot @slot of @ring in @generation. */
bool ts_device_is_pinned(
	struct ts_device *device, uint32_t ring, uint32_t slot, uint32_t generation);

/**
 * Take slot @slot back from a tenure that is over: to FREE from TAKEN, to LOST from WRITING.
 * Returns its word as it is now.
 */
uint64_t ts_device_recover(struct ts_device *device, struct ts_device_slot *slot);

/**
 * The caller asks for @bytes bytes with @key: whether it does so for the first time, as far as
 * is remembered, which may be too often.  Any thread.
 */
bool ts_device_note_asked(
	struct ts_device *device, uint32_t ring, const struct ts_key *key, uint64_t bytes);

/** Whether some member brought them before, as far as is remembered. Any thread. */
bool ts_device_was_brought(
	struct ts_device *device, uint32_t ring, const struct ts_key *key, uint64_t bytes);
void ts_device_note_brought(
	struct ts_device *device, uint32_t ring, const struct ts_key *key, uint64_t bytes);

/**
 * No more holds and no more rings of this process's; part of leaving the group.  False when
 * some are in use: then only our death may end this tenure.
 */
bool ts_device_stop(struct ts_store *store);

#endif
