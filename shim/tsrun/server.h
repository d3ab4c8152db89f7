/* SPDX-License-Identifier: MIT */
/*
 * The user's server on this node: where its files are, and whether it lives.
 *
 * They lie in a directory of this node and this user alone (0700): $XDG_RUNTIME_DIR/tsshim,
 * /run/user/UID/tsshim or /tmp/tsshim.UID, the first whose parent is there.  Their names have a
 * number made of the cluster's directory:
 *
 *	server.N.record   which process it is
 *	server.N.tokens   what it asks clients for; a secret
 *	server.N.ports    it writes this when it listens
 *	server.N.log      its messages
 *	server.N.lock     of the tsrun that changes any of it
 *	server.N.list     what was read of Slurm
 */
#ifndef TS_TSRUN_SERVER_H
#define TS_TSRUN_SERVER_H

#include "leader/peer/cluster.h"

#include <limits.h>

struct ts_server_files {
	char directory[PATH_MAX]; /* of the cluster, without links */
	char record[PATH_MAX], tokens[PATH_MAX], ports[PATH_MAX], log[PATH_MAX], lock[PATH_MAX],
		list[PATH_MAX];
};

struct ts_server_record {
	uint64_t process; /* ts_process_id() */
	char boot[64];    /* in which that number means something, */
	uint64_t pids;    /* in the PID namespace of this number; 0: not known */
	char directory[PATH_MAX];
	char host[256]; /* as the list has it */
	uint16_t port;
	uint64_t certificate; /* which one it began with; 0: without TLS */
	char nvme[PATH_MAX];  /* a file of its own, or "" */
};

/* Directories that the files may be in. */
#define TS_SERVER_PLACES 3u

/** The @number-th of them; false: it is not there, or somebody else's. */
bool ts_server_place(unsigned number, char ret_place[PATH_MAX]);

/** Name the files of the server with that number; .directory stays. Errors: -ENAMETOOLONG. */
int ts_server_name_files(const char *place, uint64_t number, struct ts_server_files *files);

/**
 * Where the files for the cluster @directory are: where a record of it is, else where one would
 * be made, and that directory is made.  Errors: -ENOENT no place for them; -ENAMETOOLONG.
 */
int ts_server_find_files(const char *directory, struct ts_server_files *ret_files);

/**
 * Be the only tsrun that changes them; wait some seconds for another.  Returns a descriptor
 * that ends it when it is closed.  Errors: -ETIMEDOUT; those of open(2).
 */
int ts_server_lock(const struct ts_server_files *files);

/** The same without waiting. Errors: -EAGAIN another one is at it; those of open(2). */
int ts_server_try_lock(const struct ts_server_files *files);

/** A number for the text of the file @path; 0: it cannot be read. */
uint64_t ts_server_number_file(const char *path);

/** Errors: -ENOENT there is none; -EINVAL it is damaged, or of another cluster. */
int ts_server_read_record(
	const struct ts_server_files *files, struct ts_server_record *ret_record);

/** The same of whichever cluster. */
int ts_server_read_any_record(
	const struct ts_server_files *files, struct ts_server_record *ret_record);

/** .directory and .boot are filled in; the PID namespace is ours. Errors: of open(2), write(2),
 * rename(2). */
int ts_server_write_record(
	const struct ts_server_files *files, struct ts_server_record *record);

/**
 * Whether the process of @record lives and is the server that we started: same boot, same start
 * time, this user's, a memcached that was given our file of tokens.
 */
bool ts_server_is_alive(
	const struct ts_server_files *files, const struct ts_server_record *record);

/**
 * The record of the server of the cluster @directory that was started here and lives; false:
 * there is none.  Changes nothing.
 */
bool ts_server_find_running(const char *directory, struct ts_server_record *ret_record);

/** The number of the server of @record in the list, or -1. */
int ts_server_index(const struct ts_cluster *cluster, const struct ts_server_record *record);

/**
 * Whether its process is certainly gone: of an earlier boot, or of our PID namespace and not
 * alive.  Of another namespace's nothing is known.
 */
bool ts_server_is_gone(
	const struct ts_server_files *files, const struct ts_server_record *record);

/**
 * End it and wait until it is gone: SIGTERM, after some seconds SIGKILL.  A process that has
 * its number meanwhile is left alone.  Errors: -ETIMEDOUT; those of kill(2).
 */
int ts_server_end(const struct ts_server_files *files, const struct ts_server_record *record);

/** Have it read its tokens again, without losing what it has. */
void ts_server_renew(
	const struct ts_server_files *files, const struct ts_server_record *record);

/** Remove what it leaves; @record NULL: what is known by name.  The lock stays. */
void ts_server_clear(
	const struct ts_server_files *files, const struct ts_server_record *record);

/** The same, and the lock, which the caller has. */
void ts_server_remove_files(
	const struct ts_server_files *files, const struct ts_server_record *record);

/* ---- starting memcached ------------------------------------------------------------------ */

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
