/* SPDX-License-Identifier: MIT */
/* Whether asking other nodes pays: leader/peer/worth.h explains it. */
#include "leader/peer/worth.h"

#include "shim/atomic.h"
#include "shim/sys.h"

static struct ts_mail_use *use_of(const struct ts_worth *worth)
{
	return &worth->mail->table->use;
}

void ts_worth_init(struct ts_worth *worth, struct ts_mail *mail)
{
	*worth = (struct ts_worth){.mail = mail, .pause_ns = TS_MAIL_OFF_NS};
}

/* Somebody has use for what others make. */
static void go_on(struct ts_worth *worth)
{
	worth->row = 0;
	worth->pause_ns = TS_MAIL_OFF_NS;
	ts_write_relaxed(&use_of(worth)->unused_until, 0);
}

/* ---- getting and making ----------------------------------------------------------------- */

void ts_worth_note_got(struct ts_worth *worth, uint64_t took_ns, uint64_t made_ns)
{
	struct ts_mail_flow *flow = &worth->mail->table->samples;

	go_on(worth);
	worth->took_ns += took_ns;
	worth->made_ns += ts_mail_patience(made_ns);
	if (++worth->got < TS_WORTH_WINDOW)
		return;
	if (worth->took_ns > worth->made_ns) {
		ts_write_relaxed(&flow->off_until, ts_now_ns() + TS_MAIL_OFF_NS);
		ts_add_relaxed(&flow->times_off, 1);
	}
	worth->got = 0;
	worth->took_ns = worth->made_ns = 0;
}

/* ---- storing ---------------------------------------------------------------------------- */

static void go_off(struct ts_worth *worth)
{
	uint64_t now = ts_now_ns(), pause = worth->pause_ns;
	uint64_t left = pause - (uint64_t)ts_real_ns() % pause;

	if (left < pause / 2)
		left += pause;
	ts_write_relaxed(&use_of(worth)->unused_until, now + left);
	ts_add_relaxed(&use_of(worth)->times_unused, 1);
	worth->pause_ns = ts_min_u64(2 * pause, TS_MAIL_UNUSED_MAX_NS);
	worth->off_ns = now;
	worth->row = 0;
}

void ts_worth_note_look(struct ts_worth *worth, uint64_t stored_ns, bool was_fetched)
{
	ts_add_relaxed(&use_of(worth)->looked, 1);
	if (was_fetched) {
		go_on(worth);
		return;
	}
	ts_add_relaxed(&use_of(worth)->unused, 1);
	if (stored_ns >= worth->off_ns && ++worth->row == TS_WORTH_ROW)
		go_off(worth);
}

void ts_worth_finish(struct ts_worth *worth)
{
	go_on(worth);
}
