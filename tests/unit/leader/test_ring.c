/* SPDX-License-Identifier: MIT */
/* Segments, pins, windows, forks, and cleaning up after the dead. */
#include "tests/unit/valgrind.h"
#include "fixture.h"

#include <sys/resource.h>

TestSuite(pages, .init = fixture_init, .fini = fixture_finish);
TestSuite(ring, .init = fixture_alone_init, .fini = fixture_finish);
TestSuite(ring_captured, .init = fixture_captured_init, .fini = fixture_finish);
TestSuite(ring_pair, .init = fixture_pair_init, .fini = fixture_finish);

/* Enough records of 400,000 bytes, two to a segment, to turn the ring over @turns times. */
static void turn_over(struct ts_store *store, uint32_t turns)
{
	static uint32_t next = 1000;

	for (uint32_t i = 0; i < turns * 2 * store->shape.segment_count; i++, next++) {
		fixture_capture(store, true);
		fixture_publish(store, fixture_key(next, next), 400000, (int)next);
		cr_assert(fixture_hits(store, fixture_key(next, next), 400000, (int)next));
	}
}

Test(ring_captured, old_records_make_room_for_new_ones)
{
	fixture_publish(joined.a, fixture_key(1, 1), 1000, 1);
	turn_over(joined.a, 3);
	cr_expect(not(fixture_hits(joined.a, fixture_key(1, 1), 1000, 1)));
}

/* Memory is only what is written: the rest of such a ring is a hole. */
Test(pages, a_quarter_of_a_tebibyte_works_to_its_end)
{
	const uint64_t bytes = UINT64_C(256) << 30;

	NOT_UNDER_VALGRIND("it has not as many addresses");
	cr_assert(eq(int, setenv("TSSHIM_TEST_ROOM", "4398046511104", 1), 0));
	struct ts_store *store = fixture_attach_sized(JOB_A, bytes);
	uint32_t count = store->shape.segment_count;
	cr_assert(gt(u64, (uint64_t)count * store->shape.segment_bytes, bytes / 100 * 99));
	/* All but the last two are somebody's who lives. */
	for (uint32_t i = 0; i + 2 < count; i++)
		ts_write_relaxed(&store->segments[i].word,
			ts_segment_pack(TS_SEGMENT_DRAIN, (uint32_t)store->member, 0));
	fixture_capture(store, true);
	/* So that they fill one segment and begin another. */
	uint64_t half = store->shape.segment_bytes / 2 - TS_PAGE_BYTES;
	for (uint32_t i = 0; i < 3; i++)
		fixture_publish(store, fixture_key(i, i + 1), half, (int)i);
	struct ts_store *other = fixture_attach_sized(JOB_B, bytes);
	for (uint32_t i = 0; i < 3; i++)
		cr_expect(fixture_hits(other, fixture_key(i, i + 1), half, (int)i));
	for (uint32_t i = count - 2; i < count; i++)
		cr_expect(ne(u64, store->segments[i].allocated, 0));
}

Test(ring_pair, leased_bytes_stay_while_everything_else_is_turned_over)
{
	fixture_publish(joined.a, fixture_key(1, 1), 100000, 42);
	struct ts_take take = fixture_take(joined.b, fixture_key(1, 1));
	cr_assert(eq(int, take.verdict, TS_HIT));
	turn_over(joined.a, 3);
	const unsigned char *data = take.lease.data;
	for (uint32_t i = 0; i < 100000; i++)
		cr_assert(eq(int, data[i], 42));
	cr_expect(fixture_hits(joined.a, fixture_key(1, 1), 100000, 42), "still found, too");
	ts_lease_release(joined.b, &take.lease);
	turn_over(joined.a, 2);
	cr_expect(not(fixture_hits(joined.a, fixture_key(1, 1), 100000, 42)));
}

Test(ring_pair, reserved_bytes_stay_although_the_right_was_taken_over)
{
	struct ts_key key = fixture_key(1, 1);
	unsigned char *buffer;

	struct ts_take claim = fixture_take(joined.a, key), busy = fixture_take(joined.b, key);
	cr_assert(
		eq(int, ts_claim_reserve(joined.a, &claim.claim, 200000, (void **)&buffer), 0));
	ts_store_wait(joined.b, &key, 1, &(struct ts_patience){0}, &busy);
	cr_assert(eq(int, busy.verdict, TS_CLAIM));
	ts_claim_abandon(joined.b, &busy.claim);
	memset(buffer, 0x77, 200000);
	turn_over(joined.b, 3);
	for (uint32_t i = 0; i < 200000; i++)
		cr_assert(eq(int, buffer[i], 0x77));
	cr_expect(eq(int, ts_claim_publish(joined.a, &claim.claim, 200000, 1), -ESTALE));
}

/* Take leases in every segment until reclaiming finds none. */
Test(ring, a_ring_full_of_pins_refuses_and_recovers)
{
	struct ts_store *members[4];
	struct ts_lease leases[4 * TS_LEASES];
	uint32_t held = 0, refused = 0;
	void *buffer;

	for (uint32_t i = 0; i < 4; i++)
		members[i] = i == 0 ? joined.a : fixture_attach(JOB_A + i);
	for (uint32_t i = 0; i < 20; i++) {
		struct ts_key key = fixture_key(i, i + 1);
		fixture_capture(members[0], true);
		struct ts_take take = fixture_take(members[0], key);
		cr_assert(eq(int, take.verdict, TS_CLAIM));
		int r = ts_claim_reserve(members[0], &take.claim, 500000, &buffer);
		if (r < 0) {
			cr_expect(eq(int, r, -ENOSPC));
			refused++;
			continue;
		}
		cr_assert(eq(int, ts_claim_publish(members[0], &take.claim, 500000, 1), 0));
		take = fixture_take(members[1 + held % 3], key);
		cr_assert(eq(int, take.verdict, TS_HIT));
		leases[held++] = take.lease;
	}
	cr_expect(gt(u32, refused, 0));
	cr_expect(ge(u32, held, 4));
	for (uint32_t i = 0; i < held; i++)
		ts_lease_release(members[1 + i % 3], &leases[i]);
	fixture_capture(members[0], true);
	fixture_publish(members[0], fixture_key(99, 99), 500000, 1);
}

Test(ring_captured, an_idle_owner_loses_its_segment_when_every_one_is_open)
{
	struct ts_store *members[32] = {joined.a};
	uint32_t count = joined.a->shape.segment_count;
	void *buffer;

	for (uint32_t i = 0; i < count; i++) {
		if (i > 0)
			members[i] = fixture_attach(JOB_A + i);
		fixture_publish(members[i], fixture_key(i, i + 1), 1000, 1);
	}
	struct ts_store *late = fixture_attach(JOB_B);
	fixture_publish(late, fixture_key(70, 70), 1000, 3);
	cr_expect(fixture_hits(members[0], fixture_key(70, 70), 1000, 3));
	/* Whoever lost it notices, and takes another one before writing again. */
	for (uint32_t i = 0; i < count; i++) {
		fixture_publish(members[i], fixture_key(100 + i, 100 + i), 1000, 4);
		cr_expect(fixture_hits(late, fixture_key(100 + i, 100 + i), 1000, 4));
	}
	/* A segment in which somebody holds a reservation is not taken. */
	struct ts_take take = fixture_take(late, fixture_key(80, 80));
	cr_assert(eq(int, ts_claim_reserve(late, &take.claim, 1000, &buffer), 0));
	memset(buffer, 5, 1000);
	for (uint32_t i = 0; i < 4 * count; i++) {
		fixture_capture(members[0], true); /* nobody takes them, which turns it off */
		fixture_publish(members[i % count], fixture_key(200 + i, 200 + i), 600000, 6);
	}
	cr_expect(eq(int, ts_claim_publish(late, &take.claim, 1000, 1), 0));
	cr_expect(fixture_hits(members[0], fixture_key(80, 80), 1000, 5));
}

Test(ring_captured, a_process_has_a_limited_number_of_leases)
{
	struct ts_take takes[TS_LEASES];

	fixture_publish(joined.a, fixture_key(1, 1), 100, 1);
	for (uint32_t i = 0; i < TS_LEASES; i++) {
		takes[i] = fixture_take(joined.a, fixture_key(1, 1));
		cr_assert(eq(int, takes[i].verdict, TS_HIT));
	}
	struct ts_take more = fixture_take(joined.a, fixture_key(1, 1));
	cr_expect(eq(int, more.verdict, TS_PASS));
	cr_expect(eq(int, more.reason, TS_REASON_NO_LEASE));
	ts_lease_release(joined.a, &takes[3].lease);
	cr_expect(fixture_hits(joined.a, fixture_key(1, 1), 100, 1));
	for (uint32_t i = 0; i < TS_LEASES; i++) {
		if (i != 3)
			ts_lease_release(joined.a, &takes[i].lease);
	}
}

Test(ring_captured, several_threads_produce_in_windows_of_their_own)
{
	struct ts_take takes[3];
	unsigned char *buffers[3];

	for (uint32_t i = 0; i < 3; i++) {
		takes[i] = fixture_take(joined.a, fixture_key(i, i + 1));
		cr_assert(eq(int,
			ts_claim_reserve(
				joined.a, &takes[i].claim, 300000, (void **)&buffers[i]),
			0));
	}
	for (uint32_t i = 0; i < 3; i++)
		memset(buffers[i], (int)i + 1, 300000);
	for (uint32_t i = 3; i-- > 0;)
		cr_assert(eq(int, ts_claim_publish(joined.a, &takes[i].claim, 300000, 1), 0));
	for (uint32_t i = 0; i < 3; i++)
		cr_expect(fixture_hits(joined.a, fixture_key(i, i + 1), 300000, (int)i + 1));
}

/* How many mappings of segments are writable in this process; found by inode number. */
static int writable_segments(struct ts_store *store)
{
	char line[512], access[8];
	unsigned long offset, inode;
	int count = 0;
	FILE *maps = fopen("/proc/self/maps", "r");

	cr_assert(maps != NULL);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%*s %7s %lx %*s %lu", access, &offset, &inode) == 3 &&
			inode == store->ring.inode && access[1] == 'w' &&
			offset >= store->shape.data_at)
			count++;
	}
	fclose(maps);
	return count;
}

Test(pages, only_the_open_segment_is_writable_and_only_for_its_owner)
{
	NOT_UNDER_VALGRIND("it shows other protections in /proc/self/maps");
	struct ts_store *store = fixture_attach(JOB_A);

	cr_expect(eq(int, writable_segments(store), 0));
	fixture_capture(store, true);
	fixture_publish(store, fixture_key(1, 1), 500000, 1);
	cr_expect(eq(int, writable_segments(store), 1));
	turn_over(store, 1);
	cr_expect(eq(int, writable_segments(store), 1));
	ts_segment_seal(store, &store->windows[0]);
	cr_expect(eq(int, writable_segments(store), 0));
}

static int share_as_child(void *parent_member)
{
	if (ts_store_after_fork(joined.a) != 0 || joined.a->member == *(int32_t *)parent_member)
		return 1;
	if (!fixture_hits(joined.a, fixture_key(1, 1), 1000, 1))
		return 2;
	fixture_publish(joined.a, fixture_key(2, 2), 1000, 2);
	fixture_detach(joined.a);
	return 0;
}

Test(ring_captured, the_child_of_a_fork_is_a_member_of_its_own)
{
	int32_t parent_member = joined.a->member;
	void *buffer;

	fixture_publish(joined.a, fixture_key(1, 1), 1000, 1);
	/* A reservation of the parent is open across the fork and stays the parent's. */
	struct ts_take take = fixture_take(joined.a, fixture_key(3, 3));
	cr_assert(eq(int, ts_claim_reserve(joined.a, &take.claim, 1000, &buffer), 0));
	memset(buffer, 3, 1000);
	cr_expect(eq(int, fixture_fork(share_as_child, &parent_member), 0));
	cr_assert(eq(int, ts_claim_publish(joined.a, &take.claim, 1000, 1), 0));
	cr_expect(fixture_hits(joined.a, fixture_key(2, 2), 1000, 2));
	cr_expect(fixture_hits(joined.a, fixture_key(3, 3), 1000, 3));
	cr_expect(fixture_exists("ring"), "the child was not the last");
	fixture_detach(joined.a);
	cr_expect(not(fixture_exists("ring")));
}

static int hold_everything_and_die(void *context)
{
	struct ts_store *store = fixture_attach(JOB_B);
	struct ts_take take = fixture_take(store, fixture_key(1, 1));
	void *buffer;

	if (take.verdict != TS_HIT)
		return 1;
	take = fixture_take(store, fixture_key(2, 2));
	if (take.verdict != TS_CLAIM || ts_claim_reserve(store, &take.claim, 100, &buffer) != 0)
		return 2;
	*(int32_t *)context = store->member;
	raise(SIGKILL);
	return 3;
}

Test(ring_captured, what_a_dead_member_held_is_given_back)
{
	uint32_t index = 1, open = 0;

	fixture_publish(joined.a, fixture_key(1, 1), 1000, 1);
	cr_assert(eq(int, WTERMSIG(fixture_fork(hold_everything_and_die, &index)), SIGKILL));
	cr_expect(ne(u64, joined.a->members[1].lease[0], 0));
	cr_expect(eq(u32, ts_member_clean_all(joined.a), 1));
	cr_expect(eq(int, ts_member_state(joined.a->members[1].word), TS_MEMBER_FREE));
	for (uint32_t i = 0; i < TS_LEASES; i++)
		cr_expect(eq(u64, joined.a->members[1].lease[i], 0));
	for (uint32_t i = 0; i < joined.a->shape.segment_count; i++)
		open += ts_segment_state(joined.a->segments[i].word) == TS_SEGMENT_OPEN;
	cr_expect(eq(u32, open, 1), "ours");
	turn_over(joined.a, 2);
}

Test(ring, a_cleaner_that_died_is_followed_by_another)
{
	struct ts_segment *segment = &joined.a->segments[3];

	/* Slot 9: its process is dead, and so is the one that cleaned up after it. */
	ts_write_relaxed(&joined.a->header->member_high, 10);
	ts_write_relaxed(&joined.a->members[9].word,
		ts_member_pack(TS_MEMBER_CLEANING, 7, (UINT64_C(1) << 24) | 4194303));
	ts_write_relaxed(&joined.a->members[9].lease[2], ts_lease_pack(3, 0));
	ts_write_relaxed(&segment->word, ts_segment_pack(TS_SEGMENT_DRAIN, 9, 0));
	cr_expect(ts_member_clean(joined.a, 9));
	cr_expect(eq(u64, joined.a->members[9].word, ts_member_pack(TS_MEMBER_FREE, 8, 0)));
	cr_expect(eq(u64, joined.a->members[9].lease[2], 0));
	cr_expect(eq(u64, segment->word, ts_segment_pack(TS_SEGMENT_SEALED, 0, 0)));
}

Test(ring_pair, leaving_while_a_thread_still_reads_keeps_the_slot)
{
	int32_t member = joined.a->member;

	fixture_publish(joined.a, fixture_key(1, 1), 1000, 6);
	struct ts_take take = fixture_take(joined.a, fixture_key(1, 1));
	fixture_detach(joined.a);
	cr_expect(eq(int, ts_member_state(joined.b->members[member].word), TS_MEMBER_LIVE));
	cr_expect(eq(int, ((const char *)take.lease.data)[999], 6), "still mapped and pinned");
}

Test(ring, usage_counts_what_is_in_the_segments)
{
	uint64_t capacity, used;

	fixture_usage(joined.a, &capacity, &used);
	cr_expect(eq(u64, capacity, joined.a->shape.segment_count << 20));
	cr_expect(eq(u64, used, 0));
	fixture_capture(joined.a, true);
	fixture_publish(joined.a, fixture_key(1, 1), 1000, 1);
	fixture_usage(joined.a, &capacity, &used);
	cr_expect(ge(u64, used, 1000));
	cr_expect(le(u64, used, 2000));
}

/* The memory behind segments: huge pages where the kernel gives them, growth, alignment. */

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
}

Test(pages, the_first_segment_of_a_process_costs_no_more_than_what_is_written)
{
	struct ts_store *one = fixture_attach_sized(JOB_A, LARGE);
	struct ts_store *two = fixture_attach_sized(JOB_B, LARGE);

	fixture_capture(one, true);
	fill_segments(one, two, 1);
	cr_assert(eq(u32, ts_load_relaxed(&one->openings), 1));
	cr_expect(eq(u32, huge_pieces(one), 0));
	cr_expect(eq(u64, ts_load_relaxed(&one->populated[0]), 0));
	fill_segments(one, two, 2);
	cr_expect(ne(u64, ts_load_relaxed(&one->populated[0]), 0),
		"the next ones are mapped at once");
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
}

Test(ring, a_complete_ring_does_not_ask_the_machine)
{
	for (uint32_t i = 0; i < joined.a->shape.segment_count; i++)
		ts_write_relaxed(&joined.a->segments[i].allocated, 1);
	/* The machine has room: it would say yes, as it does in the next test. */
	cr_expect(not(ts_limits_may_grow(joined.a, 1)));
	cr_expect(eq(u64, ts_load_relaxed(&joined.a->grow_at), 0), "nor was it full");
}

Test(ring, a_full_machine_is_not_asked_at_every_segment)
{
	cr_expect(ts_limits_may_grow(joined.a, 1));
	ts_write_relaxed(&joined.a->grow_at, UINT64_MAX);
	cr_expect(not(ts_limits_may_grow(joined.a, 1)));
	ts_write_relaxed(&joined.a->grow_at, 1);
	cr_expect(ts_limits_may_grow(joined.a, 1));
}

/* How a ring is cut, and which limits of the machine count. */

#define GIB (UINT64_C(1) << 30)

TestSuite(limits, .init = fixture_init, .fini = fixture_finish);

static const struct {
	uint64_t ring, segment;
} cuts[] = {
	{8 * MIB, 1 * MIB},
	{63 * MIB, 1 * MIB},
	{64 * MIB, 4 * MIB},
	{128 * MIB, 4 * MIB},
	{256 * MIB, 8 * MIB},
	{512 * MIB, 16 * MIB},
	{2 * GIB, 16 * MIB},
	{2 * GIB + MIB, 16 * MIB},
	{4 * GIB, 16 * MIB},
	{8 * GIB, 16 * MIB},
	{16 * GIB, 32 * MIB},
	{32 * GIB, 64 * MIB},
	{64 * GIB, 64 * MIB},
	{256 * GIB, 64 * MIB},
	{300 * GIB, 128 * MIB},
	{1024 * GIB, 256 * MIB},
	{2048 * GIB, 256 * MIB},
};

Test(limits, segments_follow_the_size_of_the_ring)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(cuts); i++) {
		struct ts_shape shape;
		cr_assert(eq(int, ts_limits_shape(cuts[i].ring, &shape), 0));
		cr_expect(eq(u64, shape.segment_bytes, cuts[i].segment), "case %zu", i);
		cr_expect(le(u64, shape.total_bytes, cuts[i].ring), "case %zu", i);
		cr_expect(ge(u32, shape.segment_count, 4), "case %zu", i);
		cr_expect(le(u32, shape.segment_count, TS_SEGMENT_MAX), "case %zu", i);
		cr_expect(eq(u64, shape.data_at % (uint64_t)sysconf(_SC_PAGESIZE), 0),
			"case %zu", i);
		if (shape.segment_bytes >= TS_HUGE_BYTES)
			cr_expect(eq(u64, shape.data_at % TS_HUGE_BYTES, 0), "case %zu", i);
		cr_expect(eq(u32, shape.set_count & (shape.set_count - 1), 0), "case %zu", i);
	}
}

Test(limits, large_rings_are_as_large_as_was_asked_for)
{
	static const uint64_t gib[] = {4, 16, 33, 64, 128, 256, 300, 512, 1024};

	for (size_t i = 0; i < TS_ARRAY_SIZE(gib); i++) {
		struct ts_shape shape;
		cr_assert(eq(int, ts_limits_shape(gib[i] * GIB, &shape), 0));
		cr_expect(ge(u64, shape.total_bytes, gib[i] * GIB - 2 * shape.segment_bytes),
			"%u GiB", (unsigned)gib[i]);
		cr_expect(le(u64, shape.control_bytes, gib[i] * GIB / 64 + MIB), "%u GiB",
			(unsigned)gib[i]);
	}
}

Test(limits, too_small_a_ring_is_no_ring)
{
	struct ts_shape shape = {.segment_count = 99};

	cr_expect(eq(int, ts_limits_shape(5 * MIB, &shape), -ENOSPC));
	cr_expect(eq(int, ts_limits_shape(0, &shape), -ENOSPC));
	cr_expect(eq(u32, shape.segment_count, 99), "the output is untouched on failure");
}

/* A folder with control groups. */
static char root[] = "/tmp/tsshim-cgroup-XXXXXX";

static void begin_groups(void)
{
	fixture_init();
	cr_assert(mkdtemp(root) != NULL);
}

static void end_groups(void)
{
	char command[512];

	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	cr_expect(eq(int, system(command), 0));
	fixture_finish();
}

TestSuite(limits_groups, .init = begin_groups, .fini = end_groups);

/* Without a text, a group. */
static void put(const char *path, const char *text)
{
	char full[512];

	snprintf(full, sizeof(full), "%s/%s", root, path);
	if (!text) {
		cr_assert(eq(int, mkdir(full, 0700), 0), "%s", full);
		return;
	}
	FILE *file = fopen(full, "w");
	cr_assert(file != NULL, "%s", full);
	fputs(text, file);
	fclose(file);
}

static uint64_t headroom(void)
{
	char list[512];

	snprintf(list, sizeof(list), "%s/list", root);
	return ts_limits_cgroup(list, root, false);
}

static uint64_t limit(void)
{
	char list[512];

	snprintf(list, sizeof(list), "%s/list", root);
	return ts_limits_cgroup(list, root, true);
}

Test(limits_groups, the_tightest_group_above_us_counts)
{
	put("a", NULL);
	put("a/b", NULL);
	put("list", "0::/a/b\n");
	put("a/memory.max", "1000000\n");
	put("a/memory.current", "900000\n");
	put("a/b/memory.max", "max\n");
	put("a/b/memory.current", "800000\n");
	cr_expect(eq(u64, headroom(), 100000));
	cr_expect(eq(u64, limit(), 1000000), "whatever is used");
	put("a/b/memory.max", "850000\n");
	cr_expect(eq(u64, headroom(), 50000));
	cr_expect(eq(u64, limit(), 850000));
	put("a/b/memory.stat", "anon 1\ninactive_file 20000\nslab 3\n");
	cr_expect(eq(u64, headroom(), 70000), "clean page cache is free");
	put("memory.max", "10\n");
	put("memory.current", "20\n");
	cr_expect(eq(u64, headroom(), 0), "the root of what we see counts as well");
}

Test(limits_groups, the_first_version_of_the_controller_counts)
{
	put("memory", NULL);
	put("memory/job", NULL);
	put("list", "9:name=systemd:/\n4:cpu,memory:/job\n3:hugememory:/job\n0::/\n");
	put("memory/memory.limit_in_bytes", "9223372036854771712\n");
	put("memory/memory.usage_in_bytes", "5\n");
	put("memory/job/memory.limit_in_bytes", "1000\n");
	put("memory/job/memory.usage_in_bytes", "400\n");
	cr_expect(eq(u64, headroom(), 600));
	cr_expect(eq(u64, limit(), 1000));
}

Test(limits, no_group_is_no_limit)
{
	const char *none = "/proc/nonexistent";

	cr_expect(eq(u64, ts_limits_cgroup(none, none, false), UINT64_MAX));
	cr_expect(eq(u64, ts_limits_cgroup(none, none, true), UINT64_MAX));
}

Test(limits, a_ring_without_a_size_follows_the_memory)
{
	static const struct {
		uint64_t memory, ring;
	} rings[] = {{0, 2 * GIB}, {8 * GIB, 2 * GIB}, {32 * GIB, 2 * GIB}, {48 * GIB, 3 * GIB},
		{1024 * GIB, 64 * GIB}};
	uint32_t why;

	for (size_t i = 0; i < TS_ARRAY_SIZE(rings); i++) {
		cr_expect(eq(u64, ts_limits_ring(TS_RING_AUTO, rings[i].memory, &why),
			rings[i].ring));
		cr_expect(eq(u64, (uint64_t)why << 20, rings[i].memory));
	}
	cr_expect(eq(u64, ts_limits_ring(64 * MIB, 1024 * GIB, &why), 64 * MIB));
	cr_expect(eq(u32, why, 0), "as was asked");
}

Test(limits, where_files_may_not_be_so_large_the_ring_is_not)
{
	struct rlimit most = {.rlim_cur = 8 * GIB, .rlim_max = RLIM_INFINITY};
	uint32_t why;

	cr_assert(eq(int, setrlimit(RLIMIT_FSIZE, &most), 0));
	cr_expect(eq(u64, ts_limits_ring(TS_RING_AUTO, 128 * GIB, &why), 8 * GIB));
	cr_expect(eq(u64, ts_limits_ring(TS_RING_AUTO, 160 * GIB, &why), 2 * GIB));
}

Test(limits, the_first_job_decides_and_the_ring_says_why)
{
	const uint32_t memory = (uint32_t)(ts_limits_memory() >> 20);

	cr_assert(eq(int, setenv("TSSHIM_TEST_ROOM", "67108864", 1), 0));
	struct ts_store *first = fixture_attach_sized(JOB_A, TS_RING_AUTO);
	struct ts_store *next = fixture_attach_sized(JOB_B, 16 * MIB);
	cr_expect(eq(u32, first->header->why, memory | TS_RING_CUT));
	cr_expect(le(u64, first->shape.total_bytes, 64 * MIB));
	cr_expect(eq(u64, next->shape.total_bytes, first->shape.total_bytes));
}

Test(limits, five_per_cent_of_a_finite_address_space_are_ours)
{
	NOT_EMULATED("it knows no RLIMIT_AS");
	struct rlimit limit = {.rlim_cur = UINT64_C(100) << 40, .rlim_max = RLIM_INFINITY};

	cr_expect(eq(u64, ts_limits_address_space(), UINT64_MAX));
	cr_assert(eq(int, setrlimit(RLIMIT_AS, &limit), 0));
	cr_expect(eq(u64, ts_limits_address_space(), UINT64_C(5) << 40));
}

/* Before anything is made: a skipped test does not tidy up. */
static void skip_where_address_space_is_needed(void)
{
	NOT_EMULATED("it knows no RLIMIT_AS");
#ifdef __SANITIZE_ADDRESS__
	cr_skip_test("the address sanitizer itself needs terabytes of address space");
#endif
}

static void limit_address_space(uint64_t bytes)
{

	struct rlimit limit = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};

	cr_assert(eq(int, setrlimit(RLIMIT_AS, &limit), 0));
}

Test(limits, a_finite_address_space_shrinks_the_ring)
{
	uint64_t capacity, used;

	skip_where_address_space_is_needed();
	limit_address_space(140 * MIB); /* 5 % are 7 MiB */
	struct ts_store *store = fixture_attach(JOB_A);
	fixture_usage(store, &capacity, &used);
	limit_address_space(RLIM_INFINITY);
	cr_expect(eq(u64, capacity, 5 * MIB));
}

Test(limits, a_ring_larger_than_our_address_space_allows_is_not_mapped)
{
	enum ts_reason reason;

	skip_where_address_space_is_needed();
	(void)fixture_attach(JOB_A);
	limit_address_space(140 * MIB);
	cr_expect(eq(int, fixture_refused(RING_BYTES, &reason), -ENOSPC));
	limit_address_space(RLIM_INFINITY);
	cr_expect(eq(int, reason, TS_REASON_NO_SPACE));
}

Test(limits, no_ring_and_too_small_a_ring_leave_nothing_behind)
{
	enum ts_reason reason;

	fixture_refused(0, &reason);
	cr_expect(eq(int, reason, TS_REASON_DISABLED));
	cr_expect(not(fixture_exists("ring")));
	cr_expect(eq(int, fixture_refused(2 * MIB, &reason), -ENOSPC));
	cr_expect(eq(int, reason, TS_REASON_NO_SPACE));
	cr_expect(not(fixture_exists("ring")));
}
