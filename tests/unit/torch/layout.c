/* SPDX-License-Identifier: MIT */
/* Says how C lays out, numbers and names what Python mirrors; tests/e2e/layout.py compares. */
#include "hooks/torch/samples.h"
#include "hooks/torch/numbers.h"
#include "leader/group/loaders.h"
#include "shim/reasons.h"

#include <stddef.h>
#include <stdio.h>

#define STRUCT(name) printf("struct %s %zu\n", #name, sizeof(struct name))
#define FIELD(name, field)                                                           \
	printf("field %s.%s %zu %zu\n", #name, #field, offsetof(struct name, field), \
		sizeof(((struct name *)NULL)->field))
#define NUMBER(name) printf("number %s %d\n", #name, (int)(name))

static void view(void)
{
	STRUCT(ts_sample_view);
	FIELD(ts_sample_view, meta);
	FIELD(ts_sample_view, meta_bytes);
	FIELD(ts_sample_view, payload);
	FIELD(ts_sample_view, payload_bytes);
	FIELD(ts_sample_view, torch_seed);
	FIELD(ts_sample_view, python_seed);
	FIELD(ts_sample_view, numpy_seed);
	FIELD(ts_sample_view, verify);
	FIELD(ts_sample_view, origin);
	FIELD(ts_sample_view, inputs);
	FIELD(ts_sample_view, input_bytes);
	FIELD(ts_sample_view, is_alone);
	FIELD(ts_sample_view, unfit);
}

static void generator(void)
{
	STRUCT(ts_generator);
	FIELD(ts_generator, kind);
	FIELD(ts_generator, words);
	FIELD(ts_generator, more);
	FIELD(ts_generator, rest);
	FIELD(ts_generator, path);
	FIELD(ts_generator, path_bytes);
	FIELD(ts_generator, numbers);
}

static void lone(void)
{
	STRUCT(ts_sample_lone);
	FIELD(ts_sample_lone, sample);
	FIELD(ts_sample_lone, batch);
	FIELD(ts_sample_lone, globals);
	FIELD(ts_sample_lone, position);
	FIELD(ts_sample_lone, still);
	FIELD(ts_sample_lone, is_seeded);
}

static void leaf(void)
{
	STRUCT(ts_sample_leaf);
	FIELD(ts_sample_leaf, offset);
	FIELD(ts_sample_leaf, bytes);
	FIELD(ts_sample_leaf, base);
}

static void batch(void)
{
	STRUCT(ts_sample_batch);
	FIELD(ts_sample_batch, scope);
	FIELD(ts_sample_batch, stream);
	FIELD(ts_sample_batch, which);
	FIELD(ts_sample_batch, draws);
	FIELD(ts_sample_batch, tag);
	FIELD(ts_sample_batch, epoch);
	FIELD(ts_sample_batch, reserved);
	FIELD(ts_sample_batch, indices);
	FIELD(ts_sample_batch, occurrences);
	FIELD(ts_sample_batch, count);
	FIELD(ts_sample_batch, states);
	FIELD(ts_sample_batch, head);
	FIELD(ts_sample_batch, head_bytes);
	FIELD(ts_sample_batch, payload_bytes);
	FIELD(ts_sample_batch, leaves);
	FIELD(ts_sample_batch, leaf_count);
	FIELD(ts_sample_batch, metas);
	FIELD(ts_sample_batch, meta_bytes);
	FIELD(ts_sample_batch, meta_room);
	FIELD(ts_sample_batch, origins);
}

static void reasons(void)
{
	for (int i = 0; i < TS_REASON_COUNT; i++)
		printf("reason %s\n", ts_reasons[i].id);
}

int main(void)
{
	view();
	leaf();
	batch();
	generator();
	lone();
	reasons();
	NUMBER(TS_SAMPLE_TAKEN);
	NUMBER(TS_SAMPLE_CLAIMED);
	NUMBER(TS_SAMPLE_BUSY);
	NUMBER(TS_SAMPLE_PASSED);
	NUMBER(TS_SAMPLE_ODD);
	NUMBER(TS_SAMPLE_UNSEEN);
	NUMBER(TS_SAMPLE_NOW);
	NUMBER(TS_SAMPLE_WAIT);
	NUMBER(TS_SAMPLE_MOMENT);
	NUMBER(TS_SAMPLE_STAY);
	NUMBER(TS_SAMPLE_NEST);
	NUMBER(TS_SAMPLE_WATCH);
	NUMBER(TS_SAMPLE_AGAIN);
	NUMBER(TS_SAMPLE_AHEAD);
	NUMBER(TS_SAMPLE_MADE);
	NUMBER(TS_SAMPLE_RAISED);
	NUMBER(TS_SAMPLE_NOTHING);
	NUMBER(TS_GENERATOR_OTHER);
	NUMBER(TS_GENERATOR_NUMPY);
	NUMBER(TS_GENERATOR_PYTHON);
	NUMBER(TS_GENERATOR_PCG);
	NUMBER(TS_GENERATOR_PHILOX);
	NUMBER(TS_GENERATOR_SFC);
	NUMBER(TS_LOADER_UNSAID);
	NUMBER(TS_LOADER_SAID);
	NUMBER(TS_LOADER_COUNTED);
	NUMBER(TS_LOADER_VERDICT_SAMPLES);
	NUMBER(TS_LOADER_VERDICT_BATCHES);
	NUMBER(TS_LOADER_VERDICT_NOT);
	NUMBER(TS_LOADER_ITERABLE);
	NUMBER(TS_LOADER_PERSISTENT);
	NUMBER(TS_LOADER_ALIGNED);
	NUMBER(TS_LOADER_FREE);
	return 0;
}
