/* SPDX-License-Identifier: MIT */
/* Segments, pins, windows, forks, and cleaning up after the dead. */
#include "tests/unit/valgrind.h"
#include "fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(ring, .init = fixture_init, .fini = fixture_finish);

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

Test(ring, old_records_make_room_for_new_ones)
{
	struct ts_store *store = fixture_attach(JOB_A);

	fixture_capture(store, true);
	fixture_publish(store, fixture_key(1, 1), 1000, 1);
	turn_over(store, 3);
	cr_expect(not(fixture_hits(store, fixture_key(1, 1), 1000, 1)));
	ts_store_detach(store);
}

/* Memory is only what is written: the rest of such a ring is a hole. */
Test(ring, a_quarter_of_a_tebibyte_works_to_its_end)
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
	ts_store_detach(other);
	ts_store_detach(store);
}

Test(ring, leased_bytes_stay_while_everything_else_is_turned_over)
{
	struct ts_store *one = fixture_attach(JOB_A), *two = fixture_attach(JOB_B);

	fixture_capture(one, true);
	fixture_publish(one, fixture_key(1, 1), 100000, 42);
	struct ts_take take = fixture_take(two, fixture_key(1, 1));
	cr_assert(eq(int, take.verdict, TS_HIT));
	turn_over(one, 3);
	const unsigned char *data = take.lease.data;
	for (uint32_t i = 0; i < 100000; i++)
		cr_assert(eq(int, data[i], 42));
	cr_expect(fixture_hits(one, fixture_key(1, 1), 100000, 42), "still found, too");
	ts_lease_release(two, &take.lease);
	turn_over(one, 2);
	cr_expect(not(fixture_hits(one, fixture_key(1, 1), 100000, 42)));
	ts_store_detach(one);
	ts_store_detach(two);
}

Test(ring, reserved_bytes_stay_although_the_right_was_taken_over)
{
	struct ts_store *one = fixture_attach(JOB_A), *two = fixture_attach(JOB_B);
	struct ts_key key = fixture_key(1, 1);
	unsigned char *buffer;

	fixture_capture(one, true);
	struct ts_take claim = fixture_take(one, key), busy = fixture_take(two, key);
	cr_assert(eq(int, ts_claim_reserve(one, &claim.claim, 200000, (void **)&buffer), 0));
	ts_store_wait(two, &key, 1, &(struct ts_patience){0}, &busy);
	cr_assert(eq(int, busy.verdict, TS_CLAIM));
	ts_claim_abandon(two, &busy.claim);
	memset(buffer, 0x77, 200000);
	turn_over(two, 3);
	for (uint32_t i = 0; i < 200000; i++)
		cr_assert(eq(int, buffer[i], 0x77));
	cr_expect(eq(int, ts_claim_publish(one, &claim.claim, 200000, 1), -ESTALE));
	ts_store_detach(one);
	ts_store_detach(two);
}

/* Take leases in every segment until reclaiming finds none. */
Test(ring, a_ring_full_of_pins_refuses_and_recovers)
{
	struct ts_store *members[4];
	struct ts_lease leases[4 * TS_LEASES];
	uint32_t held = 0, refused = 0;
	void *buffer;

	for (uint32_t i = 0; i < 4; i++)
		members[i] = fixture_attach(JOB_A + i);
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
	for (uint32_t i = 0; i < 4; i++)
		ts_store_detach(members[i]);
}

Test(ring, an_idle_owner_loses_its_segment_when_every_one_is_open)
{
	struct ts_store *members[32];
	uint32_t count;
	void *buffer;

	members[0] = fixture_attach(JOB_A);
	count = members[0]->shape.segment_count;
	fixture_capture(members[0], true);
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
	for (uint32_t i = 0; i < count; i++)
		ts_store_detach(members[i]);
	ts_store_detach(late);
}

Test(ring, a_process_has_a_limited_number_of_leases)
{
	struct ts_store *store = fixture_attach(JOB_A);
	struct ts_take takes[TS_LEASES];

	fixture_capture(store, true);
	fixture_publish(store, fixture_key(1, 1), 100, 1);
	for (uint32_t i = 0; i < TS_LEASES; i++) {
		takes[i] = fixture_take(store, fixture_key(1, 1));
		cr_assert(eq(int, takes[i].verdict, TS_HIT));
	}
	struct ts_take more = fixture_take(store, fixture_key(1, 1));
	cr_expect(eq(int, more.verdict, TS_PASS));
	cr_expect(eq(int, more.reason, TS_REASON_NO_LEASE));
	ts_lease_release(store, &takes[3].lease);
	cr_expect(fixture_hits(store, fixture_key(1, 1), 100, 1));
	for (uint32_t i = 0; i < TS_LEASES; i++) {
		if (i != 3)
			ts_lease_release(store, &takes[i].lease);
	}
	ts_store_detach(store);
}

Test(ring, several_threads_produce_in_windows_of_their_own)
{
	struct ts_store *store = fixture_attach(JOB_A);
	struct ts_take takes[3];
	unsigned char *buffers[3];

	fixture_capture(store, true);
	for (uint32_t i = 0; i < 3; i++) {
		takes[i] = fixture_take(store, fixture_key(i, i + 1));
		cr_assert(eq(int,
			ts_claim_reserve(store, &takes[i].claim, 300000, (void **)&buffers[i]),
			0));
	}
	for (uint32_t i = 0; i < 3; i++)
		memset(buffers[i], (int)i + 1, 300000);
	for (uint32_t i = 3; i-- > 0;)
		cr_assert(eq(int, ts_claim_publish(store, &takes[i].claim, 300000, 1), 0));
	for (uint32_t i = 0; i < 3; i++)
		cr_expect(fixture_hits(store, fixture_key(i, i + 1), 300000, (int)i + 1));
	ts_store_detach(store);
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

Test(ring, only_the_open_segment_is_writable_and_only_for_its_owner)
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
	ts_store_detach(store);
}

/** What the child of a fork is given. */
struct family {
	struct ts_store *store;
	int32_t parent_member;
};

static int share_as_child(void *context)
{
	struct family *family = context;
	struct ts_store *store = family->store;

	if (ts_store_after_fork(store) != 0 || store->member == family->parent_member)
		return 1;
	if (!fixture_hits(store, fixture_key(1, 1), 1000, 1))
		return 2;
	fixture_publish(store, fixture_key(2, 2), 1000, 2);
	ts_store_detach(store);
	return 0;
}

Test(ring, the_child_of_a_fork_is_a_member_of_its_own)
{
	struct family family = {.store = fixture_attach(JOB_A)};
	void *buffer;

	family.parent_member = family.store->member;
	fixture_capture(family.store, true);
	fixture_publish(family.store, fixture_key(1, 1), 1000, 1);
	/* A reservation of the parent is open across the fork and stays the parent's. */
	struct ts_take take = fixture_take(family.store, fixture_key(3, 3));
	cr_assert(eq(int, ts_claim_reserve(family.store, &take.claim, 1000, &buffer), 0));
	memset(buffer, 3, 1000);
	cr_expect(eq(int, fixture_fork(share_as_child, &family), 0));
	cr_assert(eq(int, ts_claim_publish(family.store, &take.claim, 1000, 1), 0));
	cr_expect(fixture_hits(family.store, fixture_key(2, 2), 1000, 2));
	cr_expect(fixture_hits(family.store, fixture_key(3, 3), 1000, 3));
	cr_expect(eq(int, access(fixture_path("ring"), F_OK), 0), "the child was not the last");
	ts_store_detach(family.store);
	cr_expect(eq(int, access(fixture_path("ring"), F_OK), -1));
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

Test(ring, what_a_dead_member_held_is_given_back)
{
	struct ts_store *store = fixture_attach(JOB_A);
	uint32_t index = 1, open = 0;

	fixture_capture(store, true);
	fixture_publish(store, fixture_key(1, 1), 1000, 1);
	cr_assert(eq(int, WTERMSIG(fixture_fork(hold_everything_and_die, &index)), SIGKILL));
	cr_expect(ne(u64, store->members[1].lease[0], 0));
	cr_expect(eq(u32, ts_member_clean_all(store), 1));
	cr_expect(eq(int, ts_member_state(store->members[1].word), TS_MEMBER_FREE));
	for (uint32_t i = 0; i < TS_LEASES; i++)
		cr_expect(eq(u64, store->members[1].lease[i], 0));
	for (uint32_t i = 0; i < store->shape.segment_count; i++)
		open += ts_segment_state(store->segments[i].word) == TS_SEGMENT_OPEN;
	cr_expect(eq(u32, open, 1), "ours");
	turn_over(store, 2);
	ts_store_detach(store);
}

Test(ring, a_cleaner_that_died_is_followed_by_another)
{
	struct ts_store *store = fixture_attach(JOB_A);
	struct ts_segment *segment = &store->segments[3];

	/* Slot 9: its process is dead, and so is the one that cleaned up after it. */
	ts_write_relaxed(&store->header->member_high, 10);
	ts_write_relaxed(&store->members[9].word,
		ts_member_pack(TS_MEMBER_CLEANING, 7, (UINT64_C(1) << 24) | 4194303));
	ts_write_relaxed(&store->members[9].lease[2], ts_lease_pack(3, 0));
	ts_write_relaxed(&segment->word, ts_segment_pack(TS_SEGMENT_DRAIN, 9, 0));
	cr_expect(ts_member_clean(store, 9));
	cr_expect(eq(u64, store->members[9].word, ts_member_pack(TS_MEMBER_FREE, 8, 0)));
	cr_expect(eq(u64, store->members[9].lease[2], 0));
	cr_expect(eq(u64, segment->word, ts_segment_pack(TS_SEGMENT_SEALED, 0, 0)));
	ts_store_detach(store);
}

Test(ring, leaving_while_a_thread_still_reads_keeps_the_slot)
{
	struct ts_store *one = fixture_attach(JOB_A), *two = fixture_attach(JOB_B);
	int32_t member = one->member;

	fixture_capture(one, true);
	fixture_publish(one, fixture_key(1, 1), 1000, 6);
	struct ts_take take = fixture_take(one, fixture_key(1, 1));
	ts_store_detach(one);
	cr_expect(eq(int, ts_member_state(two->members[member].word), TS_MEMBER_LIVE));
	cr_expect(eq(int, ((const char *)take.lease.data)[999], 6), "still mapped and pinned");
	ts_store_detach(two);
}

Test(ring, usage_counts_what_is_in_the_segments)
{
	struct ts_store *store = fixture_attach(JOB_A);
	uint64_t capacity, used;

	fixture_usage(store, &capacity, &used);
	cr_expect(eq(u64, capacity, store->shape.segment_count << 20));
	cr_expect(eq(u64, used, 0));
	fixture_capture(store, true);
	fixture_publish(store, fixture_key(1, 1), 1000, 1);
	fixture_usage(store, &capacity, &used);
	cr_expect(ge(u64, used, 1000));
	cr_expect(le(u64, used, 2000));
	ts_store_detach(store);
}
