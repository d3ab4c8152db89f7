/* SPDX-License-Identifier: MIT */
/*
 * The process of a node that asks other nodes for values and hands values to them, for all
 * jobs of a group: one for each group, started by whoever needs it and finds none
 * (leader/mail/mail.h).
 *
 * It is a member of the group, as a stager is, and no job: it ends when the last job has gone.
 * It ends as well, and the next one begins, when the directory of the cluster, its list or a
 * certificate is no longer what it was; a new secret it takes up and goes on.
 *
 * What it holds in memory is a user's secret and a private key: a core of it has no memory in
 * it, whoever would write that.
 */
#ifndef TS_LEADER_PEER_PEER_H
#define TS_LEADER_PEER_PEER_H

#include "shim/base.h"

/* A list may get longer. */
#define TS_PEER_ALONE_NS UINT64_C(60000000000)

struct ts_peer_task {
	const char *group;
	uint64_t ring_bytes;   /* for the case that the group has no ring any more */
	const char *directory; /* of the cluster; absolute */
	uint64_t stage_bytes;  /* room for copies of files */
};

/**
 * Be that process: returns when no job is left, or it cannot go on.  For a process that does
 * nothing else.  Errors: -EAGAIN there is one; -ESTALE the cluster is another one now; those of
 * ts_store_attach(), ts_mail_attach(), ts_stage_attach_existing(), ts_cluster_read(),
 * ts_secrets_read(), ts_link_tls_create(); -ENONET the list has no other node, and nobody asks
 * for TS_PEER_ALONE_NS.  But for the first they are noted in the table.
 */
int ts_peer_run(const struct ts_peer_task *task);

#endif
