/* SPDX-License-Identifier: MIT */
/* tsrun cluster: the user's memcached on this node, one of those that share between nodes. */
#ifndef TS_TSRUN_CLUSTER_H
#define TS_TSRUN_CLUSTER_H

#include "shim/tsrun/arguments.h"

/* What is to be done, as the command line and the environment say it. */
struct ts_cluster_order {
	const char *directory;
	const char *nodes;     /* a file, "auto", or NULL: as the directory has them */
	const char *self;      /* HOST or HOST:PORT, or NULL */
	uint64_t memory_bytes; /* 0: not said */
	const char *nvme;      /* PATH:SIZE, or NULL */
	bool plain;            /* --no-tls */
	bool json;
};

/**
 * Do what @arguments (of TS_MODE_CLUSTER) say.  Returns the status: 0; 1 `status` has found a
 * server that is not up; TS_EXIT_FAILED after a message.
 */
int ts_cluster_command(const struct ts_arguments *arguments);

/** The three commands.  Return values as above. */
int ts_cluster_up(const struct ts_cluster_order *order);
int ts_cluster_down(const struct ts_cluster_order *order);
int ts_cluster_status(const struct ts_cluster_order *order);

/** What a word of leader/peer/look.h means, for people; "" of another one. */
const char *ts_cluster_explain(const char *state);

#endif
