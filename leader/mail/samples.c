/* SPDX-License-Identifier: MIT */
/* Asking for samples, several at a time: leader/mail/samples.h explains it. */
#include "leader/mail/samples.h"

#include "leader/mail/mail_private.h"
#include "leader/object/killpoint.h"
#include "shim/atomic.h"
#include "shim/sys.h"

#include <errno.h>

static struct ts_mail_slot *slot_of(struct ts_mail *mail, const struct ts_mail_errand *errand)
{
	return &mail->table->slots[errand->index % TS_MAIL_PLACES];
}

static void count(_Atomic uint64_t *counter)
{
	ts_add_relaxed(counter, 1);
}

/* ---- whether it pays -------------------------------------------------------------------- */

static struct ts_mail_flow *flow_of(struct ts_mail *mail, enum ts_kind kind)
{
	return kind == TS_KIND_PIXELS ? &mail->table->pictures : &mail->table->samples;
}

bool ts_mail_pays(struct ts_mail *mail, enum ts_kind kind)
{
	return ts_now_ns() >= ts_load_relaxed(&flow_of(mail, kind)->worth.off_until);
}

bool ts_mail_is_used(struct ts_mail *mail)
{
	return ts_now_ns() >= ts_load_relaxed(&mail->table->use.unused_until);
}

bool ts_mail_may_try(struct ts_mail *mail)
{
	struct ts_mail_use *use = &mail->table->use;
	uint64_t now = ts_now_ns(), at = ts_load_relaxed(&use->try_at);

	if (ts_mail_is_used(mail) ||
		(ts_add_relaxed(&use->try_count, 1) + 1) % TS_MAIL_TRY_ONE_IN != 0)
		return false;
	/* Of several at once one. */
	return now >= at && ts_cas(&use->try_at, &at, now + TS_MAIL_TRY_NS);
}

/* Several may judge at once, of a part of the window each: that is as good.  Who finds nothing
 * in one of the two says nothing. */
static void judge(struct ts_mail_flow *flow)
{
	struct ts_mail_worth *worth = &flow->worth;
	uint64_t took = ts_swap_relaxed(&worth->window_took_ns, 0);
	uint64_t made = ts_swap_relaxed(&worth->window_made_ns, 0);

	if (made == 0 || took <= ts_mail_patience(made))
		return;
	ts_write_relaxed(&worth->off_until, ts_now_ns() + TS_MAIL_OFF_NS);
	count(&flow->times_off);
}

/* One that came or was handed over. */
static void weigh(
	struct ts_mail *mail, enum ts_kind kind, uint64_t bytes, uint64_t took, uint64_t made)
{
	struct ts_mail_flow *flow = flow_of(mail, kind);
	struct ts_mail_worth *worth = &flow->worth;

	if (kind == TS_KIND_PIXELS)
		took = ts_max_u64(took, bytes / 1024 * TS_MAIL_MOVE_NS_PER_KIB);
	ts_add_relaxed(&worth->window_took_ns, took);
	ts_add_relaxed(&worth->window_made_ns, made);
	if ((ts_add_relaxed(&worth->window_got, 1) + 1) % TS_MAIL_WINDOW == 0)
		judge(flow);
}

static void learn(struct ts_mail *mail, const struct ts_mail_errand *errand)
{
	struct ts_mail_flow *flow = flow_of(mail, errand->kind);
	uint64_t bytes, took = ts_load_relaxed(&slot_of(mail, errand)->took_ns);
	uint64_t made = ts_mail_found(mail, errand, &bytes)->made_ns;

	count(&flow->got);
	ts_add_relaxed(&flow->took_ns, took);
	ts_add_relaxed(&flow->made_ns, made);
	weigh(mail, errand->kind, bytes, took, made);
}

/* ---- asking ----------------------------------------------------------------------------- */

int ts_mail_post(struct ts_mail *mail, enum ts_kind kind, const struct ts_hash128 *name,
	bool wins, struct ts_mail_errand *ret_errand)
{
	uint64_t now = ts_now_ns();
	const struct ts_mail_request request = {
		.kind = wins ? TS_MAIL_SAMPLE : TS_MAIL_SAMPLE_FIND,
		.name = *name,
		.until_ns = now + ts_mail_wait_ns()};
	uint32_t index;
	int r = ts_mail_begin(mail, &request, &index);

	if (r < 0)
		return r;
	*ret_errand = (struct ts_mail_errand){.index = index,
		.kind = kind,
		.until_ns = request.until_ns + TS_MAIL_SLACK_NS,
		.look_at_ns = now + TS_MAIL_LOOK_NS};
	count(&flow_of(mail, kind)->asked);
	if (!wins)
		count(&flow_of(mail, kind)->tried);
	ts_mail_send(mail, &mail->table->slots[index]);
	return 0;
}

/* Its time is over, or nobody is there who would answer.  As ts_mail_leave(); 0: go on. */
static int look_around(struct ts_mail *mail, struct ts_mail_errand *errand, uint64_t now)
{
	bool is_late = now >= errand->until_ns;

	if (is_late)
		ts_mail_pause(mail->table);
	else if (now < errand->look_at_ns)
		return 0;
	errand->look_at_ns = now + TS_MAIL_LOOK_NS;
	return is_late || ts_mail_is_gone(mail->table)
		       ? ts_mail_leave(mail->table, slot_of(mail, errand))
		       : 0;
}

/* What an answered errand says; any but two end it. */
static int take_answer(struct ts_mail_flow *flow, struct ts_mail_slot *slot)
{
	uint32_t answer = ts_load_relaxed(&slot->answer); /* behind M3 */

	TS_KILLPOINT(mail_answered);
	if (answer == TS_MAIL_SAYS_WON) {
		count(&flow->won);
	} else if (answer != TS_MAIL_SAYS_GOT) {
		count(&flow->alone);
		ts_mail_free(slot);
	}
	return answer < TS_MAIL_ANSWER_COUNT ? (int)answer : TS_MAIL_SAYS_FAILED;
}

int ts_mail_look(struct ts_mail *mail, struct ts_mail_errand *errand, uint64_t wait_ns)
{
	struct ts_mail_slot *slot = slot_of(mail, errand);
	uint32_t state = ts_load_acquire(&slot->state);
	uint64_t now = 0;

	if (state != TS_MAIL_ANSWERED && wait_ns > 0) {
		now = ts_now_ns();
		uint64_t until = ts_min_u64(errand->until_ns, now + wait_ns);
		if (until > now)
			ts_sys_futex_wait(&slot->state, state, until - now);
		state = ts_load_acquire(&slot->state);
	}
	if (state == TS_MAIL_ANSWERED)
		return take_answer(flow_of(mail, errand->kind), slot);
	int r = look_around(mail, errand, ts_now_ns());
	if (r < 0) {
		count(&flow_of(mail, errand->kind)->alone);
		return r;
	}
	return -EINPROGRESS;
}

const struct ts_mail_sample *ts_mail_found(
	struct ts_mail *mail, const struct ts_mail_errand *errand, uint64_t *ret_bytes)
{
	uint32_t index = errand->index % TS_MAIL_PLACES;

	*ret_bytes = ts_min_u64(ts_load_relaxed(&slot_of(mail, errand)->bytes),
		TS_MAIL_ROOM - sizeof(struct ts_mail_sample));
	return (const struct ts_mail_sample *)(mail->places + index * TS_MAIL_ROOM);
}

void ts_mail_end(struct ts_mail *mail, struct ts_mail_errand *errand, bool is_good)
{
	if (is_good)
		learn(mail, errand);
	else
		count(&flow_of(mail, errand->kind)->alone);
	ts_mail_free(slot_of(mail, errand));
}

void ts_mail_hand_over(
	struct ts_mail *mail, struct ts_mail_errand *errand, uint64_t bytes, uint64_t made_ns)
{
	if (errand->kind == TS_KIND_PIXELS)
		weigh(mail, errand->kind, bytes, 0, made_ns);
	slot_of(mail, errand)->request.made_ns = made_ns;
	count(&flow_of(mail, errand->kind)->stored);
	ts_mail_send_again(mail, errand->index, TS_MAIL_SAMPLE_STORE);
}

void ts_mail_give_back(struct ts_mail *mail, struct ts_mail_errand *errand)
{
	/* What was WON is counted already. */
	if (ts_load_relaxed(&slot_of(mail, errand)->answer) != TS_MAIL_SAYS_WON)
		count(&flow_of(mail, errand->kind)->alone);
	ts_mail_send_again(mail, errand->index, TS_MAIL_SAMPLE_RETURN);
}

void ts_mail_abandon(struct ts_mail *mail, struct ts_mail_errand *errand)
{
	struct ts_mail_flow *flow = flow_of(mail, errand->kind);
	struct ts_mail_slot *slot = slot_of(mail, errand);

	if (ts_load_acquire(&slot->state) != TS_MAIL_ANSWERED &&
		ts_mail_leave(mail->table, slot) < 0) {
		count(&flow->alone);
	} else if (ts_load_relaxed(&slot->answer) == TS_MAIL_SAYS_WON) {
		count(&flow->won);
		ts_mail_give_back(mail, errand);
	} else {
		count(&flow->alone);
		ts_mail_free(slot);
	}
}
