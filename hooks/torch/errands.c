/* SPDX-License-Identifier: MIT */
/* What is asked of other nodes, as far as every sample has to do with it: hooks/torch/across.h.
 */
#include "hooks/torch/samples_private.h"

#include "leader/group/session.h"
#include "shim/atomic.h"

/* This process's, for good; a fork child has its parent's. */
static struct ts_mail mail;
static _Atomic int attaching, is_attached;

/* One thread attaches, the others do without meanwhile; what fails is tried again. */
struct ts_mail *ts_errand_mail(struct ts_store *store)
{
	if (ts_load_acquire(&is_attached)) /* C1 */
		return &mail;
	int nobody = 0;
	if (!ts_cas(&attaching, &nobody, 1))
		return NULL;
	int r = mail.table ? 0 : ts_mail_attach(store, &mail);
	if (r == 0)
		r = ts_mail_attach_places(store, &mail);
	if (r == 0)
		ts_write_release(&is_attached, 1); /* C2: behind `mail`, pairs with C1 */
	ts_write_release(&attaching, 0);
	return r == 0 ? &mail : NULL;
}

bool ts_errand_is_wanted(const struct ts_sample *sample, const struct ts_session *session)
{
	if (!sample->across)
		return false;
	ts_store_want(session->store, &sample->key, session->dataset, TS_KIND_SAMPLE);
	return true;
}

void ts_errand_made(struct ts_sample *sample)
{
	if (sample->errand_state != TS_ERRAND_WON)
		return;
	sample->errand_state = TS_ERRAND_NONE;
	ts_mail_hand_over(sample->mail, &sample->errand, sample->made_ns);
}

void ts_errand_drop(struct ts_sample *sample)
{
	enum ts_errand_state state = sample->errand_state;

	sample->errand_state = TS_ERRAND_NONE;
	/* A parent's is not ours to end. */
	if (state == TS_ERRAND_NONE || sample->serial != ts_identity_serial())
		return;
	if (state == TS_ERRAND_WON)
		ts_mail_give_back(sample->mail, &sample->errand);
	else
		ts_mail_abandon(sample->mail, &sample->errand);
}
