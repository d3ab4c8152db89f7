/* SPDX-License-Identifier: MIT */
/* Samples named by whole numbers, made and published as the Python glue does it. */
#include "fixture.h"

#include "leader/group/attach.h"
#include "leader/group/store_private.h"

#include <stdlib.h>
#include <string.h>

const unsigned char torch_scope[16] = "a data set's";
const unsigned char torch_stream[16] = "an epoch's";

void torch_init(void)
{
	fixture_init();
	/* Otherwise one hit in a thousand is left to the caller. */
	setenv("TSSHIM_VERIFY", "0", 0);
	torch_capture();
}

void torch_capture(void)
{
	const struct ts_session *session = fixture_enter();
	struct ts_dataset_row *row =
		ts_ledger_dataset(ts_store_ledger(session->store), session->dataset);
	ts_write_relaxed(&row->demands[TS_KIND_SAMPLE].capture, 1);
}

static struct ts_sample *samples[8];
static size_t sample_count;

struct ts_sample *torch_sample(void)
{
	struct ts_sample *sample = tsshim_sample_create();

	cr_assert(sample != NULL && sample_count < TS_ARRAY_SIZE(samples));
	samples[sample_count++] = sample;
	return sample;
}

void torch_destroy(struct ts_sample *sample)
{
	for (size_t i = 0; i < sample_count; i++)
		if (samples[i] == sample)
			samples[i] = samples[--sample_count];
	tsshim_sample_destroy(sample);
}

void torch_finish(void)
{
	while (sample_count > 0)
		torch_destroy(samples[sample_count - 1]);
	fixture_finish();
}

int torch_take(struct ts_sample *sample, int64_t number, uint32_t occurrence)
{
	unsigned char index[9] = {'i'};

	memcpy(index + 1, &number, sizeof(number));
	tsshim_sample_name(
		sample, torch_scope, torch_stream, index, sizeof(index), occurrence, 0);
	return tsshim_sample_take(sample, 0);
}

void torch_publish(struct ts_sample *sample, uint64_t payload, unsigned char value)
{
	char meta[META_BYTES] = "what samples look like";

	meta[META_BYTES - 1] = (char)value;
	tsshim_sample_begin(sample, 1);
	cr_assert(eq(int, tsshim_sample_end(sample, 0), 0));
	void *room = tsshim_sample_reserve(sample, meta, META_BYTES, payload);
	cr_assert(room != NULL);
	memset(room, value, payload);
	tsshim_sample_publish(sample);
}

void torch_make(struct ts_sample *sample, int64_t number, uint64_t payload, unsigned char value)
{
	cr_assert(eq(int, torch_take(sample, number, 0), TS_CLAIM));
	torch_publish(sample, payload, value);
}

static struct ts_tally *tally(void)
{
	const struct ts_session *session = fixture_enter();

	return &ts_ledger_dataset(ts_store_ledger(session->store), session->dataset)
			->kinds[TS_KIND_SAMPLE];
}

uint64_t torch_produced(void)
{
	return ts_load_relaxed(&tally()->produced);
}

uint64_t torch_shared(void)
{
	return ts_load_relaxed(&tally()->shared);
}
