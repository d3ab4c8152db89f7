/* SPDX-License-Identifier: MIT */
/* Records larger than a segment: runs of adjacent segments. */
#include "fixture.h"

#define MIB (UINT64_C(1) << 20)

/* Of three of the six segments that the ring of these tests has, and of two. */
#define HALF (3 * MIB - TS_PAGE_BYTES)
#define PAIR (2 * MIB - TS_PAGE_BYTES)

TestSuite(runs, .init = fixture_captured_init, .fini = fixture_finish, .timeout = 60);
TestSuite(runs_pair, .init = fixture_pair_init, .fini = fixture_finish, .timeout = 60);
TestSuite(runs_kept, .init = fixture_init, .fini = fixture_finish, .timeout = 60);
TestSuite(runs_killed, .init = fixture_init, .fini = fixture_finish, .timeout = 120);

/* Bytes that differ from page to page, so that none may lie elsewhere. */
static void fill(unsigned char *bytes, uint64_t count, int value)
{
	for (uint64_t i = 0; i < count; i++)
		bytes[i] = (unsigned char)((uint64_t)value + i / 4096 * 7 + i);
}

static bool is_filled(const unsigned char *bytes, uint64_t count, int value)
{
	for (uint64_t i = 0; i < count; i++)
		if (bytes[i] != (unsigned char)((uint64_t)value + i / 4096 * 7 + i))
			return false;
	return true;
}

static struct ts_key key_of(int value)
{
	return fixture_key((uint32_t)value, (uint32_t)value + 1);
}

/* Claim the record @value and reserve @bytes for it. */
static int reserve(struct ts_store *store, int value, uint64_t bytes, struct ts_take *ret_take,
	unsigned char **ret_buffer)
{
	fixture_capture(store, true);
	*ret_take = fixture_take(store, key_of(value));
	cr_assert(eq(int, ret_take->verdict, TS_CLAIM), "reason %d", (int)ret_take->reason);
	return ts_claim_reserve(store, &ret_take->claim, bytes, (void **)ret_buffer);
}

static void publish(struct ts_store *store, int value, uint64_t bytes)
{
	struct ts_take take;
	unsigned char *buffer;

	cr_assert(eq(int, reserve(store, value, bytes, &take, &buffer), 0), "record %d", value);
	fill(buffer, bytes, value);
	cr_assert(eq(int, ts_claim_publish(store, &take.claim, bytes, 1000), 0));
}

static bool hits(struct ts_store *store, int value, uint64_t bytes)
{
	struct ts_take take = fixture_take(store, key_of(value));

	if (take.verdict == TS_CLAIM)
		ts_claim_abandon(store, &take.claim);
	if (take.verdict != TS_HIT)
		return false;
	bool right = take.lease.bytes == bytes && is_filled(take.lease.data, bytes, value);
	cr_expect(right, "record %d has other bytes", value);
	ts_lease_release(store, &take.lease);
	return right;
}

/* Whether it is there; asks for nothing. */
static bool is_there(struct ts_store *store, int value)
{
	struct ts_key key = key_of(value);
	struct ts_take take;

	ts_store_find(store, &key, &take);
	if (take.verdict == TS_HIT)
		ts_lease_release(store, &take.lease);
	return take.verdict == TS_HIT;
}

/* Publish so many records of @bytes, the first of them @first, and take each. */
static void turn_over(struct ts_store *store, int first, int count, uint64_t bytes)
{
	for (int value = first; value < first + count; value++) {
		publish(store, value, bytes);
		cr_assert(hits(store, value, bytes), "%d", value);
	}
}

static uint32_t count_free(struct ts_store *store)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < store->shape.segment_count; i++)
		found += ts_segment_is_free(store, i, store->segments[i].word);
	return found;
}

Test(runs_pair, a_record_fills_adjacent_segments)
{
	struct ts_take take;
	unsigned char *buffer;
	uint64_t capacity, used;

	cr_assert(eq(int, reserve(joined.a, 1, 2 * MIB + 5, &take, &buffer), 0));
	cr_expect(eq(u64, (uintptr_t)buffer % TS_PAGE_BYTES, 0));
	fill(buffer, 2 * MIB + 5, 1);
	cr_expect(eq(int, fixture_take(joined.b, key_of(1)).verdict, TS_BUSY));
	cr_assert(eq(int, ts_claim_publish(joined.a, &take.claim, 2 * MIB + 5, 1), 0));
	cr_expect(hits(joined.b, 1, 2 * MIB + 5));
	cr_expect(hits(joined.a, 1, 2 * MIB + 5));
	uint32_t head = ts_where_segment(take.claim.origin);
	uint64_t word = joined.a->segments[head].word;
	cr_expect(eq(int, ts_segment_state(word), TS_SEGMENT_SEALED));
	cr_expect(eq(u32, ts_segment_tied(word), 2));
	for (uint32_t i = 1; i <= 2; i++)
		cr_expect(eq(int, ts_segment_state(joined.a->segments[head + i].word),
			TS_SEGMENT_TIED));
	cr_expect(eq(u32, count_free(joined.a), 3));
	fixture_usage(joined.a, &capacity, &used);
	cr_expect(ge(u64, used, 2 * MIB + 5));
	cr_expect(le(u64, used, 2 * MIB + 5 + TS_PAGE_BYTES + 64));
}

Test(runs_pair, others_share_while_one_is_written)
{
	struct ts_take take;
	unsigned char *buffer;

	cr_assert(eq(int, reserve(joined.a, 1, HALF, &take, &buffer), 0));
	for (int piece = 0; piece < 3; piece++) {
		memset(buffer + (uint64_t)piece * MIB, piece, MIB / 2);
		turn_over(joined.b, 10 + 20 * piece, 20, 400000);
		turn_over(joined.a, 100 + 20 * piece, 20, 400000);
	}
	fill(buffer, HALF, 1);
	cr_assert(eq(int, ts_claim_publish(joined.a, &take.claim, HALF, 1), 0));
	cr_expect(hits(joined.b, 1, HALF));
}

Test(runs, a_run_goes_as_a_whole_and_in_its_turn)
{
	publish(joined.a, 1, PAIR);
	publish(joined.a, 2, PAIR);
	publish(joined.a, 3, PAIR);
	publish(joined.a, 4, PAIR);
	cr_expect(not(hits(joined.a, 1, PAIR)), "the oldest went");
	for (int value = 2; value <= 4; value++)
		cr_expect(hits(joined.a, value, PAIR), "%d", value);
	/* All of a run is used again by single segments. */
	turn_over(joined.a, 10, 2, 900000);
	cr_expect(not(hits(joined.a, 2, PAIR)));
	cr_expect(hits(joined.a, 3, PAIR));
	cr_expect(hits(joined.a, 4, PAIR));
}

Test(runs, the_oldest_neighbours_make_room)
{
	for (int value = 1; value <= 6; value++)
		publish(joined.a, value, 900000);
	ts_segment_seal(joined.a, &joined.a->windows[0]);
	publish(joined.a, 10, HALF);
	cr_expect(hits(joined.a, 10, HALF));
	for (int value = 1; value <= 6; value++)
		cr_expect(eq(int, hits(joined.a, value, 900000), value > 3), "%d", value);
}

Test(runs, runs_of_all_sizes_follow_one_another)
{
	static const uint64_t sizes[] = {HALF, 900000, PAIR, MIB, HALF, PAIR, 5000, HALF, PAIR};

	for (int i = 0; i < 200; i++) {
		uint64_t bytes = sizes[(unsigned)i * 7 % TS_ARRAY_SIZE(sizes)];
		publish(joined.a, i, bytes);
		cr_assert(hits(joined.a, i, bytes), "%d", i);
	}
}

Test(runs_pair, leased_bytes_of_a_run_stay)
{
	publish(joined.a, 1, HALF);
	struct ts_take take = fixture_take(joined.b, key_of(1));
	cr_assert(eq(int, take.verdict, TS_HIT));
	turn_over(joined.a, 10, 40, 400000);
	for (int value = 60; value < 66; value++) {
		publish(joined.a, value, PAIR);
		cr_assert(hits(joined.a, value, PAIR));
	}
	cr_expect(is_filled(take.lease.data, HALF, 1));
	cr_expect(hits(joined.a, 1, HALF), "still found, too");
	ts_lease_release(joined.b, &take.lease);
	publish(joined.a, 70, HALF);
	publish(joined.a, 71, HALF);
	cr_expect(not(hits(joined.a, 1, HALF)));
}

Test(runs, what_is_given_up_is_free_at_once)
{
	struct ts_take take;
	unsigned char *buffer;

	for (int i = 0; i < 20; i++) {
		cr_assert(eq(int, reserve(joined.a, i, HALF, &take, &buffer), 0));
		cr_expect(eq(u32, count_free(joined.a), 3));
		ts_claim_abandon(joined.a, &take.claim);
		cr_assert(eq(u32, count_free(joined.a), 6));
	}
}

Test(runs_pair, where_no_place_is_large_enough_nothing_is_held)
{
	struct ts_take one, take;
	struct ts_lease leases[2];
	unsigned char *buffer;

	/* Of six in a row the third and fourth are read. */
	for (int value = 0; value < 6; value++)
		publish(joined.a, value, 900000);
	for (int value = 0; value < 6; value++) {
		one = fixture_take(joined.b, key_of(value));
		cr_assert(eq(int, one.verdict, TS_HIT));
		uint32_t index = ts_where_segment(one.lease.origin);
		if (index == 2 || index == 3)
			leases[index - 2] = one.lease;
		else
			ts_lease_release(joined.b, &one.lease);
	}
	cr_expect(eq(int, reserve(joined.a, 10, HALF, &take, &buffer), -ENOSPC));
	publish(joined.a, 11, PAIR);
	cr_expect(hits(joined.b, 11, PAIR));
	for (int i = 0; i < 2; i++)
		ts_lease_release(joined.b, &leases[i]);
	publish(joined.a, 12, HALF);
	cr_expect(hits(joined.b, 12, HALF));
}

Test(runs_kept, what_nobody_asked_for_evicts_nothing)
{
	struct ts_attach_options options = {
		.ring_bytes = RING_BYTES, .job = JOB_A, .keep = 600};
	struct ts_store *store;
	enum ts_reason reason;
	struct ts_take take;
	void *buffer;

	strcpy(options.group, fixture_group());
	cr_assert(eq(int, ts_store_attach(&options, &store, &reason), 0));
	for (int i = 0; i < 2; i++) {
		take = fixture_take(store, key_of(i));
		cr_assert(eq(int, take.verdict, TS_CLAIM));
		cr_assert(eq(int, ts_claim_reserve(store, &take.claim, HALF, &buffer), 0));
		fill(buffer, HALF, i);
		cr_assert(eq(int, ts_claim_publish(store, &take.claim, HALF, 1), 0));
	}
	take = fixture_take(store, key_of(2));
	cr_assert(eq(int, take.verdict, TS_CLAIM));
	cr_expect(eq(int, ts_claim_reserve(store, &take.claim, PAIR, &buffer), -ENOSPC));
	cr_expect(hits(store, 0, HALF) && hits(store, 1, HALF));
	ts_store_detach(store);
}

/* Words that nobody writes: what they lead to is not read. */
Test(runs, a_run_that_is_not_whole_is_a_miss)
{
	struct ts_store *store = joined.a;
	struct ts_take take;

	publish(store, 1, HALF);
	take = fixture_take(store, key_of(1));
	uint32_t head = ts_where_segment(take.lease.origin);
	ts_lease_release(store, &take.lease);
	uint64_t words[] = {store->segments[head].word, store->segments[head + 2].word};
	ts_write_relaxed(
		&store->segments[head + 2].word, ts_segment_pack(TS_SEGMENT_OPEN, 77, 3));
	cr_expect(not(is_there(store, 1)));
	ts_write_relaxed(&store->segments[head + 2].word, words[1]);
	ts_write_relaxed(&store->segments[head + 1].allocated, 0);
	cr_expect(not(is_there(store, 1)));
	ts_write_relaxed(&store->segments[head + 1].allocated, 1);
	ts_write_relaxed(
		&store->segments[head].word, words[0] | ts_segment_tied_put(UINT64_MAX));
	cr_expect(not(is_there(store, 1)));
	ts_write_relaxed(&store->segments[head].word, words[0]);
	cr_expect(hits(store, 1, HALF));
}

/* ---- producers that die ------------------------------------------------------------------ */

static int produce_and_die(void *point)
{
	setenv("TSSHIM_TEST_KILL", point, 1);
	struct ts_store *store = fixture_attach(JOB_B);
	/* Two in a row: the second one evicts, and takes what the first has left. */
	for (int value = 50; value < 54; value++)
		publish(store, value, HALF);
	return 0;
}

/* Each place in the life of a run, at its first and at further visits. */
static const char *const places[] = {"segment_open:1", "segment_open:3", "reserve_pin:1",
	"segment_tied:1", "segment_tied:2", "segment_tied:3", "segment_tied:5",
	"segment_allocated:1", "segment_allocated:2", "segment_allocated:6", "segment_mapped:1",
	"segment_mapped:3", "reserve_header:1", "publish_bytes:1", "publish_bytes:3",
	"publish_where:1", "publish_ready:1", "publish_ready:3", "segment_seal:1",
	"segment_seal:3", "segment_drain:1", "segment_scan:1", "segment_freed:1"};

Test(runs_killed, who_dies_anywhere_leaves_a_ring_that_can_be_used)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(places); i++) {
		joined.a = fixture_attach(JOB_A);
		cr_assert(
			fixture_is_killed(produce_and_die, (void *)places[i]), "%s", places[i]);
		/* Whole, or not there. */
		for (int value = 50; value < 54; value++)
			(void)hits(joined.a, value, HALF);
		ts_member_clean_all(joined.a);
		if (strcmp(places[i], "publish_ready:1") == 0 ||
			strcmp(places[i], "segment_seal:1") == 0)
			cr_expect(hits(joined.a, 50, HALF), "it was published");
		for (int value = 0; value < 4; value++) {
			int name = 100 + (int)i * 10 + value;
			publish(joined.a, name, HALF);
			cr_assert(hits(joined.a, name, HALF), "%s", places[i]);
		}
		turn_over(joined.a, 1000 + (int)i * 20, 14, 900000);
		for (uint32_t s = 0; s < joined.a->shape.segment_count; s++)
			cr_expect(ne(u32, ts_segment_owner(joined.a->segments[s].word), 1),
				"%s: segment %u", places[i], s);
		fixture_detach(joined.a);
	}
}
