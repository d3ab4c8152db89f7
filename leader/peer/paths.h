/* SPDX-License-Identifier: MIT */
/*
 * Where paths lead, between nodes: the requests BRING and NAME of the mailbox
 * (leader/mail/mail.h).  What is told of a path (leader/files/remote.h) is stored as
 * "n1:<32 digits of its name on all nodes>", for half of the time that it may be known for.
 *
 * A NAME is stored as it is found in the index of copies; nobody waits for it.
 *
 * A BRING:
 *
 *	ASKING    what is told of the path is asked for
 *	FETCHING  the bytes that it leads to are, as by a FETCH that wins nothing: its .part is
 *	          ours
 *	FOLLOWS   another BRING of this node is at the same path
 *
 *	ASKING -> FETCHING         something is told, and there is no copy here
 *	ASKING, FETCHING -> GOT    the copy is there, and the path is known in the index
 *	any -> NONE and the like   nothing is told, or it cannot be had: the job opens the path
 *	FOLLOWS -> as the other    the other one ended
 *
 * A helper that dies here leaves a .part as any maker of copies does.
 */
#ifndef TS_LEADER_PEER_PATHS_H
#define TS_LEADER_PEER_PATHS_H

#include "leader/files/stage.h"
#include "leader/mail/mail.h"
#include "leader/peer/pool.h"
#include "leader/peer/transfer.h"

struct ts_paths;

#define TS_PATHS TS_MAIL_SLOTS

/**
 * @mail, @pool, @stage and @transfers are the caller's and outlive it.  Threads: one at a time;
 * so for all of them.  Errors: -ENOMEM.
 */
int ts_paths_create(struct ts_mail *mail, struct ts_pool *pool, struct ts_stage *stage,
	struct ts_transfers *transfers, struct ts_paths **ret_paths);

/** The pool must be gone, or at rest.  Who still waits is told NONE.  Accepts NULL. */
void ts_paths_destroy(struct ts_paths *paths);

/** Whether another one can be taken. */
bool ts_paths_have_room(const struct ts_paths *paths);

/**
 * Begin what slot @index asks for, which is TAKEN: a BRING or a NAME.  It ends with
 * ts_mail_answer(), perhaps at once.  There must be room, also for a transfer.
 */
void ts_paths_begin(
	struct ts_paths *paths, uint32_t index, const struct ts_mail_request *request);

#endif
