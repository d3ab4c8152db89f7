/* SPDX-License-Identifier: MIT */
/*
 * Asking other nodes for a sample that is claimed here (--across nodes).  Errands use the slots
 * of the table of leader/mail/mail.h that have a place.
 *
 *	NONE   nothing is asked for, or all that was has ended
 *	ASKED  an answer is due, or is GOT and not used yet
 *	WON    no node has it: it is made here, for all of them
 *
 *	NONE -> ASKED   ts_errand_ask()
 *	ASKED -> WON    ts_errand_look() says so
 *	ASKED -> NONE   it says anything else but GOT; with that ts_errand_end(), or
 *	                ts_errand_refuse() for what is not what was asked for
 *	WON -> NONE     ts_errand_made()
 *	any -> NONE     ts_errand_drop()
 *
 * The key of the ring is the name on all nodes, so nothing of a node may be in it, nor in the
 * record.  A claim may pass to another process of the node meanwhile, which asks as well then.
 *
 * Threads: an errand has one owner at a time; the rest may be called from any.  Forks: an
 * errand of the parent's is not the child's to end, and nothing here does.  None is
 * async-signal-safe.  Allocates nothing, keeps errno.
 */
#ifndef TS_LEADER_MAIL_ERRAND_H
#define TS_LEADER_MAIL_ERRAND_H

#include "leader/mail/mail.h"

enum ts_errand_state { TS_ERRAND_NONE, TS_ERRAND_ASKED, TS_ERRAND_WON };

/** All zero to begin with. */
struct ts_errand {
	enum ts_errand_state state;
	uint32_t serial; /* ts_identity_serial() when it was asked */
	struct ts_mail *mail;
	uint32_t index;      /* of the slot, the errand's until it ends */
	uint64_t until_ns;   /* the helper has to have answered by then */
	uint64_t look_at_ns; /* whether the helper lives */
};

/** Whether the settings say that other nodes are asked.  Some nanoseconds. */
bool ts_errand_is_wanted(void);

/**
 * Where to ask for samples now; NULL: nowhere, as it does not pay lately, nobody would answer,
 * or another thread attaches the table.  While there is somewhere, what is claimed is also made
 * for other nodes.  The process's, for good; a fork child has its parent's.  Starts the helper
 * where there is none; waits for it once in a process, a quarter of a second at most.  With
 * NULL why comes in @ret_reason, one of TS_REASON_ACROSS_*.
 */
struct ts_mail *ts_errand_open(struct ts_store *store, enum ts_reason *ret_reason);

/**
 * Ask at @mail for the sample @key, which is claimed; waits for nothing.  Errors, nothing is
 * asked for then: -EAGAIN it does not pay, or nobody would answer; -EBUSY too many ask.  Which
 * of TS_REASON_ACROSS_* that is comes in @ret_reason.
 */
int ts_errand_ask(struct ts_errand *errand, struct ts_mail *mail, const struct ts_key *key,
	enum ts_reason *ret_reason);

/**
 * What the answer is, an enum ts_mail_answer; waits for it @wait_ns at most.  With GOT the
 * record is at ts_errand_found(), with WON it is to be made; any other answer has ended the
 * errand.  Errors, the errand has ended but for the first: -EINPROGRESS there is none yet;
 * -EAGAIN, -ETIME as for ts_mail_ask().
 */
int ts_errand_look(struct ts_errand *errand, uint64_t wait_ns);

/** What has come with GOT, and the bytes of the record behind it; until the errand ends. */
const struct ts_mail_sample *ts_errand_found(
	const struct ts_errand *errand, uint64_t *ret_bytes);

/** What has come with GOT is used no more; @is_good: it was what was wanted. */
void ts_errand_end(struct ts_errand *errand, bool is_good);

/** What has come with GOT is not what was asked for: who asks next makes it, for all. */
void ts_errand_refuse(struct ts_errand *errand);

/**
 * The record was published, or somebody else's was: where it was WON, hand it over.  It took
 * @made_ns to make.
 */
void ts_errand_made(struct ts_errand *errand, uint64_t made_ns);

/** End what is asked for; what was WON is not there, and may be made by whoever asks next. */
void ts_errand_drop(struct ts_errand *errand);

#endif
