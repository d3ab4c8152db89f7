/* SPDX-License-Identifier: MIT */
/* Makes what is missing in the directory of a cluster. */
#ifndef TS_LEADER_PEER_MAKE_H
#define TS_LEADER_PEER_MAKE_H

#include "leader/peer/cluster.h"

/**
 * Make the directory @directory of leader/peer/cluster.h for @nodes, and in it what is missing:
 * secret, key, certificate, list.  A certificate that is not for all of these hosts, and
 * another list, are replaced; secret and key never.  Without @tls it says so in cluster.conf.
 *
 * Any number of nodes may do this at once with one list, and find the same afterwards.
 *
 * Threads: any.  Errors: -EEXIST without @tls, and the cluster there has it; those of
 * ts_cluster_read(), open(2), link(2) and mkdir(2); -ENOTSUP libcrypto does not do it.
 * *ret_fault says where, and is set on failure only.
 */
int ts_make_cluster(const char *directory, const struct ts_cluster_nodes *nodes, bool tls,
	struct ts_cluster_fault *ret_fault);

/**
 * Write what memcached reads of tokens (-Y) into @path: one line for each secret of @cluster.
 * Returns 1 when it was another one before, or none; 0 when it is what it was.
 * Errors: those of ts_secrets_read() and open(2).
 */
int ts_make_tokens(const struct ts_cluster *cluster, const char *path);

#endif
