/* SPDX-License-Identifier: MIT */
/* Decoded pictures from the ring, and from other nodes. */
#include "hooks/jpeg/across.h"

#include <errno.h>
#include <string.h>

/* A wait for an answer goes on after that: it looks whether the helper lives. */
#define LOOK_NS UINT64_C(20000000)

static void take(const struct ts_picture *picture, struct ts_take *ret_take)
{
	ts_session_take_pixels(picture->session, &picture->key, ret_take);
}

/*
 * Nobody here has asked for it, but other nodes do.  For this one only: where asking does not
 * pay any more, nothing is to be published for them either.
 */
static void take_for_others(const struct ts_picture *picture, struct ts_take *ret_take)
{
	const struct ts_session *session = picture->session;

	ts_store_take_wanted(
		session->store, &picture->key, session->dataset, TS_KIND_PIXELS, ret_take);
}

static void give_up(struct ts_take *take, enum ts_reason reason)
{
	take->verdict = TS_PASS;
	take->reason = reason;
}

/* Into the ring with what came, whose claim @take is. */
static int publish(const struct ts_picture *picture, const struct ts_mail_sample *head,
	uint64_t bytes, struct ts_take *take)
{
	struct ts_store *store = picture->session->store;
	uint64_t produce_ns = head->produce_ns;
	void *buffer;
	int r = ts_claim_reserve(store, &take->claim, bytes, &buffer);

	if (r < 0)
		return r;
	memcpy(buffer, head + 1, bytes);
	/* By the measure of the hook, which asks by it how long to wait. */
	ts_session_learn_cost(TS_KIND_PIXELS, picture->bytes, produce_ns);
	/* Where the claim was taken over, the one who did publishes it. */
	(void)ts_claim_publish(store, &take->claim, bytes, produce_ns);
	return 0;
}

/* A record came.  What another node's helper has sealed need not be what we take it for. */
static void adopt(
	const struct ts_picture *picture, struct ts_errand *errand, struct ts_take *claimed)
{
	uint64_t bytes;
	const struct ts_mail_sample *head = ts_errand_found(errand, &bytes);

	if (!picture->fits(head + 1, bytes, picture->context)) {
		ts_errand_refuse(errand);
		ts_session_count_pass(TS_REASON_STORE_DAMAGED);
		return;
	}
	int r = publish(picture, head, bytes, claimed);
	ts_errand_end(errand, r == 0);
	if (r < 0) {
		give_up(claimed, ts_session_why_no_room(r));
		return;
	}
	take(picture, claimed);
	if (claimed->verdict == TS_BUSY)
		give_up(claimed, TS_REASON_TIMEOUT);
}

/* Where other nodes are asked for a picture. */
struct asking {
	struct ts_mail *mail;  /* NULL: nowhere, */
	enum ts_reason reason; /* and why */
	struct ts_mail *tried; /* this one is, there, though others are not; NULL: no */
};

static int post(
	const struct ts_picture *picture, struct asking *asking, struct ts_errand *errand)
{
	if (asking->mail)
		return ts_errand_ask(
			errand, asking->mail, TS_KIND_PIXELS, &picture->key, &asking->reason);
	return asking->tried
		       ? ts_errand_find(errand, asking->tried, TS_KIND_PIXELS, &picture->key)
		       : -EAGAIN;
}

/* What is @claimed becomes a hit where another node has it. */
static void ask(const struct ts_picture *picture, struct asking *asking,
	struct ts_errand *errand, struct ts_take *claimed)
{
	int r = post(picture, asking, errand);

	if (r == 0)
		do
			r = ts_errand_look(errand, LOOK_NS);
		while (r == -EINPROGRESS);
	if (r == TS_MAIL_SAYS_GOT)
		adopt(picture, errand, claimed);
	else if (r != TS_MAIL_SAYS_WON)
		ts_session_count_pass(asking->reason);
}

void ts_across_take(
	const struct ts_picture *picture, struct ts_errand *errand, struct ts_take *ret_take)
{
	struct ts_store *store = picture->session->store;
	uint64_t deadline = ts_session_deadline_ns(TS_KIND_PIXELS, picture->bytes);
	struct ts_patience patience = {0};
	struct asking asking = {.mail = NULL};

	*errand = (struct ts_errand){.state = TS_ERRAND_NONE};
	take(picture, ret_take);
	bool is_alone = ret_take->verdict == TS_PASS && ret_take->reason == TS_REASON_ALONE;
	bool asks = picture->is_worth_asking && ts_errand_is_wanted() &&
		    (is_alone || ret_take->verdict == TS_CLAIM || ret_take->verdict == TS_BUSY);
	if (asks)
		asking.mail = ts_errand_open(store, TS_KIND_PIXELS, &asking.reason);
	bool is_open = asking.mail || asking.reason == TS_REASON_ACROSS_UNUSED;
	if (asks && !asking.mail && ret_take->verdict != TS_BUSY)
		asking.tried = ts_errand_try(store, TS_KIND_PIXELS, asking.reason);
	/* Who waits for somebody who gives up asks as well. */
	bool is_busy = ret_take->verdict == TS_BUSY;
	if (is_alone ? asking.mail || asking.tried : is_busy && asking.mail)
		take_for_others(picture, ret_take);
	if (ret_take->verdict == TS_BUSY)
		ts_store_wait(store, &picture->key,
			asks && is_open ? ts_errand_deadline_ns(deadline) : deadline, &patience,
			ret_take);
	if (asks && ret_take->verdict == TS_CLAIM)
		ask(picture, &asking, errand, ret_take);
}
