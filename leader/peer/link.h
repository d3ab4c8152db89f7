/* SPDX-License-Identifier: MIT */
/*
 * A stream of bytes to a peer that never blocks: a socket, TLS over one, or what a test makes
 * of it.  Connecting and the handshake happen inside the first reads and writes.
 *
 *	CONNECTING -> HANDSHAKE -> UP     without TLS straight to UP
 *
 * TLS is 1.2 or newer, and both sides are verified: the peer by a certificate of our authority
 * for the name or address that the list of nodes has, we by our own certificate.
 * What encrypts lives here and nowhere else; who uses it ignores SIGPIPE.
 */
#ifndef TS_LEADER_PEER_LINK_H
#define TS_LEADER_PEER_LINK_H

#include "shim/base.h"

struct sockaddr;
struct ssl_st;
struct ssl_ctx_st;
struct ts_link;

struct ts_link_ops {
	/** At least one byte; 0 the peer has closed. -EAGAIN: not now; others of recv(2). */
	int64_t (*read)(struct ts_link *link, void *to, size_t bytes);

	/**
	 * The same, and what comes behind those bytes to @behind: returns how many came in all.
	 * NULL: a link that cannot.
	 */
	int64_t (*read_both)(struct ts_link *link, void *to, size_t bytes, void *behind,
		size_t behind_bytes);

	/** At least one byte.  @more: others follow at once.  Errors: as above. */
	int64_t (*write)(struct ts_link *link, const void *from, size_t bytes, bool more);

	/**
	 * Sleep until reading, or with @to_write writing, may get on.  Errors: -ETIMEDOUT it is
	 * @until_ns of ts_now_ns().  May end early.
	 */
	int (*wait)(struct ts_link *link, bool to_write, uint64_t until_ns);
};

enum ts_link_state { TS_LINK_CONNECTING, TS_LINK_HANDSHAKE, TS_LINK_UP };

struct ts_link {
	const struct ts_link_ops *ops;
	enum ts_link_state state;
	int fd;
	short read_wants, write_wants; /* POLLIN or POLLOUT: what the last -EAGAIN waits for */
	struct ssl_st *ssl;            /* NULL: none */
};

/** What poll(2) has to look for, of a program that waits for many. */
short ts_link_events(const struct ts_link *link, bool to_write);

/**
 * Begin to connect to @address.  With @tls the peer has to be @name, a host's name or an
 * address as text.  The link must end with ts_link_close(), also after errors of its use.
 *
 * Errors: those of socket(2) and connect(2); -ENOMEM; -EINVAL a @name that cannot be.
 */
int ts_link_open(struct ts_link *link, const struct sockaddr *address, unsigned address_bytes,
	struct ssl_ctx_st *tls, const char *name);
void ts_link_close(struct ts_link *link);

/**
 * What TLS needs for all peers: the authority's certificate, our own one and its key, as files.
 * Errors: -ENOMEM; -EACCES one of the files cannot be used.
 */
int ts_link_tls_create(const char *authority, const char *certificate, const char *key,
	struct ssl_ctx_st **ret_tls);
void ts_link_tls_destroy(struct ssl_ctx_st *tls);

#endif
