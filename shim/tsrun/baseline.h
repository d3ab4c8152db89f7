/* SPDX-License-Identifier: MIT */
/*
 * Counting anew (`tsrun stats --reset`): the counters as they were then, to be subtracted from
 * those of later.
 *
 * Counters in the ledger only grow: jobs add to them at any time, and nobody may set them back.
 * So a reset is an object of its own, "reset" (leader/group/attach.h), that only tsrun makes
 * and reads:
 *
 *   none ──reset──> copy of the ledger, and which ledger it is of ──reset──> another copy
 *
 * What is counted of other nodes ("peers", leader/mail/mail.h) is subtracted likewise; that
 * goes with the last job, and who comes later counts from 0 on.
 *
 * Each is written under a private name and takes the old one's place in one step, without a
 * lock: of two resets at once the later one counts.  One that is of another ledger, of another
 * version or damaged is as none.  It goes with the ledger, by `tsrun gc`.
 */
#ifndef TS_TSRUN_BASELINE_H
#define TS_TSRUN_BASELINE_H

#include "leader/group/ledger.h"
#include "leader/mail/mail.h"

#include <sys/stat.h>

/** One ledger, and what it is of. */
struct ts_baseline_of {
	const char *group;
	uint64_t device, inode; /* of the ledger */
	uint64_t nodes_inode;   /* of the table of nodes; 0: there is none */
};

/**
 * Subtract from @ledger and @nodes (or NULL), copies of those of @of, what they had counted at
 * the last reset; *ret_at_ns is when that was (CLOCK_REALTIME), or 0 where there was none. What
 * is not a counter stays; so do the counters of data sets and jobs that came later, and one
 * that is smaller than it was.
 */
void ts_baseline_subtract(const struct ts_baseline_of *of, struct ts_ledger *ledger,
	struct ts_mail_table *nodes, uint64_t *ret_at_ns);

/** The same with @then in the place of what was stored. */
void ts_baseline_subtract_from(struct ts_ledger *ledger, struct ts_ledger *then);

/** What all nodes together, and each of them, had counted at a reset. */
struct ts_baseline_nodes {
	_Atomic uint64_t posted, unposted, left;
	_Atomic uint64_t reserved[5];
	struct ts_mail_flow samples, pictures;
	struct ts_mail_use use;
	struct ts_mail_peer peers[TS_MAIL_PEERS];
};

/** Of @nodes; a row whose name is another one stays whole. */
void ts_baseline_subtract_nodes(struct ts_mail_table *nodes, struct ts_baseline_nodes *then);

/**
 * Count from @ledger and @nodes (or NULL) on, copies of those of @of as they are.
 * Errors: -ENOMEM; those of ts_object_path(), open(2), write(2) and rename(2); then all is as
 * before.
 */
int ts_baseline_store(const struct ts_baseline_of *of, const struct ts_ledger *ledger,
	const struct ts_mail_table *nodes);

#endif
