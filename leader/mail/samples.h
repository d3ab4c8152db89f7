/* SPDX-License-Identifier: MIT */
/*
 * Asking other nodes for samples, several at a time, and whether to: what threads of jobs do
 * with those slots of the table of leader/mail/mail.h that have a place.  Hooks do it by
 * leader/mail/errand.h.
 */
#ifndef TS_LEADER_MAIL_SAMPLES_H
#define TS_LEADER_MAIL_SAMPLES_H

#include "leader/mail/mail.h"

#define TS_MAIL_WINDOW UINT64_C(64)

/*
 * CPU time that it costs to hand a record over and to get it once, on both nodes and with TLS:
 * 3.1 to 3.8 ms for 549 KiB.  What is decoded at full size without passes costs a third of it.
 */
#define TS_MAIL_MOVE_NS_PER_KIB UINT64_C(6000)
#define TS_MAIL_OFF_NS          UINT64_C(30000000000)

/*
 * While no node takes what is handed over, one in so many of those that are made is asked for
 * all the same: two of the 32 that another node hands over for a trial.  A question that finds
 * nothing costs 0.08 ms of CPU time, of job, helper and server together and with TLS (0.07
 * without; 20,000 of them at a memcached 1.6): less than 1 % of samples that take 0.5 ms or
 * more.  For the sake of those that take less, two are at least so far apart, which is less
 * than 1 % of one core, and who makes samples uses one.
 */
#define TS_MAIL_TRY_ONE_IN UINT64_C(16)
#define TS_MAIL_TRY_NS     UINT64_C(20000000)

/*
 * At first, and at most: of nodes that are all off the one in front is found by its next trial
 * only, whose 32 samples cost a tenth of a second of CPU time, of one core in that time 0.1 %.
 */
#define TS_MAIL_UNUSED_NS     UINT64_C(30000000000)
#define TS_MAIL_UNUSED_MAX_NS UINT64_C(120000000000)

/**
 * A SAMPLE or SAMPLE_FIND that was asked for.  Its slot is the caller's until one of the last
 * four ends it.
 */
struct ts_mail_errand {
	uint32_t index;
	enum ts_kind kind;
	uint64_t until_ns;   /* the helper has to have answered by then */
	uint64_t look_at_ns; /* whether it lives */
};

/**
 * Whether records of @kind, which is TS_KIND_SAMPLE or TS_KIND_PIXELS, are worth asking for: it
 * is not known that to get one takes longer than to make it.
 */
bool ts_mail_pays(struct ts_mail *mail, enum ts_kind kind);

/** Whether they are of use: it is not known that no node takes what is handed over. */
bool ts_mail_is_used(struct ts_mail *mail);

/**
 * Whether one that is about to be made is asked for though they are of no use: now and then, of
 * all that jobs of the group make (TS_MAIL_TRY_ONE_IN).  To be called once for each.
 */
bool ts_mail_may_try(struct ts_mail *mail);

/**
 * Ask for the record @name of @kind; with @wins also for the right to make it, where no node
 * has it.  Threads, forks and cost as for ts_mail_ask(), but it waits for nothing.  Errors:
 * -EBUSY no slot.
 */
int ts_mail_post(struct ts_mail *mail, enum ts_kind kind, const struct ts_hash128 *name,
	bool wins, struct ts_mail_errand *ret_errand);

/**
 * What the answer is, waiting for it @wait_ns at most.  With GOT the record is at
 * ts_mail_found(), with WON it is to be made; any other answer has ended the errand.  Errors,
 * the errand has ended but for the first: -EINPROGRESS there is none yet; -EAGAIN, -ETIME as
 * for ts_mail_ask().
 */
int ts_mail_look(struct ts_mail *mail, struct ts_mail_errand *errand, uint64_t wait_ns);

/** What has come with GOT, until the errand ends; behind it @ret_bytes of a record. */
const struct ts_mail_sample *ts_mail_found(
	struct ts_mail *mail, const struct ts_mail_errand *errand, uint64_t *ret_bytes);

/** What has come with GOT is used no more; @is_good: it was what was wanted. */
void ts_mail_end(struct ts_mail *mail, struct ts_mail_errand *errand, bool is_good);

/**
 * What was WON is in the ring under its name, has @bytes, and took @made_ns; or will not be
 * there.
 */
void ts_mail_hand_over(
	struct ts_mail *mail, struct ts_mail_errand *errand, uint64_t bytes, uint64_t made_ns);
void ts_mail_give_back(struct ts_mail *mail, struct ts_mail_errand *errand);

/** It is not waited for any more, whatever has come of it. */
void ts_mail_abandon(struct ts_mail *mail, struct ts_mail_errand *errand);

#endif
