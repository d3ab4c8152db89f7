/* SPDX-License-Identifier: MIT */
/*
 * The directory of a user's cluster, the same on all nodes, and its reader:
 *
 *	nodes         one server on each line, HOST:PORT [weight=N], in the same order on all
 *	              nodes; HOST is a name, an IPv4 address or an [IPv6 address]
 *	secret        leader/peer/secret.h
 *	cert.pem      one certificate for all of these hosts, self-signed, its own authority
 *	key.pem       its key
 *	cluster.conf  optional: tls = on|off, memory = SIZE, nvme = PATH:SIZE
 *
 * In nodes and cluster.conf # begins a comment.  The directory is its user's own and closed to
 * others (0700); so are secret and key.pem (0600), and nobody else may write the other files.
 * Only files are read here, with the C library: no secret, no key, no name of a host is looked
 * up.
 */
#ifndef TS_LEADER_PEER_CLUSTER_H
#define TS_LEADER_PEER_CLUSTER_H

#include "shim/base.h"

#include <limits.h>
#include <time.h>

#define TS_CLUSTER_SERVERS 1024
#define TS_CLUSTER_HOST    255 /* longest name */
#define TS_CLUSTER_WEIGHT  65535u

/* A host, brackets, a port and a NUL. */
#define TS_CLUSTER_NAME (TS_CLUSTER_HOST + 16)

/** Where a file has a fault, for people. */
struct ts_cluster_fault {
	char file[PATH_MAX];
	uint32_t line;    /* 0: the file as a whole */
	const char *text; /* static; "" where the error says it all */
};

struct ts_cluster_server {
	const char *host; /* as the list has it, which has to be the same on all nodes */
	uint16_t port;
	uint32_t weight; /* at least 1 */
};

/** A list of servers; the names lie in @text. */
struct ts_cluster_nodes {
	uint32_t count; /* at least 1 */
	struct ts_cluster_server *servers;
	char *text;
};

struct ts_cluster {
	struct ts_cluster_nodes nodes;
	bool tls;              /* off only where cluster.conf says so */
	uint64_t memory_bytes; /* of each server; 0: not said */
	uint64_t nvme_bytes;   /* 0: no file */
	char nvme[PATH_MAX];   /* of the file on each node */
	/* Names of the files; those of TLS are there only with @tls. */
	char secret[PATH_MAX], certificate[PATH_MAX], key[PATH_MAX];
};

/**
 * Read @directory.  Whose the files are and who else may use them is looked at, also of those
 * that are not read.  What is made is ended with ts_cluster_destroy().
 *
 * Threads: any.  Errors: -EPERM not the user's own, or open to others; -EINVAL a line that is
 * none, or no regular file; -ENOMEM; those of open(2): -ENOENT there is no such file, -ELOOP it
 * is a link.  *ret_fault says where, and is set on failure only.
 */
int ts_cluster_read(const char *directory, struct ts_cluster **ret_cluster,
	struct ts_cluster_fault *ret_fault);
void ts_cluster_destroy(struct ts_cluster *cluster);

/**
 * Read a list of servers that lies anywhere, and may be anybody's.  Errors: as above; the
 * caller ends what was made with ts_cluster_finish_nodes().
 */
int ts_cluster_read_nodes(const char *path, struct ts_cluster_nodes *ret_nodes,
	struct ts_cluster_fault *ret_fault);
void ts_cluster_finish_nodes(struct ts_cluster_nodes *nodes);

/**
 * Read cluster.conf in @directory alone, into *ret_cluster, of which nothing else is set; it
 * need not be there.  The directory is looked at as above.  Errors: as above.
 */
int ts_cluster_read_settings(const char *directory, struct ts_cluster *ret_cluster,
	struct ts_cluster_fault *ret_fault);

/**
 * The path of the file @name in @directory.  Errors: -ENAMETOOLONG.
 */
int ts_cluster_path(const char *directory, const char *name, char ret_path[PATH_MAX]);

/** "PATH:SIZE" of a file that values may lie in. Errors: -EINVAL it is none; nothing is set. */
int ts_cluster_parse_nvme(const char *value, char ret_path[PATH_MAX], uint64_t *ret_bytes);

/** HOST:PORT as a list has it, with brackets where they belong. */
void ts_cluster_name_server(
	const struct ts_cluster_server *server, char ret_name[TS_CLUSTER_NAME]);

/** Whether @host is an address, and no name. */
bool ts_cluster_is_address(const char *host);

/* Whether the directory is what it was. */
#define TS_CLUSTER_WATCHED 6 /* the directory, and each file in it */

/** What tells one file of a name from another one; all zero: there is none. */
struct ts_cluster_stamp {
	uint64_t device, inode, bytes;
	struct timespec changed;
};

struct ts_cluster_watch {
	char paths[TS_CLUSTER_WATCHED][PATH_MAX];
	struct ts_cluster_stamp stamps[TS_CLUSTER_WATCHED];
	struct ts_cluster_stamp secret; /* as it was at the last look */
};

/** Remember what is in @directory, before it is read.  Errors: -ENAMETOOLONG. */
int ts_cluster_watch_init(struct ts_cluster_watch *watch, const char *directory);

/**
 * Look again: six times stat(2).  *ret_is_other_secret until the new one was taken up.
 * Errors: -ENOENT the directory has gone; -ESTALE it, or a file but the secret, is another one.
 */
int ts_cluster_watch_look(struct ts_cluster_watch *watch, bool *ret_is_other_secret);

/** The secret of the last look is in use. */
void ts_cluster_watch_took_secret(struct ts_cluster_watch *watch);

#endif
