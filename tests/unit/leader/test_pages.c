/* SPDX-License-Identifier: MIT */
/* The memory behind segments: huge pages where the kernel gives them, growth, alignment. */
#include "fixture.h"

TestSuite(pages, .init = fixture_init, .fini = fixture_finish);

#define MIB   (UINT64_C(1) << 20)
#define LARGE (64 * MIB) /* segments of 4 MiB: two huge pages each */

/* Records of 1 MiB, three to a segment: at least @segments openings. */
static void fill_segments(struct ts_store *one, struct ts_store *two, uint32_t segments)
{
	static uint32_t next = 1000;

	for (uint32_t i = 0; i < 3 * segments; i++, next++) {
		fixture_publish(one, fixture_key(next, next), MIB, (int)next);
		cr_assert(fixture_hits(one, fixture_key(next, next), MIB, (int)next));
		cr_assert(fixture_hits(two, fixture_key(next, next), MIB, (int)next));
	}
}

static uint32_t huge_pieces(const struct ts_store *store)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < store->shape.segment_count; i++) {
		uint32_t pieces = ts_load_relaxed(&store->segments[i].huge);
		cr_assert(le(u64, pieces * TS_HUGE_BYTES, store->shape.segment_bytes));
		cr_assert(pieces == 0 || ts_pages_exist(store, i), "huge pages of nothing");
		sum += pieces;
	}
	return sum;
}

Test(pages, segments_lie_where_huge_pages_fit)
{
	struct ts_store *store = fixture_attach_sized(JOB_A, LARGE);

	cr_expect(eq(u64, store->shape.segment_bytes, 2 * TS_HUGE_BYTES));
	cr_expect(eq(u64, (uintptr_t)store->data % TS_HUGE_BYTES, 0));
	cr_expect(eq(u64, store->shape.data_at % TS_HUGE_BYTES, 0));
	ts_store_detach(store);
}

Test(pages, bytes_stay_when_pages_become_huge)
{
	struct ts_store *one = fixture_attach_sized(JOB_A, LARGE);
	struct ts_store *two = fixture_attach_sized(JOB_B, LARGE);

	fixture_capture(one, true);
	/* Laps with small pages that both have mapped, then laps in which they are exchanged.
	 */
	ts_write_relaxed(&one->no_huge, 1);
	fill_segments(one, two, 2 * one->shape.segment_count);
	cr_expect(eq(u32, huge_pieces(one), 0));
	ts_write_relaxed(&one->no_huge, 0);
	for (int i = 0; i < 4; i++) {
		ts_write_relaxed(&one->huge_pause, 0);
		fill_segments(one, two, one->shape.segment_count);
	}
	cr_expect(huge_pieces(one) > 0 || ts_load_relaxed(&one->no_huge),
		"neither a huge page nor a refusal");
	ts_store_detach(one);
	ts_store_detach(two);
}

Test(pages, dear_huge_pages_are_not_tried_for_a_while)
{
	struct ts_store *one = fixture_attach_sized(JOB_A, LARGE);
	struct ts_store *two = fixture_attach_sized(JOB_B, LARGE);

	fixture_capture(one, true);
	ts_write_relaxed(&one->huge_pause, 4);
	fill_segments(one, two, 3);
	cr_expect(eq(u32, huge_pieces(one), 0));
	cr_expect(lt(u32, ts_load_relaxed(&one->huge_pause), 4), "counted down");
	ts_store_detach(one);
	ts_store_detach(two);
}

Test(pages, a_complete_ring_does_not_ask_the_machine)
{
	struct ts_store *store = fixture_attach(JOB_A);

	for (uint32_t i = 0; i < store->shape.segment_count; i++)
		ts_write_relaxed(&store->segments[i].allocated, 1);
	/* The machine has room: it would say yes, as it does in the next test. */
	cr_expect(not(ts_limits_may_grow(store)));
	cr_expect(eq(u64, ts_load_relaxed(&store->grow_at), 0), "nor was it full");
	ts_store_detach(store);
}

Test(pages, a_full_machine_is_not_asked_at_every_segment)
{
	struct ts_store *store = fixture_attach(JOB_A);

	cr_expect(ts_limits_may_grow(store));
	ts_write_relaxed(&store->grow_at, UINT64_MAX);
	cr_expect(not(ts_limits_may_grow(store)));
	ts_write_relaxed(&store->grow_at, 1);
	cr_expect(ts_limits_may_grow(store));
	ts_store_detach(store);
}
