/* SPDX-License-Identifier: MIT */
/* A sample in the making: the files that it opens, what it costs, and the record that it
 * becomes. */
#include "hooks/torch/samples_private.h"

#include "leader/group/session.h"
#include "shim/config.h"
#include "shim/sys.h"

#include <string.h>

/* ---- the item ---------------------------------------------------------------------------- */

void tsshim_sample_begin(struct ts_sample *sample, int how)
{
	sample->observing = (how & TS_SAMPLE_WATCH) != 0 ||
			    (ts_sample_is_ours(sample) && sample->held == TS_HELD_CLAIM);
	sample->listing = sample->observing || ts_config()->align;
	/* To verify what was made ahead is to make it a second time. */
	bool is_lease = ts_sample_is_ours(sample) && sample->held == TS_HELD_LEASE;
	sample->again =
		(how & TS_SAMPLE_AGAIN) != 0 || (is_lease && ts_sample_was_ahead(sample));
	sample->ahead = (how & TS_SAMPLE_AHEAD) != 0;
	sample->view.inputs = NULL;
	sample->view.unfit = NULL;
	ts_session_nest((how & TS_SAMPLE_NEST) != 0);
	if (sample->listing)
		ts_opens_begin(&sample->opens);
	sample->made_at = ts_now_ns();
	sample->cpu_start = ts_thread_cpu_ns();
}

/* Whether the files that were opened allow publishing; TS_REASON_COUNT if they do. */
static enum ts_reason judge_inputs(struct ts_sample *sample)
{
	if (ts_opens_end(&sample->opens) != 0) {
		ts_opens_tell(&sample->opens, sample->unfit, sizeof(sample->unfit));
		sample->view.unfit = sample->unfit;
		return TS_REASON_TORCH_INPUTS;
	}
	int64_t bytes = ts_opens_encode(&sample->opens, sample->inputs, sizeof(sample->inputs));
	if (bytes < 0)
		return TS_REASON_TORCH_INPUTS;
	sample->input_bytes = (uint32_t)bytes;
	/* A file that changed meanwhile is too young as well. */
	if (ts_opens_settled(&sample->opens) != 0)
		return TS_REASON_TORCH_YOUNG;
	sample->view.inputs = sample->inputs;
	sample->view.input_bytes = sample->input_bytes;
	return TS_REASON_COUNT;
}

/* Hints: where there is no journal nobody finds what was made. */
void ts_sample_note_made(struct ts_sample *sample)
{
	struct ts_journal *journal;

	if (sample->note.tag != 0 && sample->store && sample->serial == ts_identity_serial() &&
		ts_journal_attach(sample->store, &journal) == 0)
		ts_journal_write(journal, &sample->note);
	sample->note.tag = 0;
}

int tsshim_sample_end(struct ts_sample *sample, int outcome)
{
	bool raised = outcome == TS_SAMPLE_RAISED;

	sample->cpu_ns = ts_thread_cpu_ns() - sample->cpu_start;
	sample->made_ns = ts_now_ns() - sample->made_at;
	ts_session_nest(false);
	if (sample->again)
		ts_session_count_pass(TS_REASON_TORCH_AGAIN);
	else if (outcome != TS_SAMPLE_NOTHING && !sample->ahead)
		ts_session_count_produced(TS_KIND_SAMPLE, 0, 0);
	bool listing = sample->listing;
	sample->listing = false;
	if (!sample->observing) {
		if (listing)
			(void)ts_opens_end(&sample->opens);
		/* Made alone; others learn how far this job is. */
		if (!raised)
			ts_sample_note_made(sample);
		return -ECANCELED;
	}
	sample->observing = false;
	enum ts_reason reason = judge_inputs(sample);
	if (!raised && reason == TS_REASON_COUNT && ts_sample_is_ours(sample))
		return 0;
	if (!raised && reason != TS_REASON_COUNT)
		ts_session_count_pass(reason);
	const void *inputs = sample->view.inputs;
	tsshim_sample_drop(sample);
	sample->view.inputs = inputs;
	return -ECANCELED;
}

/* Header, inputs and meta into @at; the room was reserved for exactly this. */
static void write_head(struct ts_sample *sample, unsigned char *at, const void *meta,
	uint64_t meta_bytes, uint64_t payload_bytes)
{
	struct ts_record record = {.magic = TS_RECORD_MAGIC,
		.input_bytes = sample->input_bytes,
		.meta_bytes = meta_bytes,
		.payload_bytes = payload_bytes};
	unsigned char *behind = at + sizeof(record);

	memcpy(behind, sample->inputs, sample->input_bytes);
	memcpy(behind + sample->input_bytes, meta, meta_bytes);
	record.check = ts_record_check(&record, behind);
	memcpy(at, &record, sizeof(record));
}

void *tsshim_sample_reserve(
	struct ts_sample *sample, const void *meta, uint64_t meta_bytes, uint64_t payload_bytes)
{
	void *buffer;

	if (!ts_sample_is_ours(sample) || sample->held != TS_HELD_CLAIM)
		return NULL;
	if (meta_bytes > TS_RECORD_META_MAX) {
		tsshim_sample_drop(sample);
		ts_session_count_pass(TS_REASON_TOO_LARGE);
		return NULL;
	}
	uint64_t payload = ts_record_payload_at(sample->input_bytes, meta_bytes);
	sample->record_bytes = payload + payload_bytes;
	int r = ts_claim_reserve(
		sample->store, &sample->take.claim, sample->record_bytes, &buffer);
	if (r < 0) {
		sample->held = TS_HELD_NOTHING; /* abandoned by the store */
		if (sample->errand.state != TS_ERRAND_NONE)
			ts_errand_drop(&sample->errand);
		ts_session_count_pass(ts_session_why_no_room(r));
		return NULL;
	}
	sample->held = TS_HELD_ROOM;
	write_head(sample, buffer, meta, meta_bytes, payload_bytes);
	return (unsigned char *)buffer + payload;
}

/* What making a record of this size costs is what others wait for. */
void tsshim_sample_publish(struct ts_sample *sample)
{
	if (!ts_sample_is_ours(sample) || sample->held != TS_HELD_ROOM)
		return;
	sample->held = TS_HELD_NOTHING;
	ts_session_learn_cost(TS_KIND_SAMPLE, sample->record_bytes, sample->cpu_ns);
	int r = ts_claim_publish(
		sample->store, &sample->take.claim, sample->record_bytes, sample->cpu_ns);
	if (sample->errand.state != TS_ERRAND_NONE)
		ts_errand_made(&sample->errand, sample->made_ns);
	if (r != 0)
		return;
	ts_session_count_published();
	ts_sample_set_origin(sample, sample->take.claim.origin);
	if (sample->ahead) {
		ts_session_count_produced(TS_KIND_SAMPLE, 0, 0);
		ts_sample_note_ahead(sample);
	}
	ts_sample_note_made(sample);
}
