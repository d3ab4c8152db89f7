/* SPDX-License-Identifier: MIT */
/* How memcached is started. */
#ifndef TS_TSRUN_MEMCACHED_H
#define TS_TSRUN_MEMCACHED_H

#include "leader/peer/cluster.h"
#include "shim/tsrun/server.h"

struct ts_memcached {
	char program[PATH_MAX];
	bool has_tls, has_tokens, has_store;          /* what it was compiled with */
	bool has_no_flush, has_no_dump, has_no_watch; /* -F, -X, -W */
};

/** What the server gets. */
struct ts_memcached_plan {
	const struct ts_cluster *cluster;
	const struct ts_server_files *files;
	const char *address; /* as text, of this node */
	uint16_t port;
	uint64_t memory_bytes;
	const char *nvme; /* a file that is there, or NULL */
	uint64_t nvme_bytes;
};

/**
 * Find memcached, and ask it what it can.  Errors: -ENOENT there is none; -ETIMEDOUT, -EPROTO
 * it does not say.
 */
int ts_memcached_find(struct ts_memcached *ret_memcached);

/**
 * Start it, in a session of its own, with its messages in the log and nothing in its
 * environment.  Returns its process, a child of ours.  Errors: those of open(2), fork(2).
 */
int ts_memcached_start(
	const struct ts_memcached *memcached, const struct ts_memcached_plan *plan);

/**
 * Wait until the child @pid listens.  Errors: -ECHILD it has ended, and its messages are in the
 * log; -ETIMEDOUT.
 */
int ts_memcached_wait(const struct ts_server_files *files, int pid);

/**
 * What a server may have here when nobody says: as copies of files in memory have
 * (leader/object/limits.h), and a quarter of the memory that is free.
 */
uint64_t ts_memcached_memory(uint64_t most);

#endif
