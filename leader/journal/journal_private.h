/* SPDX-License-Identifier: MIT */
/* What lies in the object of a journal; for leader/journal and its tests. */
#ifndef TS_LEADER_JOURNAL_JOURNAL_PRIVATE_H
#define TS_LEADER_JOURNAL_JOURNAL_PRIVATE_H

#include "leader/group/attach.h"
#include "leader/journal/journal.h"

#include <assert.h>
#include <stdatomic.h>

#define TS_JOURNAL_ABI 3u

/* A note for each so many bytes of the ring: more than there are samples of most kinds, and the
 * newest matter most.  That is 0.2 % of the ring, 32 MiB at most. */
#define TS_JOURNAL_PER_ENTRY (UINT64_C(16) << 10)
#define TS_JOURNAL_MIN       1024u
#define TS_JOURNAL_MAX       (1024u * 1024u)

struct ts_journal_entry {
	_Atomic uint64_t tag;
	_Atomic uint64_t which; /* mark of the job, index (high to low) */
	_Atomic uint64_t made;  /* epoch, draw */
	_Atomic uint64_t check;
};
static_assert(sizeof(struct ts_journal_entry) == 32, "ABI 3");

struct ts_journal_table {
	struct ts_dependent_head head;
	_Alignas(64) _Atomic uint64_t next; /* turn of the next note */
	_Alignas(64) struct ts_journal_entry entry[];
};
static_assert(offsetof(struct ts_journal_table, next) == 128, "ABI 3");
static_assert(offsetof(struct ts_journal_table, entry) == 192, "ABI 3");

/** A journal as this process sees it. */
struct ts_journal {
	struct ts_journal_table *table; /* mapped for good */
	uint32_t entries;               /* a power of two; a checked copy */
	uint32_t serial;                /* ts_identity_serial() of who attached */
	uint32_t job;                   /* mark of the job of the process */
};

/** How many notes the journal of a ring of so many bytes has. */
uint32_t ts_journal_entries(uint64_t ring_bytes);

#endif
