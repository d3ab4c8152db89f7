/* SPDX-License-Identifier: MIT */
/* Which server of a list is to run on this node, and on which of its addresses. */
#ifndef TS_LEADER_PEER_SELF_H
#define TS_LEADER_PEER_SELF_H

#include "leader/peer/cluster.h"

#include <netinet/in.h>

struct ts_self {
	uint32_t number;                /* of the server in the list */
	char address[INET6_ADDRSTRLEN]; /* as text */
};

/**
 * Find it: the server whose host is an address of one of this node's interfaces, or a name that
 * has one.  @wanted, if not NULL, is its host, or HOST:PORT where there are several of that
 * host.
 *
 * Looking names up may take the resolver seconds each.  Threads: any.
 *
 * Errors: -ENOENT none of them is this node; -ENOTUNIQ several are; -EADDRNOTAVAIL the one that
 * was asked for has no address of this node; -ENOTCONN only one that other nodes cannot reach
 * (127.0.0.1); those of getifaddrs(3).  With -EADDRNOTAVAIL and -ENOTCONN ret_self->number says
 * which.
 */
int ts_self_find(
	const struct ts_cluster_nodes *nodes, const char *wanted, struct ts_self *ret_self);

#endif
