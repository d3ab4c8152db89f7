/* SPDX-License-Identifier: MIT */
/* Removing shared memory that nobody alive uses. */
#ifndef TS_TSRUN_GC_H
#define TS_TSRUN_GC_H

#include "shim/base.h"

/** What `tsrun gc` would remove. */
struct ts_gc_tally {
	unsigned objects; /* but for ledgers */
	unsigned ledgers;
	uint64_t bytes; /* of memory, of both */
};

/**
 * Count what `tsrun gc` would remove, without what is kept if @keeps, and remove
 * nothing.  Takes no locks, so that no job is kept from joining.  Never says anything.  Errors:
 * those of ts_names_each().
 */
int ts_gc_count(bool keeps, struct ts_gc_tally *ret_tally);

/**
 * For a job that is about to start: remove the ring of @group in our namespaces if nobody alive
 * uses it and it is not kept, what is LEFT of the user's other groups (leader/group/left.h),
 * and their rings that are kept while there is no room for one of @ring_bytes.  Keeps the
 * counters, unless they are of another boot, which would keep the group from sharing.  Never
 * says anything.
 */
void ts_gc_sweep(const char *group, uint64_t ring_bytes);

#endif
