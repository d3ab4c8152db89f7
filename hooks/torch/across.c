/* SPDX-License-Identifier: MIT */
/* Samples between nodes: asking for them, taking what comes, handing over what is made. */
#include "hooks/torch/samples_private.h"
#include "leader/group/session.h"

#include <string.h>

/* ---- asking ----------------------------------------------------------------------------- */

int tsshim_sample_across(struct ts_sample *sample)
{
	enum ts_reason reason;
	const struct ts_session *session =
		ts_errand_is_wanted() ? ts_session_enter(&reason) : NULL;

	sample->across = NULL;
	sample->unasked = TS_REASON_ACROSS_ALONE;
	if (!session)
		return false;
	sample->across = ts_errand_open(session->store, &sample->unasked);
	/* Whose claim it is may be waiting for another node, and is not at work meanwhile. */
	sample->slack_ns = ts_mail_wait_ns();
	ts_store_want(session->store, TS_KIND_SAMPLE, sample->across != NULL);
	return sample->across != NULL;
}

int tsshim_sample_seek(struct ts_sample *sample)
{
	if (sample->errand.state != TS_ERRAND_NONE || !ts_sample_is_ours(sample) ||
		sample->held != TS_HELD_CLAIM)
		return 0;
	if (sample->across && ts_errand_ask(&sample->errand, sample->across, &sample->key,
				      &sample->unasked) == 0)
		return 1;
	ts_session_count_pass(sample->unasked);
	return 0;
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
	const struct ts_mail_sample *head = ts_errand_found(&sample->errand, &bytes);
	const unsigned char *from = (const unsigned char *)(head + 1);
	struct ts_record record;
	int r = ts_record_read(from, bytes, &record);

	if (r == 0)
		r = adopt_inputs(sample, from, &record);
	if (r < 0) {
		ts_errand_refuse(&sample->errand);
		ts_session_count_pass(
			r == -EBADMSG ? TS_REASON_STORE_DAMAGED : TS_REASON_TORCH_CHANGED);
		return TS_CLAIM;
	}
	enum ts_verdict verdict = publish(sample, from, record, bytes, head->produce_ns);
	ts_errand_end(&sample->errand, verdict == TS_HIT);
	return verdict == TS_HIT ? tsshim_sample_take(sample, TS_SAMPLE_NOW) : (int)verdict;
}

int tsshim_sample_found(struct ts_sample *sample, uint32_t wait_us)
{
	if (!ts_sample_is_ours(sample) || sample->held != TS_HELD_CLAIM)
		return TS_PASS;
	if (sample->errand.state != TS_ERRAND_ASKED)
		return TS_CLAIM;
	int r = ts_errand_look(&sample->errand, wait_us * UINT64_C(1000));
	if (r == -EINPROGRESS)
		return TS_BUSY;
	if (r == TS_MAIL_SAYS_GOT)
		return adopt(sample);
	if (r != TS_MAIL_SAYS_WON)
		ts_session_count_pass(TS_REASON_ACROSS_ALONE);
	return TS_CLAIM;
}
