/* SPDX-License-Identifier: MIT */
/* What lies in the object of a journal; for leader/journal and its tests. */
#ifndef TS_LEADER_JOURNAL_JOURNAL_PRIVATE_H
#define TS_LEADER_JOURNAL_JOURNAL_PRIVATE_H

#include "leader/group/attach.h"
#include "leader/journal/journal.h"

#include <assert.h>
#include <stdatomic.h>

#define TS_JOURNAL_ABI 2u

/* A note for each so many bytes of the ring: more than there are samples of most kinds, and the
 * newest matter most.  With those of other nodes that is 0.3 % of the ring, 48 MiB at most. */
#define TS_JOURNAL_PER_ENTRY (UINT64_C(16) << 10)
#define TS_JOURNAL_MIN       1024u
#define TS_JOURNAL_MAX       (1024u * 1024u)

/* OWN: whether it is shared, and the mark of the job.  TOLD: when it was heard. */
#define TS_JOURNAL_SHARED     UINT32_C(0x80000000)
#define TS_JOURNAL_HEARD_BITS 20 /* of a ts_now_ns() are left out: a time of 50 days */

struct ts_journal_entry {
	_Atomic uint64_t tag;
	_Atomic uint64_t which; /* one of the two above, index (high to low) */
	_Atomic uint64_t made;  /* epoch, draw */
	_Atomic uint64_t check;
};
static_assert(sizeof(struct ts_journal_entry) == 32, "ABI 2");

struct ts_journal_turn {
	_Alignas(64) _Atomic uint64_t next; /* of the next note */
};

struct ts_journal_table {
	struct ts_belonging_head head;
	struct ts_journal_turn turns[TS_JOURNAL_LAPS];
	_Alignas(64) struct ts_journal_entry entry[]; /* of one lap, then of the other */
};
static_assert(offsetof(struct ts_journal_table, turns) == 128, "ABI 2");
static_assert(offsetof(struct ts_journal_table, entry) == 256, "ABI 2");

/** A journal as this process sees it. */
struct ts_journal {
	struct ts_journal_table *table; /* mapped for good */
	uint32_t entries;               /* OWN: a power of two; a checked copy */
	uint32_t serial;                /* ts_identity_serial() of who attached */
	uint32_t job; /* mark of the job of the process, without TS_JOURNAL_SHARED */
};

/** How many notes of its own node the journal of a ring of so many bytes has. */
uint32_t ts_journal_entries(uint64_t ring_bytes);

/** How many places a lap has: a power of two. */
static inline uint32_t ts_journal_places(
	const struct ts_journal *journal, enum ts_journal_lap lap)
{
	return lap == TS_JOURNAL_OWN ? journal->entries : journal->entries / 2;
}

#endif
