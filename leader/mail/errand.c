/* SPDX-License-Identifier: MIT */
/* What is asked of other nodes, as far as every hook has to do with it. */
#include "leader/mail/errand.h"

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
static bool pays(struct ts_mail *at, enum ts_kind kind, enum ts_reason *ret_reason)
{
	bool pays = ts_mail_pays(at, kind), is_used = ts_mail_is_used(at);

	*ret_reason = !pays      ? TS_REASON_ACROSS_SLOW
		      : !is_used ? TS_REASON_ACROSS_UNUSED
				 : TS_REASON_ACROSS_ALONE;
	return pays && is_used;
}

struct ts_mail *ts_errand_open(
	struct ts_store *store, enum ts_kind kind, enum ts_reason *ret_reason)
{
	*ret_reason = TS_REASON_ACROSS_ALONE;
	return attach(store) && pays(&mail, kind, ret_reason) && await_helper() ? &mail : NULL;
}

bool ts_errand_is_open(struct ts_store *store, enum ts_kind kind)
{
	enum ts_reason unused;

	return ts_errand_is_wanted() && attach(store) && pays(&mail, kind, &unused) &&
	       ts_mail_is_served(&mail, NULL, NULL);
}

uint64_t ts_errand_deadline_ns(uint64_t deadline_ns)
{
	return ts_min_u64(
		deadline_ns + ts_mail_wait_ns(), ts_max_u64(TS_WAIT_MAX_NS, ts_mail_wait_ns()));
}

struct ts_mail *ts_errand_try(struct ts_store *store, enum ts_kind kind, enum ts_reason unasked)
{
	return unasked == TS_REASON_ACROSS_UNUSED && attach(store) &&
			       ts_mail_pays(&mail, kind) && ts_mail_may_try(&mail)
		       ? &mail
		       : NULL;
}

/* ---- asking ----------------------------------------------------------------------------- */

static int post(struct ts_errand *errand, struct ts_mail *at, enum ts_kind kind,
	const struct ts_key *key, bool wins)
{
	const struct ts_hash128 name = {.lo = key->lo, .hi = key->hi};
	int r = ts_mail_post(at, kind, &name, wins, &errand->posted);

	if (r < 0)
		return r;
	errand->mail = at;
	errand->serial = ts_identity_serial();
	errand->state = TS_ERRAND_ASKED;
	return 0;
}

int ts_errand_ask(struct ts_errand *errand, struct ts_mail *at, enum ts_kind kind,
	const struct ts_key *key, enum ts_reason *ret_reason)
{
	if (!pays(at, kind, ret_reason) || !is_served(at))
		return -EAGAIN;
	return post(errand, at, kind, key, /* wins= */ true);
}

int ts_errand_find(struct ts_errand *errand, struct ts_mail *at, enum ts_kind kind,
	const struct ts_key *key)
{
	return is_served(at) ? post(errand, at, kind, key, /* wins= */ false) : -EAGAIN;
}

int ts_errand_look(struct ts_errand *errand, uint64_t wait_ns)
{
	int r = ts_mail_look(errand->mail, &errand->posted, wait_ns);

	if (r == TS_MAIL_SAYS_WON)
		errand->state = TS_ERRAND_WON;
	else if (r != -EINPROGRESS && r != TS_MAIL_SAYS_GOT)
		errand->state = TS_ERRAND_NONE;
	return r;
}

const struct ts_mail_sample *ts_errand_found(struct ts_errand *errand, uint64_t *ret_bytes)
{
	return ts_mail_found(errand->mail, &errand->posted, ret_bytes);
}

/* ---- the end ---------------------------------------------------------------------------- */

void ts_errand_end(struct ts_errand *errand, bool is_good)
{
	errand->state = TS_ERRAND_NONE;
	ts_mail_end(errand->mail, &errand->posted, is_good);
}

void ts_errand_refuse(struct ts_errand *errand)
{
	errand->state = TS_ERRAND_NONE;
	ts_mail_give_back(errand->mail, &errand->posted);
}

void ts_errand_made(struct ts_errand *errand, uint64_t bytes, uint64_t made_ns)
{
	if (errand->state != TS_ERRAND_WON || errand->serial != ts_identity_serial())
		return;
	errand->state = TS_ERRAND_NONE;
	ts_mail_hand_over(errand->mail, &errand->posted, bytes, made_ns);
}

void ts_errand_drop(struct ts_errand *errand)
{
	enum ts_errand_state state = errand->state;

	errand->state = TS_ERRAND_NONE;
	/* A parent's is not ours to end. */
	if (state == TS_ERRAND_NONE || errand->serial != ts_identity_serial())
		return;
	if (state == TS_ERRAND_WON)
		ts_mail_give_back(errand->mail, &errand->posted);
	else
		ts_mail_abandon(errand->mail, &errand->posted);
}
