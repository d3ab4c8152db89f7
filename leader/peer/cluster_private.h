/* SPDX-License-Identifier: MIT */
/*
 * Reading one file of a cluster (leader/peer/cluster.h): whether nobody else has written it,
 * and its lines.  Where that fails the reader's fault says where we are in it.  Threads: any,
 * each with a reader of its own.
 */
#ifndef TS_LEADER_PEER_CLUSTER_PRIVATE_H
#define TS_LEADER_PEER_CLUSTER_PRIVATE_H

#include "leader/peer/cluster.h"

#include <errno.h>
#include <sys/stat.h>

#define TS_CLUSTER_BLANKS " \t\r"

/** A file while it is read. */
struct ts_cluster_reader {
	struct ts_cluster_fault *fault;
	char *text, *next; /* of the line behind; the text is the caller's to free */
};

/** What is wrong in the line that is read; returns -EINVAL. */
static inline int ts_cluster_fail(struct ts_cluster_reader *reader, const char *text)
{
	reader->fault->text = text;
	return -EINVAL;
}

/** From here on it is the file @path that is at fault.  Errors: -ENAMETOOLONG. */
int ts_cluster_begin(struct ts_cluster_fault *fault, const char *path);

/**
 * Look at the file @path, which is of @type.  Errors: -EPERM of another user, or others may do
 * what is among the bits of @closed; -EINVAL of another type; those of open(2).
 */
int ts_cluster_check_file(
	const char *path, mode_t type, mode_t closed, struct ts_cluster_fault *fault);

/**
 * The text of a file of @max bytes at most that nobody else may write, or with @foreign of any.
 * Errors: as above; -EINVAL too long, or no text; -ENOMEM.
 */
int ts_cluster_read_file(
	const char *path, bool foreign, size_t max, struct ts_cluster_reader *reader);

/** The next line that says something, without blanks around it and comment; NULL: the end. */
char *ts_cluster_next_line(struct ts_cluster_reader *reader);

#endif
