/* SPDX-License-Identifier: MIT */
/* Many samples in one call from the Python glue. */
#include "hooks/torch/batches.h"

#include "hooks/torch/samples_private.h"
#include "leader/group/session.h"
#include "shim/stream.h"

#include <assert.h>
#include <string.h>

/*
 * A batch so large has left the second level of the caches, and mostly the third, when the
 * trainer comes to it: copied past them 602 KB take 80 us instead of 108 (eight processes that
 * copy and read on two cores of a Zen 3, batches of 8 to 64), while batches of half this size
 * cost the trainer more than is saved.
 */
#define STREAM_FROM (UINT64_C(4) << 20)

/* Of a scope or a stream. */
#define NAME_BYTES 16u

static_assert(TS_SAMPLE_TAKEN == (int)TS_HIT && TS_SAMPLE_CLAIMED == (int)TS_CLAIM &&
		      TS_SAMPLE_BUSY == (int)TS_BUSY && TS_SAMPLE_PASSED == (int)TS_PASS,
	"the verdicts of the store, which the glue knows too");

static void name_position(
	struct ts_sample *sample, const struct ts_sample_batch *batch, uint64_t position)
{
	size_t which = batch->which ? batch->which[position] : 0;
	uint32_t occurrence = batch->occurrences ? batch->occurrences[position] : 0;
	unsigned char index[TS_SAMPLE_INDEX];

	ts_sample_index(batch->indices[position], index);
	tsshim_sample_name(sample, (const unsigned char *)batch->scope + which * NAME_BYTES,
		(const unsigned char *)batch->stream + which * NAME_BYTES, index, sizeof(index),
		occurrence, 0);
	if (batch->tag != 0)
		tsshim_sample_note(sample, batch->tag, (uint32_t)batch->indices[position],
			batch->draws[which], batch->epoch);
}

void tsshim_sample_copy(void *to, const void *from, uint64_t bytes, uint64_t all)
{
	if (all >= STREAM_FROM)
		ts_stream_copy(to, from, bytes);
	else
		memcpy(to, from, bytes);
}

/* Copy the record that @sample holds if it is as expected; false: it is for the glue. */
static bool copy_record(
	struct ts_sample *sample, const struct ts_sample_batch *batch, uint64_t position)
{
	const struct ts_sample_view *view = ts_sample_view(sample);

	if (view->verify || view->payload_bytes != batch->payload_bytes ||
		view->meta_bytes > batch->meta_room || view->meta_bytes < batch->head_bytes ||
		memcmp(view->meta, batch->head, batch->head_bytes) != 0)
		return false;
	for (uint64_t i = 0; i < batch->leaf_count; i++) {
		const struct ts_sample_leaf *leaf = &batch->leaves[i];
		tsshim_sample_copy(leaf->base + position * leaf->bytes,
			(const unsigned char *)view->payload + leaf->offset, leaf->bytes,
			batch->count * batch->payload_bytes);
	}
	memcpy(batch->metas + position * batch->meta_room, view->meta, view->meta_bytes);
	batch->meta_bytes[position] = (uint32_t)view->meta_bytes;
	if (batch->origins)
		memcpy(batch->origins[position], view->origin, sizeof(view->origin));
	tsshim_sample_taken(sample);
	return true;
}

uint64_t tsshim_sample_take_batch(struct ts_sample *sample, const struct ts_sample_batch *batch,
	uint64_t from, int patient)
{
	for (uint64_t position = from; position < batch->count; position++) {
		uint8_t *state = &batch->states[position];
		if (*state != TS_SAMPLE_UNSEEN && *state != TS_SAMPLE_BUSY)
			continue;
		name_position(sample, batch, position);
		*state = (uint8_t)tsshim_sample_take(sample, TS_SAMPLE_NOW);
		if (*state == TS_SAMPLE_TAKEN && !copy_record(sample, batch, position))
			*state = TS_SAMPLE_ODD;
		if (*state != TS_SAMPLE_TAKEN && !(*state == TS_SAMPLE_BUSY && patient))
			return position;
	}
	return batch->count;
}

uint64_t tsshim_sample_claim_batch(
	struct ts_sample *sample, const struct ts_sample_batch *batch, uint64_t from)
{
	for (uint64_t position = from; position < batch->count; position++) {
		name_position(sample, batch, position);
		int verdict = ts_sample_claim(sample);
		if (verdict == TS_CLAIM)
			return position;
		if (verdict == TS_PASS)
			break;
	}
	return batch->count;
}

/* ---- items that go to nobody else: seeds, notes and counts --------------------------- */

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
