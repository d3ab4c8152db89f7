/* SPDX-License-Identifier: MIT */
/* In which state each server of a cluster is, asked once for `tsrun cluster` and doctor. */
#ifndef TS_LEADER_PEER_LOOK_H
#define TS_LEADER_PEER_LOOK_H

#include "leader/peer/cluster.h"

struct ssl_ctx_st;

/* (name, word in what is printed, text for people) */
#define TS_LOOKS(X)                                                                \
	X(UP, "up", "up")                                                          \
	X(REFUSED, "refused", "refuses our token: it has another secret")          \
	X(CERTIFICATE, "certificate", "has another certificate, or speaks no TLS") \
	X(SILENT, "silent", "does not answer")                                     \
	X(DOWN, "down", "no server there")                                         \
	X(UNREACHABLE, "unreachable", "the network does not reach it")             \
	X(UNKNOWN, "unknown", "the name has no address here")                      \
	X(STRANGE, "strange", "answers what no memcached answers")

enum ts_look_state {
#define ONE(name, word, text) TS_LOOK_##name,
	TS_LOOKS(ONE)
#undef ONE
};

struct ts_look {
	enum ts_look_state state;
	/* Of TS_LOOK_UP: bytes, and counts since it began. */
	uint64_t used, limit, items, hits, misses;
};

struct ts_look_asker {
	struct ssl_ctx_st *tls; /* NULL: none */
	const char *token;
	uint64_t within_ns; /* for each server, once its name has become an address */
};

/**
 * Ask the server at @host and @port, for as long as was said; looking the name up may take the
 * resolver some seconds more.
 *
 * Threads: any, of one asker many at once.
 */
void ts_look_at(const struct ts_look_asker *asker, const char *host, uint16_t port,
	struct ts_look *ret_look);

/**
 * Ask all of them, many at once.  @ret_looks has room for one each.
 * Errors: -EAGAIN no thread can be started.
 */
int ts_look_at_all(const struct ts_look_asker *asker, const struct ts_cluster_nodes *nodes,
	struct ts_look *ret_looks);

#endif
