/* SPDX-License-Identifier: MIT */
/*
 * Who may still use a group of other namespaces: what can be said of processes whose ids are
 * not ours.
 *
 * Objects of other namespaces lie beside ours and are in nobody's way, but take up memory.
 * Removing one is unlinking it, under the same lock as everybody's (leader/group/attach.h): who
 * has it mapped goes on with it, who is about to join finds that the name has gone and makes
 * another. So a wrong verdict costs a job its counters and a warm ring, never a byte.
 *
 * - A lock byte belongs to the file, whatever namespace its holder is in.  Members of a ring
 * hold one as long as they live; so an object with a lock is in use, whatever its header says
 *   (containers may be shown a boot id of their own).
 * - Without any lock there is no member.  Processes of another boot are all gone.
 * - What is left are jobs whose workers, the members, have ended and will be started again.  If
 *   their process ids are ours (other user namespace, same PID namespace), they are looked up;
 *   a job that has said that it is leaving is gone.  Any other may live: then the group stays
 * until nobody has joined it for TS_FOREIGN_IDLE_S, which the time of the ledger's last write
 * tells.
 */
#ifndef TS_TSRUN_FOREIGN_H
#define TS_TSRUN_FOREIGN_H

#include "shim/base.h"

/* Longer than any pause between two epochs. */
#define TS_FOREIGN_IDLE_S 3600

/**
 * Why a group of other namespaces must stay, or NULL.  @book is its ledger, byte 0 of which the
 * caller has locked, @ring its ring; -1 for one that is not there.
 */
const char *ts_foreign_keep(int book, int ring);

/** Why a half-made object behind @fd must stay, or NULL. */
const char *ts_foreign_keep_private(int fd);

#endif
