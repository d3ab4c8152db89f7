/* SPDX-License-Identifier: MIT */
/* Answering requests: what the helper does with the table of leader/mail/mail.h. */
#include "leader/mail/mail.h"

#include "leader/object/killpoint.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/log.h"
#include "shim/sys.h"

#include <errno.h>
#include <fcntl.h>

static void free_slot(struct ts_mail_slot *slot, uint64_t owner)
{
	ts_write_release(&slot->state, TS_MAIL_FREE); /* M4 */
	/* Who has left may be anybody's next owner only from here on. */
	(void)ts_cas(&slot->owner, &owner, 0);
}

/* ---- one at a time ---------------------------------------------------------------------- */

/* What an earlier helper was at when it died. */
static void take_over(struct ts_mail *mail)
{
	for (uint32_t i = 0; i < TS_MAIL_SLOTS; i++) {
		uint32_t state = ts_load_acquire(&mail->table->slots[i].state);
		if (state == TS_MAIL_TAKEN || state == TS_MAIL_LEFT)
			(void)ts_mail_answer(mail, i, TS_MAIL_SAYS_FAILED);
	}
}

int ts_mail_enter(struct ts_mail *mail, int fd, uint64_t id)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
	int r = ts_sys_fcntl(fd, F_OFD_SETLK, &lock);

	if (r < 0)
		return r == -EACCES ? -EAGAIN : r;
	take_over(mail);
	ts_write_relaxed(&mail->table->asleep, 0);
	ts_write_relaxed(&mail->table->error, 0);
	ts_write_release(&mail->table->helper, id);
	return 0;
}

void ts_mail_resign(struct ts_mail *mail, int error)
{
	ts_write_relaxed(&mail->table->error, (uint64_t)-error);
	ts_write_release(&mail->table->helper, 0);
}

void ts_mail_close(struct ts_mail *mail, uint64_t ns)
{
	ts_write_relaxed(&mail->table->ask_at, ts_now_ns() + ns);
}

/* ---- requests --------------------------------------------------------------------------- */

int ts_mail_take(struct ts_mail *mail, uint32_t from, uint32_t *ret_index,
	struct ts_mail_request *ret_request)
{
	for (uint32_t i = 0; i < TS_MAIL_SLOTS; i++) {
		uint32_t index = (from + i) % TS_MAIL_SLOTS, posted = TS_MAIL_POSTED;
		struct ts_mail_slot *slot = &mail->table->slots[index];
		if (ts_load_relaxed(&slot->state) != TS_MAIL_POSTED ||
			!ts_cas(&slot->state, &posted, TS_MAIL_TAKEN)) /* M2 */
			continue;
		*ret_index = index;
		*ret_request = slot->request;
		return 0;
	}
	return -ENOENT;
}

bool ts_mail_is_wanted(struct ts_mail *mail, uint32_t index)
{
	return ts_load_acquire(&mail->table->slots[index % TS_MAIL_SLOTS].state) ==
	       TS_MAIL_TAKEN;
}

void ts_mail_set_found(struct ts_mail *mail, uint32_t index, uint64_t bytes, uint64_t took_ns)
{
	struct ts_mail_slot *slot = &mail->table->slots[index % TS_MAIL_SLOTS];

	ts_write_relaxed(&slot->bytes, bytes);
	ts_write_relaxed(&slot->took_ns, took_ns);
}

void ts_mail_set_place(struct ts_mail *mail, uint32_t index, uint64_t place)
{
	mail->table->slots[index % TS_MAIL_SLOTS].request.place = place;
}

bool ts_mail_answer(struct ts_mail *mail, uint32_t index, enum ts_mail_answer answer)
{
	struct ts_mail_slot *slot = &mail->table->slots[index % TS_MAIL_SLOTS];
	uint64_t owner = ts_load_relaxed(&slot->owner);
	uint32_t taken = TS_MAIL_TAKEN;

	if (ts_mail_waits(slot->request.kind)) {
		ts_write_relaxed(&slot->answer, answer);
		if (ts_cas(&slot->state, &taken, TS_MAIL_ANSWERED)) { /* M3 */
			ts_sys_futex_wake(&slot->state);
			return true;
		}
	}
	free_slot(slot, owner);
	return false;
}

/* ---- the dead --------------------------------------------------------------------------- */

/* A slot whose owner is gone for good; the helper alone moves it now. */
static void bury(struct ts_mail *mail, struct ts_mail_slot *slot, uint64_t owner,
	void (*on_return)(void *context, const struct ts_mail_request *request), void *context)
{
	switch (ts_load_acquire(&slot->state)) {
	case TS_MAIL_FREE:
		break;
	case TS_MAIL_ANSWERED:
		if (ts_load_relaxed(&slot->answer) == TS_MAIL_SAYS_WON)
			on_return(context, &slot->request);
		break;
	case TS_MAIL_POSTED:
		if (!ts_mail_waits(slot->request.kind))
			return;
		break;
	default: /* being worked at */
		return;
	}
	free_slot(slot, owner);
}

void ts_mail_sweep(struct ts_mail *mail,
	void (*on_return)(void *context, const struct ts_mail_request *request), void *context)
{
	for (uint32_t i = 0; i < TS_MAIL_SLOTS; i++) {
		struct ts_mail_slot *slot = &mail->table->slots[i];
		uint64_t owner = ts_load_acquire(&slot->owner);
		if (owner != 0 && !ts_process_is_alive(owner))
			bury(mail, slot, owner, on_return, context);
	}
}

/* ---- sleeping --------------------------------------------------------------------------- */

bool ts_mail_sleep(struct ts_mail *mail)
{
	ts_write_relaxed(&mail->table->asleep, 1);
	ts_fence_full(); /* M5 */
	for (uint32_t i = 0; i < TS_MAIL_SLOTS; i++)
		if (ts_load_relaxed(&mail->table->slots[i].state) == TS_MAIL_POSTED) {
			ts_mail_wake(mail);
			return false;
		}
	return true;
}

void ts_mail_wake(struct ts_mail *mail)
{
	ts_write_relaxed(&mail->table->asleep, 0);
}
