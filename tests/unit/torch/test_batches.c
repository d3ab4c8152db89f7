/* SPDX-License-Identifier: MIT */
/* Many samples in one call: which are taken, where the call stops, and what it leaves. */
#include "fixture.h"

#define COUNT   8u
#define ROW     UINT64_C(5000)
#define LABEL   UINT64_C(8)
#define PAYLOAD (UINT64_C(5056) + LABEL) /* the second leaf begins at a multiple of 64 */
#define ROOM    64u

static int64_t indices[COUNT];
static uint8_t states[COUNT];
static unsigned char rows[COUNT * ROW], labels[COUNT * LABEL], metas[COUNT * ROOM];
static uint32_t meta_bytes[COUNT];
static const struct ts_sample_leaf leaves[] = {{0, ROW, rows}, {5056, LABEL, labels}};
static struct ts_sample_batch batch = {.scope = torch_scope,
	.stream = torch_stream,
	.indices = indices,
	.count = COUNT,
	.states = states,
	.head = "what samples",
	.head_bytes = 12,
	.payload_bytes = PAYLOAD,
	.leaves = leaves,
	.leaf_count = TS_ARRAY_SIZE(leaves),
	.metas = metas,
	.meta_bytes = meta_bytes,
	.meta_room = ROOM};

static void init(void)
{
	torch_init();
	for (unsigned i = 0; i < COUNT; i++)
		indices[i] = 100 + i;
	memset(states, TS_SAMPLE_UNSEEN, sizeof(states));
	memset(rows, 0xee, sizeof(rows));
	memset(labels, 0xee, sizeof(labels));
}

TestSuite(batches, .init = init, .fini = torch_finish);

static void make(struct ts_sample *sample, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		torch_make(sample, 100 + i, PAYLOAD, (unsigned char)(i + 1));
}

/* Position @i is in the batch, and nothing of it anywhere else. */
static void expect_put(unsigned i)
{
	cr_expect(eq(int, states[i], TS_SAMPLE_TAKEN), "of %u", i);
	cr_expect(rows[i * ROW] == i + 1 && rows[(i + 1) * ROW - 1] == i + 1, "row %u", i);
	cr_expect(labels[i * LABEL] == i + 1 && labels[(i + 1) * LABEL - 1] == i + 1);
	cr_expect(eq(u32, meta_bytes[i], META_BYTES));
	cr_expect(metas[i * ROOM + META_BYTES - 1] == i + 1);
}

static void expect_untouched(unsigned i)
{
	cr_expect(rows[i * ROW] == 0xee && rows[(i + 1) * ROW - 1] == 0xee, "row %u", i);
	cr_expect(labels[i * LABEL] == 0xee);
}

Test(batches, what_is_there_comes_in_one_call)
{
	struct ts_sample *sample = torch_sample();

	make(sample, 0, COUNT);
	cr_expect(eq(u64, tsshim_sample_take_batch(sample, &batch, 0, 1), COUNT));
	for (unsigned i = 0; i < COUNT; i++)
		expect_put(i);
	cr_expect(eq(u64, torch_shared(), COUNT));
}

Test(batches, it_is_told_which_records_they_were)
{
	static uint64_t origins[COUNT][2];
	struct ts_sample *sample = torch_sample();
	uint64_t made[COUNT][2];

	for (unsigned i = 0; i < COUNT; i++) {
		make(sample, i, i + 1);
		memcpy(made[i], ts_sample_view(sample)->origin, sizeof(made[i]));
	}
	batch.origins = origins;
	states[6] = TS_SAMPLE_PASSED;
	cr_expect(eq(u64, tsshim_sample_take_batch(sample, &batch, 0, 1), COUNT));
	cr_expect(eq(u64, origins[6][0], 0), "it was not taken");
	for (unsigned i = 0; i < COUNT; i++)
		cr_expect(i == 6 || memcmp(origins[i], made[i], sizeof(made[i])) == 0, "%u", i);
}

Test(batches, the_first_that_is_missing_is_claimed)
{
	struct ts_sample *sample = torch_sample(), *other = torch_sample();

	make(sample, 0, 3);
	make(sample, 4, COUNT);
	cr_expect(eq(u64, tsshim_sample_take_batch(sample, &batch, 0, 1), 3));
	cr_expect(eq(int, states[3], TS_SAMPLE_CLAIMED));
	cr_expect(eq(int, torch_take(other, 103, 0), TS_BUSY));
	torch_publish(sample, PAYLOAD, 4);
	cr_expect(eq(int, torch_take(other, 103, 0), TS_HIT));
	expect_untouched(4);
	cr_expect(eq(u64, tsshim_sample_take_batch(sample, &batch, 4, 1), COUNT));
	expect_put(2);
	expect_put(7);
}

Test(batches, who_is_patient_passes_by_what_others_make)
{
	struct ts_sample *sample = torch_sample(), *other = torch_sample();

	make(sample, 0, 2);
	make(sample, 3, COUNT);
	cr_assert(eq(int, torch_take(other, 102, 0), TS_CLAIM));
	cr_expect(eq(u64, tsshim_sample_take_batch(sample, &batch, 0, 1), COUNT));
	cr_expect(eq(int, states[2], TS_SAMPLE_BUSY));
	expect_put(1);
	expect_put(3);
	cr_expect(eq(u64, torch_shared(), COUNT - 1));
	/* Who is not stops there; what was taken is not taken again. */
	cr_expect(eq(u64, tsshim_sample_take_batch(sample, &batch, 0, 0), 2));
	torch_publish(other, PAYLOAD, 3);
	cr_expect(eq(u64, tsshim_sample_take_batch(sample, &batch, 0, 0), COUNT));
	expect_put(2);
	cr_expect(eq(u64, torch_shared(), COUNT));
}

Test(batches, what_looks_different_is_left_to_the_caller)
{
	struct ts_sample *sample = torch_sample();

	make(sample, 0, 1);
	torch_make(sample, 101, PAYLOAD - 1, 2);
	make(sample, 2, COUNT);
	cr_expect(eq(u64, tsshim_sample_take_batch(sample, &batch, 0, 1), 1));
	cr_expect(eq(int, states[1], TS_SAMPLE_ODD));
	cr_expect(eq(u64, ts_sample_view(sample)->payload_bytes, PAYLOAD - 1));
	expect_untouched(1);
	batch.head = "what sampleS";
	cr_expect(eq(u64, tsshim_sample_take_batch(sample, &batch, 2, 1), 2));
	batch.head = "what samples";
	batch.meta_room = META_BYTES - 1;
	cr_expect(eq(u64, tsshim_sample_take_batch(sample, &batch, 3, 1), 3));
	cr_expect(eq(u64, torch_shared(), 1));
}

Test(batches, occurrences_are_part_of_the_names)
{
	static const uint32_t occurrences[COUNT] = {0, 1};
	struct ts_sample *sample = torch_sample();

	make(sample, 0, COUNT);
	batch.occurrences = occurrences;
	cr_expect(eq(u64, tsshim_sample_take_batch(sample, &batch, 0, 1), 1));
	cr_expect(eq(int, states[1], TS_SAMPLE_CLAIMED));
}

static void init_verify(void)
{
	setenv("TSSHIM_VERIFY", "100", 1);
	init();
}

TestSuite(batches_verified, .init = init_verify, .fini = torch_finish);

Test(batches_verified, hits_are_left_to_the_caller)
{
	struct ts_sample *sample = torch_sample();

	make(sample, 0, COUNT);
	cr_expect(eq(u64, tsshim_sample_take_batch(sample, &batch, 0, 1), 0));
	cr_expect(eq(int, states[0], TS_SAMPLE_ODD));
	cr_expect(eq(u32, ts_sample_view(sample)->verify, 1));
}

Test(batches, one_ahead_is_the_first_nobody_makes)
{
	struct ts_sample *sample = torch_sample(), *other = torch_sample();

	make(sample, 0, 2);
	cr_assert(eq(int, torch_take(other, 102, 0), TS_CLAIM));
	cr_expect(eq(u64, tsshim_sample_claim_batch(sample, &batch, 0), 3));
	torch_publish(sample, PAYLOAD, 4);
	cr_expect(eq(u64, tsshim_sample_claim_batch(sample, &batch, 4), 4));
	tsshim_sample_drop(sample);
	cr_expect(eq(u64, tsshim_sample_claim_batch(sample, &batch, COUNT), COUNT));
	cr_expect(eq(u64, torch_shared(), 0));
}
