/* SPDX-License-Identifier: MIT */
/*
 * From names of hosts to addresses, without waiting for a resolver.
 *
 * Addresses need none and are there at once.  Names are looked up by a child process, one
 * after the other, which writes what it finds into a pipe that the loop polls; a server whose
 * name is not found meanwhile is none.  Names that were not found are looked up again
 * TS_RESOLVE_AGAIN_NS after the child's end.  Of several addresses of a name the first one is
 * taken, which the resolver has sorted (RFC 6724).  A name that was found is not looked up
 * again while the process lives.
 *
 * The child holds nothing of its parent's open but the pipe, for a lock would stay with it.
 */
#ifndef TS_LEADER_PEER_RESOLVE_H
#define TS_LEADER_PEER_RESOLVE_H

#include "leader/peer/pool.h"

#define TS_RESOLVE_AGAIN_NS UINT64_C(30000000000)

struct ts_resolver {
	struct ts_pool *pool;
	const struct ts_cluster_server *servers; /* those of the pool */
	uint32_t count;
	int fd;            /* to poll for POLLIN; -1: nothing is looked up */
	int child;         /* process id, while fd is there */
	uint64_t again_at; /* ts_now_ns() of the next try; UINT64_MAX: all have an address */
};

/** Give @pool the addresses that are known, and begin to look up the others. */
void ts_resolver_init(struct ts_resolver *resolver, struct ts_pool *pool,
	const struct ts_cluster_server *servers, uint32_t count);

/** End the child. */
void ts_resolver_finish(struct ts_resolver *resolver);

/** The pipe has something, or it is .again_at.  Never blocks. */
void ts_resolver_step(struct ts_resolver *resolver);

#endif
