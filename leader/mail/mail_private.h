/* SPDX-License-Identifier: MIT */
/* What the two ways of asking have in common. */
#ifndef TS_LEADER_MAIL_MAIL_PRIVATE_H
#define TS_LEADER_MAIL_MAIL_PRIVATE_H

#include "leader/mail/mail.h"

/* A waiter looks so often whether the helper lives. */
#define TS_MAIL_LOOK_NS UINT64_C(20000000)

/**
 * A slot with @request in it, which is not posted yet.  Threads: any; async-signal-safe.
 * Errors: -EBUSY all of its kind are taken; counted.
 */
int ts_mail_begin(
	struct ts_mail *mail, const struct ts_mail_request *request, uint32_t *ret_index);

/** Post what is in @slot, which is the caller's, and ring for a helper that sleeps. */
void ts_mail_send(struct ts_mail *mail, struct ts_mail_slot *slot);

/** Post slot @index, which has WON, once more: as @kind. */
void ts_mail_send_again(struct ts_mail *mail, uint32_t index, enum ts_mail_kind kind);

/** End the use of @slot, whose answer is not looked at any more. */
void ts_mail_free(struct ts_mail_slot *slot);

/** Whether the helper is gone, which is noted for all.  Some 10 us. */
bool ts_mail_is_gone(struct ts_mail_table *table);

/** Nobody is asked for a while by anybody: the helper is stopped, or far too slow. */
void ts_mail_pause(struct ts_mail_table *table);

/**
 * There is no use in waiting.  Errors: -EAGAIN nobody had begun; -ETIME somebody had, or the
 * slot is damaged; 0: it is answered after all, and the slot is the caller's still.
 */
int ts_mail_leave(struct ts_mail_table *table, struct ts_mail_slot *slot);

#endif
