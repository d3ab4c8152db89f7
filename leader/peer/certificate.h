/* SPDX-License-Identifier: MIT */
/*
 * The one certificate of a user's cluster: self-signed, its own authority, with all hosts of
 * the list as names.  Servers show it, clients show it, and both trust nothing else; so who has
 * its key is one of us.
 */
#ifndef TS_LEADER_PEER_CERTIFICATE_H
#define TS_LEADER_PEER_CERTIFICATE_H

#include "leader/peer/cluster.h"

/* Longest text of a certificate: some 350 bytes for each of the longest names. */
#define TS_CERTIFICATE_MAX (512u << 10)

/**
 * A new key on the curve P-256, as text in PEM.  The caller frees *ret_text, which is a secret,
 * with ts_certificate_free().  Errors: -ENOTSUP libcrypto does not do it.
 */
int ts_certificate_make_key(char **ret_text, size_t *ret_bytes);

/**
 * A certificate for the hosts of @nodes with the key that is in the @bytes at @key, as text in
 * PEM, to be freed as above.  It holds from yesterday for ten years.
 * Errors: -EINVAL no key; -ENOTSUP libcrypto does not do it.
 */
int ts_certificate_make(const struct ts_cluster_nodes *nodes, const char *key, size_t bytes,
	char **ret_text, size_t *ret_bytes);

/**
 * Whether @text is a certificate of @key that holds now and is for all hosts of @nodes.
 */
bool ts_certificate_fits(const struct ts_cluster_nodes *nodes, const char *key,
	size_t key_bytes, const char *text, size_t bytes);

/** A name for the certificate of these hosts and that key: 16 digits.  Errors: as above. */
int ts_certificate_name(
	const struct ts_cluster_nodes *nodes, const char *key, size_t bytes, char ret_name[17]);

/** Free @bytes of text and leave nothing of them in memory. */
void ts_certificate_free(char *text, size_t bytes);

#endif
