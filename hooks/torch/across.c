/* SPDX-License-Identifier: MIT */
/* Samples between nodes: asking for them, taking what comes, handing over what is made. */
#include "hooks/torch/across.h"

#include "hooks/torch/samples_private.h"
#include "leader/group/session.h"
#include "leader/mail/mail.h"
#include "shim/atomic.h"
#include "shim/config.h"
#include "shim/sys.h"

#include <string.h>

/* For a helper that somebody has just started, in looks of: */
#define LOOKS   125
#define LOOK_NS UINT64_C(2000000)

/* ---- whether to ask --------------------------------------------------------------------- */

static bool is_wanted(void)
{
	const struct ts_config *config = ts_config();

	return config->across == TS_ACROSS_NODES && config->cluster && config->align &&
	       !config->disable;
}

static bool is_starting(const struct ts_mail *mail)
{
	return ts_load_relaxed(&mail->table->helper) == 0 &&
	       ts_load_relaxed(&mail->table->error) == 0 &&
	       ts_now_ns() < ts_load_relaxed(&mail->table->start_at);
}

/* Samples that are made before it is there are made on all nodes. */
static bool await_helper(struct ts_mail *mail)
{
	static _Atomic int has_waited;
	static const uint32_t nothing;
	int no = 0;

	if (ts_mail_is_served(mail, ts_mail_start, NULL))
		return true;
	if (!is_starting(mail) || !ts_cas(&has_waited, &no, 1))
		return false;
	for (uint64_t i = 0; i < ts_mail_patience(LOOKS) && is_starting(mail); i++)
		ts_sys_futex_wait(&nothing, nothing, LOOK_NS);
	return ts_mail_is_served(mail, NULL, NULL);
}

bool ts_errands_pay(struct ts_store *store)
{
	struct ts_mail *mail = is_wanted() ? ts_errand_mail(store) : NULL;

	return mail && ts_mail_pays(mail) && ts_mail_is_served(mail, NULL, NULL);
}

int tsshim_sample_across(struct ts_sample *sample)
{
	enum ts_reason reason;
	const struct ts_session *session = is_wanted() ? ts_session_enter(&reason) : NULL;

	sample->mail = session ? ts_errand_mail(session->store) : NULL;
	sample->across =
		sample->mail && ts_mail_pays(sample->mail) && await_helper(sample->mail);
	return sample->across;
}

/* ---- asking ----------------------------------------------------------------------------- */

int tsshim_sample_seek(struct ts_sample *sample)
{
	const struct ts_hash128 name = {.lo = sample->key.lo, .hi = sample->key.hi};
	struct ts_mail *mail = sample->mail;

	if (sample->errand_state != TS_ERRAND_NONE || !ts_sample_is_ours(sample) ||
		sample->held != TS_HELD_CLAIM)
		return 0;
	if (!sample->across || !ts_mail_pays(mail) ||
		!ts_mail_is_served(mail, ts_mail_start, NULL) ||
		ts_mail_post(mail, &name, &sample->errand) < 0) {
		ts_session_count_pass(TS_REASON_ACROSS_ALONE);
		return 0;
	}
	sample->errand_state = TS_ERRAND_ASKED;
	return 1;
}

/* ---- what came -------------------------------------------------------------------------- */

/*
 * The files of the record in @from, which says of itself what it is, into the sample.  Errors:
 * -EBADMSG; those of ts_opens_adopt().
 */
static int adopt_inputs(
	struct ts_sample *sample, const unsigned char *from, const struct ts_record *record)
{
	if (record->input_bytes > sizeof(sample->inputs))
		return -EBADMSG;
	memcpy(sample->inputs, from + sizeof(*record), record->input_bytes);
	sample->input_bytes = record->input_bytes;
	return ts_opens_adopt(sample->inputs, record->input_bytes);
}

/* Into the ring, with the files as they are named here. */
static enum ts_verdict publish(struct ts_sample *sample, const unsigned char *from,
	struct ts_record record, uint64_t bytes, uint64_t produce_ns)
{
	void *buffer;
	int r = ts_claim_reserve(sample->store, &sample->take.claim, bytes, &buffer);

	sample->held = TS_HELD_NOTHING; /* abandoned by the store, or published */
	if (r < 0) {
		ts_session_count_pass(ts_session_why_no_room(r));
		return TS_PASS;
	}
	unsigned char *to = buffer;
	memcpy(to, from, bytes);
	memcpy(to + sizeof(record), sample->inputs, sample->input_bytes);
	record.check = ts_record_check(&record, to + sizeof(record));
	memcpy(to, &record, sizeof(record));
	ts_session_learn_cost(TS_KIND_SAMPLE, bytes, produce_ns);
	if (ts_claim_publish(sample->store, &sample->take.claim, bytes, produce_ns) == 0)
		ts_sample_note_made(sample);
	return TS_HIT;
}

/* A record came.  What another node's helper has sealed need not be what we take it for. */
static int adopt(struct ts_sample *sample)
{
	uint64_t bytes;
	const struct ts_mail_sample *head =
		ts_mail_found(sample->mail, &sample->errand, &bytes);
	const unsigned char *from = (const unsigned char *)(head + 1);
	struct ts_record record;
	int r = ts_record_read(from, bytes, &record);

	if (r == 0)
		r = adopt_inputs(sample, from, &record);
	sample->errand_state = TS_ERRAND_NONE;
	if (r < 0) {
		/* Whoever asks next makes it for all. */
		ts_mail_give_back(sample->mail, &sample->errand);
		ts_session_count_pass(
			r == -EBADMSG ? TS_REASON_STORE_DAMAGED : TS_REASON_TORCH_CHANGED);
		return TS_CLAIM;
	}
	enum ts_verdict verdict = publish(sample, from, record, bytes, head->produce_ns);
	ts_mail_end(sample->mail, &sample->errand, verdict == TS_HIT);
	return verdict == TS_HIT ? tsshim_sample_take(sample, TS_SAMPLE_NOW) : (int)verdict;
}

int tsshim_sample_found(struct ts_sample *sample, uint32_t wait_us)
{
	if (!ts_sample_is_ours(sample) || sample->held != TS_HELD_CLAIM)
		return TS_PASS;
	if (sample->errand_state != TS_ERRAND_ASKED)
		return TS_CLAIM;
	int r = ts_mail_look(sample->mail, &sample->errand, wait_us * UINT64_C(1000));
	if (r == -EINPROGRESS)
		return TS_BUSY;
	if (r == TS_MAIL_SAYS_GOT)
		return adopt(sample);
	sample->errand_state = r == TS_MAIL_SAYS_WON ? TS_ERRAND_WON : TS_ERRAND_NONE;
	if (r != TS_MAIL_SAYS_WON)
		ts_session_count_pass(TS_REASON_ACROSS_ALONE);
	return TS_CLAIM;
}
