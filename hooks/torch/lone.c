/* SPDX-License-Identifier: MIT */
/* Items that go to nobody else: seeds, notes and counts. */
#include "hooks/torch/lone.h"

#include "hooks/torch/samples_private.h"
#include "leader/group/session.h"

/* Of a stream. */
#define NAME_BYTES 16u

void tsshim_sample_lone_begin(struct ts_sample_lone *lone)
{
	tsshim_sample_drop(lone->sample);
	lone->sample->note.tag = 0;
	tsshim_sample_begin(lone->sample, 0);
}

void tsshim_sample_lone_next(struct ts_sample_lone *lone)
{
	const struct ts_sample_batch *batch = lone->batch;
	struct ts_sample *sample = lone->sample;
	uint64_t position = lone->position++;
	size_t which = batch->which ? batch->which[position] : 0;

	ts_sample_note_made(sample);
	ts_sample_set_seeds(sample, (const unsigned char *)batch->stream + which * NAME_BYTES,
		batch->indices[position],
		batch->occurrences ? batch->occurrences[position] : 0);
	if (batch->tag != 0)
		tsshim_sample_note(sample, batch->tag, (uint32_t)batch->indices[position],
			batch->draws[which], batch->epoch);
	tsshim_sample_seed_globals(lone->globals, sample->view.torch_seed,
		sample->view.python_seed, sample->view.numpy_seed);
}

void tsshim_sample_lone_end(
	struct ts_sample_lone *lone, uint64_t count, int raised, const char *reason)
{
	(void)tsshim_sample_end(lone->sample, raised ? TS_SAMPLE_RAISED : TS_SAMPLE_NOTHING);
	/* One that raises is counted there. */
	for (uint64_t i = raised != 0; i < count; i++)
		ts_session_count_produced(TS_KIND_SAMPLE, 0, 0);
	tsshim_sample_pass(reason, (uint32_t)count);
}
