/* SPDX-License-Identifier: MIT */
/*
 * The secret that the nodes of one user share, and what is derived from it.
 *
 * A file of one or two lines, each of 64 hexadecimal digits; the first line is the newest.  Two
 * are valid at once, so that a secret is exchanged in three steps, none of which has to happen
 * on all nodes in one moment: the new one goes below the old one everywhere, then above it,
 * then the old one is taken out.  The file is the user's own, regular, no link, and nobody else
 * may read or write it.
 *
 * Nothing uses the secret itself.  Each use has a key of its own, HMAC-SHA-256 of the secret
 * over the name of the use: a server knows the token it was given, and can make no value with
 * it.
 */
#ifndef TS_LEADER_PEER_SECRET_H
#define TS_LEADER_PEER_SECRET_H

#include "shim/base.h"

#define TS_SECRET_BYTES 32
#define TS_SECRETS_MAX  2

/* Hexadecimal digits and a NUL. */
#define TS_SECRET_TOKEN 65

struct ts_secrets {
	uint32_t count; /* the first one is the newest */
	struct {
		uint32_t id; /* what a value says of which secret it was made with; no secret */
		unsigned char value[TS_SECRET_BYTES]; /* key of stored values */
		char token[TS_SECRET_TOKEN];          /* what a server asks for */
	} keys[TS_SECRETS_MAX];
};

/**
 * Read the file at @path.  On failure *ret_secrets is all zeros.  The caller ends it with
 * ts_secrets_finish().
 *
 * Threads: any.  Errors: those of open(2), -ELOOP a link; -EPERM the file is another user's, or
 * others may read or write it; -EINVAL it is no regular file, or does not have these lines;
 * -ENOTSUP libcrypto has no SHA-256.
 */
int ts_secrets_read(const char *path, struct ts_secrets *ret_secrets);

/** The same from @bytes of a file's text, NUL-terminated, which are not kept. */
int ts_secrets_parse(const char *text, size_t bytes, struct ts_secrets *ret_secrets);

/** Leave nothing of them in memory. */
void ts_secrets_finish(struct ts_secrets *secrets);

#endif
