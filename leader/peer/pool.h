/* SPDX-License-Identifier: MIT */
/*
 * All servers of a cluster: which one has a key, its connection, and whether it is asked.
 *
 * A server:
 *
 *	AWAY  its address is not known (leader/peer/resolve.h)
 *	IDLE  no connection; the next request begins one
 *	OPEN  a connection is there, or is being made
 *	SHUT  it has refused our tokens, or we its certificate; for a while, or until another
 *	      secret comes
 *
 *	AWAY -> IDLE  ts_pool_set_address()
 *	IDLE -> OPEN  ts_pool_submit(), if the breaker (leader/peer/breaker.h) allows it
 *	OPEN -> IDLE  the connection broke
 *	OPEN -> SHUT  it broke with EACCES, and there is no other token to try
 *	SHUT -> IDLE  TS_POOL_SHUT_NS later, or ts_pool_set_secrets()
 *
 * Two things are failures of a server: a broken connection, and a request without an answer at
 * its deadline.  A miss is none.  Where two secrets are valid, a server that refuses the
 * newest one's token is asked once more, with the other one's, and nobody notices.
 *
 * Nothing blocks.  Requests end in ts_pool_step() and ts_pool_flush(), never in
 * ts_pool_submit().
 */
#ifndef TS_LEADER_PEER_POOL_H
#define TS_LEADER_PEER_POOL_H

#include "leader/peer/cluster.h"
#include "leader/peer/meta.h"
#include "leader/peer/secret.h"

#include <poll.h>

struct sockaddr;
struct ts_pool;

/* A connection that is not open by then is broken. */
#define TS_POOL_OPEN_NS UINT64_C(1000000000)
#define TS_POOL_SHUT_NS UINT64_C(30000000000)

/* Of the breaker: the first pause, and the longest one. */
#define TS_POOL_PAUSE_NS     UINT64_C(100000000)
#define TS_POOL_PAUSE_MAX_NS UINT64_C(30000000000)

/* Under which a server has the token. */
#define TS_POOL_USER "job"

/** A request; its owner's again when .done is called, which may submit others. */
struct ts_pool_request {
	struct ts_meta_request meta; /* .done and .context are the pool's */
	void (*done)(struct ts_pool_request *request);
	void *context;

	uint32_t server; /* which was asked, or would have been */

	/* The pool's. */
	struct ts_pool *pool;
	struct ts_pool_request *next;
	uint32_t ticket;
	bool is_second; /* with the other token */
};

/** What the pool tells, and what a test gives it in the place of sockets. */
struct ts_pool_hooks {
	/** Server @server has a connection from now on; or has none, for @error (or 0). */
	void (*told)(void *context, uint32_t server, bool is_open, int error);
	void *context;

	/** NULL: ts_link_open(). */
	int (*open)(struct ts_link *link, const struct sockaddr *address,
		unsigned address_bytes, struct ssl_ctx_st *tls, const char *name);
};

/**
 * A pool of @count @servers, of which nothing is kept but what it copies.  @tls (NULL: none) is
 * the caller's and outlives it.  No server has an address yet.
 *
 * Threads: one at a time; so for all of them.  Errors: -EINVAL no server, or too many; -ENOMEM.
 */
int ts_pool_create(const struct ts_cluster_server *servers, uint32_t count,
	struct ssl_ctx_st *tls, const struct ts_pool_hooks *hooks, struct ts_pool **ret_pool);

/** What is on its way ends with -ECANCELED.  Accepts NULL. */
void ts_pool_destroy(struct ts_pool *pool);

/** Give servers the tokens of @secrets, which are copied; NULL: they want none. */
void ts_pool_set_secrets(struct ts_pool *pool, const struct ts_secrets *secrets);

/** Where server @server is. */
void ts_pool_set_address(struct ts_pool *pool, uint32_t server, const struct sockaddr *address,
	unsigned address_bytes);
bool ts_pool_has_address(const struct ts_pool *pool, uint32_t server);

/**
 * Send @request to the server that has its key.  It is sent by ts_pool_flush() or
 * ts_pool_step(), and lives until it is done.
 *
 * Errors, with which it was not taken, but .server is set: -EAGAIN the breaker is open;
 * -EACCES it is SHUT; -EADDRNOTAVAIL it is AWAY; -ETIMEDOUT the deadline is over; -ECANCELED
 * the pool is being destroyed; those of connect(2) and of ts_meta_submit().
 */
int ts_pool_submit(struct ts_pool *pool, struct ts_pool_request *request);

/**
 * Which server has @key: of all, the one whose number made of its name and the key is the
 * largest (rendezvous hashing).  So a server that comes or goes moves the keys that it gets or
 * had and no others, and its place in the list is of no matter.  Of one with weight N the
 * largest of N numbers counts.  Servers that have gone stay: their keys are read from storage
 * until the list of nodes is another one.
 */
uint32_t ts_pool_server(const struct ts_pool *pool, const char *key);

/**
 * Whether the server that has @key has @most requests on their way already, and is not the only
 * one: others are not to wait for it.
 */
bool ts_pool_is_busy(struct ts_pool *pool, const char *key, uint32_t most);

/**
 * Whether one request is on its way to the server that has @key, by which it is judged: another
 * one would be refused now with -EAGAIN, and perhaps not when that is answered.
 */
bool ts_pool_is_probed(struct ts_pool *pool, const char *key);

/** Send what was submitted, without looking for answers. */
void ts_pool_flush(struct ts_pool *pool);

/** What to poll(2) for: as many of @fds as there are connections; returns how many. */
uint32_t ts_pool_events(struct ts_pool *pool, struct pollfd fds[TS_CLUSTER_SERVERS]);

/** Get on with what poll(2) has found in the @count @fds of ts_pool_events(). */
void ts_pool_step(struct ts_pool *pool, const struct pollfd *fds, uint32_t count);

/** How long to wait for something that has @ns: so long, and longer in tests that say so. */
uint64_t ts_pool_patience(uint64_t ns);

/** When ts_pool_step() must be called whatever comes; UINT64_MAX: never. */
uint64_t ts_pool_deadline(const struct ts_pool *pool);

#endif
