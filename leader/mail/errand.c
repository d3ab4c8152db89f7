/* SPDX-License-Identifier: MIT */
/* Asking other nodes for samples: leader/mail/errand.h explains it. */
#include "leader/mail/errand.h"

#include "leader/mail/mail_private.h"
#include "leader/object/killpoint.h"
#include "shim/atomic.h"
#include "shim/config.h"
#include "shim/helper.h"
#include "shim/identity.h"
#include "shim/reasons.h"
#include "shim/sys.h"

#include <errno.h>

/* For a helper that somebody has just started, in looks of: */
#define LOOKS   125
#define LOOK_NS UINT64_C(2000000)

/* ---- whether to ask --------------------------------------------------------------------- */

/* This process's, for good; a fork child has its parent's. */
static struct ts_mail mail;
static _Atomic uint32_t attaching; /* ts_identity_serial() + 1 of who does; 0: nobody */
static _Atomic int is_attached;

/* One thread attaches, the others do without meanwhile; what fails is tried again. */
static bool attach(struct ts_store *store)
{
	if (ts_load_acquire(&is_attached)) /* C1 */
		return true;
	/* A parent's thread that does is not in the child. */
	uint32_t mine = ts_identity_serial() + 1, found = ts_load_relaxed(&attaching);
	if (found == mine || !ts_cas(&attaching, &found, mine))
		return false;
	if (found != 0)
		mail.table = NULL; /* half written, for all we know */
	int r = mail.table ? 0 : ts_mail_attach(store, &mail);
	if (r == 0)
		r = ts_mail_attach_places(store, &mail);
	if (r == 0)
		ts_write_release(&is_attached, 1); /* C2: behind `mail`, pairs with C1 */
	ts_write_release(&attaching, 0);
	return r == 0;
}

static bool is_starting(void)
{
	return ts_load_relaxed(&mail.table->helper) == 0 &&
	       ts_load_relaxed(&mail.table->error) == 0 &&
	       ts_now_ns() < ts_load_relaxed(&mail.table->start_at);
}

/*
 * A program that is no Python does not know where helpers are, and asks where there is one: to
 * try in vain would keep others from starting it for a while.
 */
static bool is_served(struct ts_mail *at)
{
	return ts_mail_is_served(at, NULL, NULL) ||
	       (ts_helper_is_possible() && ts_mail_is_served(at, ts_mail_start, NULL));
}

/* What is made before it is there is made on all nodes. */
static bool await_helper(void)
{
	static _Atomic int has_waited;
	static const uint32_t nothing;
	int no = 0;

	if (is_served(&mail))
		return true;
	if (!is_starting() || !ts_cas(&has_waited, &no, 1))
		return false;
	for (uint64_t i = 0; i < ts_mail_patience(LOOKS) && is_starting(); i++)
		ts_sys_futex_wait(&nothing, nothing, LOOK_NS);
	return ts_mail_is_served(&mail, NULL, NULL);
}

bool ts_errand_is_wanted(void)
{
	const struct ts_config *config = ts_config();

	return config->across == TS_ACROSS_NODES && config->cluster && config->align &&
	       !config->disable;
}

/* Whether it is worth asking; where it is, what is not asked for has another reason. */
static bool pays(struct ts_mail *at, enum ts_reason *ret_reason)
{
	uint64_t now = ts_now_ns();
	bool is_slow = now < ts_load_relaxed(&at->table->samples.off_until);
	bool is_unused = now < ts_load_relaxed(&at->table->use.unused_until);

	*ret_reason = is_slow     ? TS_REASON_ACROSS_SLOW
		      : is_unused ? TS_REASON_ACROSS_UNUSED
				  : TS_REASON_ACROSS_ALONE;
	return !is_slow && !is_unused;
}

struct ts_mail *ts_errand_open(struct ts_store *store, enum ts_reason *ret_reason)
{
	*ret_reason = TS_REASON_ACROSS_ALONE;
	return attach(store) && pays(&mail, ret_reason) && await_helper() ? &mail : NULL;
}

/* ---- asking ----------------------------------------------------------------------------- */

static struct ts_mail_slot *slot_of(const struct ts_errand *errand)
{
	return &errand->mail->table->slots[errand->index % TS_MAIL_PLACES];
}

static struct ts_mail_flow *flow_of(const struct ts_errand *errand)
{
	return &errand->mail->table->samples;
}

static void count(_Atomic uint64_t *counter)
{
	ts_add_relaxed(counter, 1);
}

int ts_errand_ask(struct ts_errand *errand, struct ts_mail *at, const struct ts_key *key,
	enum ts_reason *ret_reason)
{
	uint64_t now = ts_now_ns();
	const struct ts_mail_request request = {.kind = TS_MAIL_SAMPLE,
		.name = {.lo = key->lo, .hi = key->hi},
		.until_ns = now + ts_mail_wait_ns()};
	uint32_t index;

	if (!pays(at, ret_reason) || !is_served(at))
		return -EAGAIN;
	int r = ts_mail_begin(at, &request, &index);
	if (r < 0)
		return r;
	*errand = (struct ts_errand){.state = TS_ERRAND_ASKED,
		.serial = ts_identity_serial(),
		.mail = at,
		.index = index,
		.until_ns = request.until_ns + TS_MAIL_SLACK_NS,
		.look_at_ns = now + TS_MAIL_LOOK_NS};
	count(&flow_of(errand)->asked);
	ts_mail_send(at, slot_of(errand));
	return 0;
}

/* Its time is over, or nobody is there who would answer.  As ts_mail_leave(); 0: go on. */
static int look_around(struct ts_errand *errand, uint64_t now)
{
	struct ts_mail_table *table = errand->mail->table;
	bool is_late = now >= errand->until_ns;

	if (is_late)
		ts_mail_pause(table);
	else if (now < errand->look_at_ns)
		return 0;
	errand->look_at_ns = now + TS_MAIL_LOOK_NS;
	return is_late || ts_mail_is_gone(table) ? ts_mail_leave(table, slot_of(errand)) : 0;
}

/* What an answered errand says; any but two end it. */
static int take_answer(struct ts_errand *errand)
{
	struct ts_mail_slot *slot = slot_of(errand);
	uint32_t answer = ts_load_relaxed(&slot->answer); /* behind M3 */

	TS_KILLPOINT(mail_answered);
	if (answer == TS_MAIL_SAYS_WON) {
		errand->state = TS_ERRAND_WON;
		count(&flow_of(errand)->won);
	} else if (answer != TS_MAIL_SAYS_GOT) {
		errand->state = TS_ERRAND_NONE;
		count(&flow_of(errand)->alone);
		ts_mail_free(slot);
	}
	return answer < TS_MAIL_ANSWER_COUNT ? (int)answer : TS_MAIL_SAYS_FAILED;
}

int ts_errand_look(struct ts_errand *errand, uint64_t wait_ns)
{
	struct ts_mail_slot *slot = slot_of(errand);
	uint32_t state = ts_load_acquire(&slot->state);

	if (state != TS_MAIL_ANSWERED && wait_ns > 0) {
		uint64_t now = ts_now_ns(), until = ts_min_u64(errand->until_ns, now + wait_ns);
		if (until > now)
			ts_sys_futex_wait(&slot->state, state, until - now);
		state = ts_load_acquire(&slot->state);
	}
	if (state == TS_MAIL_ANSWERED)
		return take_answer(errand);
	int r = look_around(errand, ts_now_ns());
	if (r == 0)
		return -EINPROGRESS;
	errand->state = TS_ERRAND_NONE;
	count(&flow_of(errand)->alone);
	return r;
}

const struct ts_mail_sample *ts_errand_found(
	const struct ts_errand *errand, uint64_t *ret_bytes)
{
	*ret_bytes = ts_min_u64(ts_load_relaxed(&slot_of(errand)->bytes),
		TS_MAIL_ROOM - sizeof(struct ts_mail_sample));
	return (const struct ts_mail_sample *)(errand->mail->places +
					       errand->index % TS_MAIL_PLACES * TS_MAIL_ROOM);
}

/* ---- the end ---------------------------------------------------------------------------- */

void ts_errand_end(struct ts_errand *errand, bool is_good)
{
	struct ts_mail_flow *flow = flow_of(errand);
	struct ts_mail_slot *slot = slot_of(errand);
	uint64_t bytes;

	if (is_good) {
		count(&flow->got);
		ts_add_relaxed(&flow->took_ns, ts_load_relaxed(&slot->took_ns));
		ts_add_relaxed(&flow->made_ns, ts_errand_found(errand, &bytes)->made_ns);
	} else {
		count(&flow->alone);
	}
	errand->state = TS_ERRAND_NONE;
	ts_mail_free(slot);
}

static void give_back(struct ts_errand *errand)
{
	/* What was WON is counted already. */
	if (ts_load_relaxed(&slot_of(errand)->answer) != TS_MAIL_SAYS_WON)
		count(&flow_of(errand)->alone);
	errand->state = TS_ERRAND_NONE;
	ts_mail_send_again(errand->mail, errand->index, TS_MAIL_SAMPLE_RETURN);
}

void ts_errand_refuse(struct ts_errand *errand)
{
	give_back(errand);
}

void ts_errand_made(struct ts_errand *errand, uint64_t made_ns)
{
	if (errand->state != TS_ERRAND_WON || errand->serial != ts_identity_serial())
		return;
	errand->state = TS_ERRAND_NONE;
	slot_of(errand)->request.made_ns = made_ns;
	count(&flow_of(errand)->stored);
	ts_mail_send_again(errand->mail, errand->index, TS_MAIL_SAMPLE_STORE);
}

/* It is not waited for any more, whatever has come of it. */
static void abandon(struct ts_errand *errand)
{
	struct ts_mail_slot *slot = slot_of(errand);

	errand->state = TS_ERRAND_NONE;
	if (ts_load_acquire(&slot->state) != TS_MAIL_ANSWERED &&
		ts_mail_leave(errand->mail->table, slot) < 0) {
		count(&flow_of(errand)->alone);
	} else if (ts_load_relaxed(&slot->answer) == TS_MAIL_SAYS_WON) {
		count(&flow_of(errand)->won);
		give_back(errand);
	} else {
		count(&flow_of(errand)->alone);
		ts_mail_free(slot);
	}
}

void ts_errand_drop(struct ts_errand *errand)
{
	/* A parent's is not ours to end. */
	if (errand->serial != ts_identity_serial())
		errand->state = TS_ERRAND_NONE;
	if (errand->state == TS_ERRAND_WON)
		give_back(errand);
	else if (errand->state == TS_ERRAND_ASKED)
		abandon(errand);
}
