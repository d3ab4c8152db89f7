/* SPDX-License-Identifier: MIT */
/*
 * Which server has a key: the continuum that libmemcached makes under KETAMA_WEIGHTED, so that
 * its clients and tools find what we store.
 *
 * A server has 160 points, more or fewer by its weight: four of each MD5 of "host:port-i".  As
 * there, "host-i" for port 11211.  A key belongs to the first point that is not below the first
 * four bytes of its MD5.  Servers that have gone stay in it: their keys are read from storage
 * until the list of nodes is another one.
 *
 * The shares are computed in single precision, as there, which may cost a server four points:
 * of equal weights too, at some numbers of servers.  Whoever adds or removes one then also
 * moves a few keys between others.
 */
#ifndef TS_LEADER_PEER_KETAMA_H
#define TS_LEADER_PEER_KETAMA_H

#include "shim/base.h"

#define TS_KETAMA_PORT    11211 /* memcached's own, which its libraries leave out of names */
#define TS_KETAMA_SERVERS 1024
#define TS_KETAMA_HOST    255 /* longest name */

struct ts_ketama_server {
	const char *host; /* as the list of nodes has it, which has to be the same on all */
	uint16_t port;
	uint32_t weight; /* at least 1 */
};

struct ts_ketama;

/**
 * Make the continuum of @count servers, in their order, of which nothing is kept.
 *
 * Threads: any; what is made is used by one at a time.  Errors: -EINVAL no server, too many, a
 * name or a weight that cannot be; -ENOMEM; -ENOTSUP libcrypto is forbidden to use MD5.
 */
int ts_ketama_create(
	const struct ts_ketama_server *servers, uint32_t count, struct ts_ketama **ret_ketama);
void ts_ketama_destroy(struct ts_ketama *ketama);

/** The number of the server that has the key.  Errors: -ENOTSUP as above. */
int ts_ketama_find(struct ts_ketama *ketama, const void *key, size_t bytes);

/** How many points server @number has. */
uint32_t ts_ketama_points(const struct ts_ketama *ketama, uint32_t number);

#endif
