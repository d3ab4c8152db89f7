/* SPDX-License-Identifier: MIT */
/* Whether the directory of a cluster (leader/peer/cluster.h) is what it was. */
#ifndef TS_LEADER_PEER_WATCH_H
#define TS_LEADER_PEER_WATCH_H

#include "leader/peer/cluster.h"

#include <time.h>

#define TS_CLUSTER_WATCHED 6 /* the directory, and each file in it */

/** What tells one file of a name from another one; all zero: there is none. */
struct ts_cluster_stamp {
	uint64_t device, inode, bytes;
	struct timespec changed;
};

struct ts_cluster_watch {
	char paths[TS_CLUSTER_WATCHED][PATH_MAX];
	struct ts_cluster_stamp stamps[TS_CLUSTER_WATCHED];
	struct ts_cluster_stamp secret; /* as it was at the last look */
};

/** Remember what is in @directory, before it is read.  Errors: -ENAMETOOLONG. */
int ts_cluster_watch_init(struct ts_cluster_watch *watch, const char *directory);

/**
 * Look again: six times stat(2).  *ret_is_other_secret until the new one was taken up.
 * Errors: -ENOENT the directory has gone; -ESTALE it, or a file but the secret, is another one.
 */
int ts_cluster_watch_look(struct ts_cluster_watch *watch, bool *ret_is_other_secret);

/** The secret of the last look is in use. */
void ts_cluster_watch_took_secret(struct ts_cluster_watch *watch);

#endif
