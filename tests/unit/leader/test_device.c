/* SPDX-License-Identifier: MIT */
/* Copies to a GPU, done once: who writes a slot, who reads it, who waits. */
#include "fixture_device.h"
#include "shim/sys.h"
#include "shim/identity.h"

#include <pthread.h>

TestSuite(device, .init = fixture_device_init, .fini = fixture_device_finish);

/* ---- slots ------------------------------------------------------------------------------ */

Test(device, one_writes_and_the_others_read)
{
	fixture_offer(gpu.a, 2);
	struct ts_device_take mine = fixture_device_take(gpu.a, 1);
	cr_assert(eq(int, mine.verdict, TS_CLAIM));
	struct ts_device_take theirs = fixture_device_take(gpu.b, 1);
	cr_expect(eq(int, theirs.verdict, TS_BUSY));
	cr_expect(not(theirs.mine));
	cr_expect(le(u64, theirs.since_ns, ts_now_ns()));
	theirs = fixture_device_take(gpu.a, 1);
	cr_expect(eq(int, theirs.verdict, TS_BUSY));
	cr_expect(theirs.mine);
	cr_expect(eq(int, ts_device_publish(gpu.a, &mine.hold), 0));
	cr_expect(eq(u32, fixture_device_hit(gpu.b, 1), mine.hold.slot));
	cr_expect(eq(u32, fixture_device_hit(gpu.a, 1), mine.hold.slot));
}

Test(device, an_offer_is_seen_while_it_lasts)
{
	uint32_t seen = 0;
	cr_expect(not(ts_device_is_offered(gpu.b, gpu.ring, &seen)));
	uint32_t generation = fixture_offer(gpu.a, 2);
	cr_expect(ts_device_is_offered(gpu.b, gpu.ring, &seen));
	cr_expect(eq(u32, seen, generation));
	cr_expect(eq(int, fixture_withdraw(gpu.a, 0), 0));
	cr_expect(not(ts_device_is_offered(gpu.b, gpu.ring, &seen)));
	cr_expect(not(ts_device_is_offered(gpu.b, TS_DEVICE_RINGS, &seen)), "no such row");
}

Test(device, all_members_count_what_is_looked_for_on_a_gpu)
{
	uint64_t looked, found;
	ts_device_count(gpu.a, gpu.ring, false);
	ts_device_count(gpu.b, gpu.ring, true);
	ts_device_count(gpu.a, TS_DEVICE_RINGS, true);
	ts_device_counts(gpu.a, gpu.ring, &looked, &found);
	cr_expect(eq(u64, looked, 2));
	cr_expect(eq(u64, found, 1));
	ts_device_counts(gpu.b, gpu.ring + 1, &looked, &found);
	cr_expect(eq(u64, looked, 0), "another GPU's");
	ts_device_counts(gpu.b, TS_DEVICE_RINGS, &looked, &found);
	cr_expect(eq(u64, looked, 0), "no such row");
}

Test(device, memory_is_one_members_until_it_says_otherwise)
{
	cr_expect(not(ts_device_memory_held(gpu.b, gpu.ring)));
	cr_expect(eq(int, ts_device_memory_begin(gpu.a, gpu.ring), 0));
	cr_expect(eq(int, ts_device_memory_begin(gpu.b, gpu.ring), -EEXIST));
	ts_device_memory_end(gpu.b, gpu.ring);
	cr_expect(ts_device_memory_held(gpu.b, gpu.ring), "it is not theirs to end");
	cr_expect(ts_device_memory_held(gpu.a, gpu.ring));
	ts_device_memory_end(gpu.a, gpu.ring);
	cr_expect(not(ts_device_memory_held(gpu.a, gpu.ring)));
	cr_expect(eq(int, ts_device_memory_begin(gpu.b, gpu.ring), 0));
	cr_expect(eq(int, ts_device_memory_begin(gpu.a, TS_DEVICE_RINGS), -EINVAL));
}

Test(device, memory_is_asked_back_at_a_time)
{
	uint64_t before = ts_now_ns();
	cr_expect(eq(u64, ts_device_memory_asked_ns(gpu.a, gpu.ring), 0));
	ts_device_memory_ask_back(gpu.b, gpu.ring);
	cr_expect(ge(u64, ts_device_memory_asked_ns(gpu.a, gpu.ring), before));
	cr_expect(le(u64, ts_device_memory_asked_ns(gpu.a, gpu.ring), ts_now_ns()));
}

Test(device, that_two_have_met_is_known_to_all)
{
	uint32_t other = gpu.ring + 1;
	cr_expect(not(ts_device_has_met(gpu.a, gpu.ring)));
	ts_device_meet(gpu.b, gpu.ring);
	cr_expect(ts_device_has_met(gpu.a, gpu.ring) && ts_device_has_met(gpu.b, gpu.ring));
	cr_expect(not(ts_device_has_met(gpu.a, other)), "of that GPU");
	cr_expect(not(ts_device_has_met(gpu.a, TS_DEVICE_ANY)));
	ts_device_meet(gpu.a, TS_DEVICE_ANY);
	cr_expect(ts_device_has_met(gpu.b, TS_DEVICE_ANY));
	cr_expect(not(ts_device_has_met(gpu.b, other)));
	cr_expect(not(ts_device_has_met(gpu.a, TS_DEVICE_RINGS)), "no row");
	ts_device_meet(gpu.a, TS_DEVICE_RINGS);
}

Test(device, a_slot_that_is_read_is_not_written)
{
	fixture_offer(gpu.a, 1);
	fixture_device_publish(gpu.a, 1);
	struct ts_device_take reader = fixture_device_take(gpu.b, 1);
	cr_assert(eq(int, reader.verdict, TS_HIT));
	struct ts_device_take got = fixture_device_take(gpu.a, 2);
	cr_expect(eq(int, got.verdict, TS_PASS));
	cr_expect(eq(int, got.error, -ENOBUFS));
	got = fixture_device_take(gpu.b, 2);
	cr_expect(eq(int, got.error, -ENOBUFS), "nor by who reads it");
	fixture_device_hit(gpu.a, 1);
	ts_device_release(gpu.b, &reader.hold);
	fixture_device_publish(gpu.a, 2);
	got = fixture_device_take(gpu.b, 1);
	cr_expect(eq(int, got.verdict, TS_CLAIM), "it is gone");
}

/* Whoever reads it: a job that is behind needs the others as long as the first one. */
Test(device, the_oldest_slot_goes_first)
{
	fixture_offer(gpu.a, 3);
	uint32_t one = fixture_device_publish(gpu.a, 1), two = fixture_device_publish(gpu.a, 2);
	fixture_device_publish(gpu.a, 3);
	fixture_device_hit(gpu.b, 1);
	cr_expect(eq(u32, fixture_device_publish(gpu.a, 4), one));
	cr_expect(eq(u32, fixture_device_publish(gpu.b, 5), two));
}

static void publish_all(struct ts_device *device, uint64_t first, uint64_t last)
{
	for (uint64_t number = first; number <= last; number++)
		fixture_device_publish(device, number);
}

static void hit_all(struct ts_device *device, uint64_t first, uint64_t last)
{
	for (uint64_t number = first; number <= last; number++)
		fixture_device_hit(device, number);
}

Test(device, who_is_behind_leaves_room_for_what_is_new)
{
	fixture_offer(gpu.a, 8);
	publish_all(gpu.a, 1, 40);
	publish_all(gpu.b, 1, 20);
	hit_all(gpu.a, 35, 40);
	/* Of a quarter those have something who are behind, too. */
	hit_all(gpu.a, 19, 20);
	publish_all(gpu.a, 41, 46);
	hit_all(gpu.b, 41, 46);
}

Test(device, who_is_behind_has_what_nobody_uses)
{
	fixture_offer(gpu.a, 8);
	publish_all(gpu.a, 1, 40);
	cr_assert(eq(int, fixture_withdraw(gpu.a, 0), 0));
	fixture_offer(gpu.a, 8);
	publish_all(gpu.b, 1, 8);
	hit_all(gpu.a, 1, 8);
}

Test(device, another_round_is_as_good_as_new)
{
	fixture_offer(gpu.a, 8);
	publish_all(gpu.a, 1, 40);
	publish_all(gpu.a, 1, 20);
	hit_all(gpu.b, 13, 20);
}

Test(device, the_next_oldest_slot_goes_where_the_oldest_is_read)
{
	fixture_offer(gpu.a, 2);
	fixture_device_publish(gpu.a, 1);
	uint32_t two = fixture_device_publish(gpu.a, 2);
	struct ts_device_take reader = fixture_device_take(gpu.b, 1);
	cr_expect(eq(u32, fixture_device_publish(gpu.a, 3), two));
	cr_expect(eq(int, fixture_slot(reader.hold.slot), TS_SLOT_READY), "put back");
	fixture_device_hit(gpu.a, 1);
}

Test(device, what_is_abandoned_others_write)
{
	fixture_offer(gpu.a, 2);
	struct ts_device_take got = fixture_device_take(gpu.a, 1);
	ts_device_abandon(gpu.a, &got.hold);
	fixture_device_publish(gpu.b, 1);
}

/* A deadline moves the right, never the slot. */
Test(device, who_loses_patience_writes_another_slot)
{
	fixture_offer(gpu.a, 2);
	struct ts_device_take slow = fixture_device_take(gpu.a, 1);
	struct ts_device_take fast = fixture_device_hurry(gpu.b, 1);
	cr_assert(eq(int, fast.verdict, TS_CLAIM));
	cr_expect(ne(u32, fast.hold.slot, slow.hold.slot));
	struct ts_device_take third = fixture_device_hurry(gpu.b, 2);
	cr_expect(eq(int, third.error, -ENOBUFS), "neither slot is to be had");
	cr_expect(eq(int, ts_device_publish(gpu.b, &fast.hold), 0));
	cr_expect(eq(int, ts_device_publish(gpu.a, &slow.hold), 0), "its slot was its own");
	fixture_device_hit(gpu.a, 1);
}

Test(device, who_will_be_late_says_so_for_one_turn)
{
	fixture_offer(gpu.a, 1);
	struct ts_device_take slow = fixture_device_take(gpu.a, 1);
	cr_expect(not(fixture_device_take(gpu.b, 1).late));
	ts_device_late(gpu.a, &slow.hold);
	struct ts_device_take theirs = fixture_device_take(gpu.b, 1);
	cr_expect(eq(int, theirs.verdict, TS_BUSY), "it is written all the same");
	cr_expect(theirs.late);
	cr_expect(eq(int, ts_device_publish(gpu.a, &slow.hold), 0));
	fixture_device_hit(gpu.b, 1);
	cr_assert(eq(int, fixture_device_take(gpu.a, 2).verdict, TS_CLAIM));
	theirs = fixture_device_take(gpu.b, 2);
	cr_expect(eq(int, theirs.verdict, TS_BUSY));
	cr_expect(not(theirs.late), "the next one in that slot need not be");
}

Test(device, who_is_not_late_is_waited_for)
{
	fixture_offer(gpu.a, 3);
	struct ts_device_take prompt = fixture_device_take(gpu.a, 1);
	struct ts_device_take slow = fixture_device_hurry(gpu.b, 1);
	cr_assert(eq(int, slow.verdict, TS_CLAIM));
	ts_device_late(gpu.b, &slow.hold);
	struct ts_device_take theirs = fixture_device_take(gpu.b, 1);
	cr_expect(eq(int, theirs.verdict, TS_BUSY));
	cr_expect(not(theirs.late));
	cr_expect(eq(u32, theirs.hold.slot, prompt.hold.slot));
	cr_expect(eq(int, ts_device_publish(gpu.a, &prompt.hold), 0));
	prompt = fixture_device_take(gpu.a, 2);
	ts_device_late(gpu.a, &prompt.hold);
	slow = fixture_device_hurry(gpu.b, 2);
	theirs = fixture_device_take(gpu.a, 2);
	cr_expect(not(theirs.late), "nor in the other order");
	cr_expect(eq(u32, theirs.hold.slot, slow.hold.slot));
}

Test(device, a_time_that_cannot_be_is_not_waited_for)
{
	fixture_offer(gpu.a, 2);
	struct ts_device_take slow = fixture_device_take(gpu.a, 1);
	ts_write_relaxed(
		&gpu.a->table->rows[gpu.ring].slots[slow.hold.slot].since_ns, UINT64_MAX / 2);
	cr_expect(eq(int, fixture_device_take(gpu.b, 1).verdict, TS_CLAIM));
}

Test(device, what_does_not_fit_passes)
{
	struct ts_key key = {.lo = 1, .hi = 2};
	struct ts_device_take got;

	cr_expect(eq(int, fixture_device_take(gpu.a, 1).error, -ENODEV), "no owner");
	uint32_t generation = fixture_offer(gpu.a, 1);
	ts_device_take(gpu.a, gpu.ring, generation, &key, SLOT_BYTES + 1, FOREVER, &got);
	cr_expect(eq(int, got.error, -EFBIG));
	ts_device_take(gpu.a, gpu.ring, generation, &key, 0, FOREVER, &got);
	cr_expect(eq(int, got.error, -EINVAL));
	ts_device_take(gpu.a, gpu.ring, generation + 1, &key, 1, FOREVER, &got);
	cr_expect(eq(int, got.error, -ESTALE), "other memory than the caller's");
	ts_device_take(gpu.a, TS_DEVICE_RINGS, generation, &key, 1, FOREVER, &got);
	cr_expect(eq(int, got.error, -EINVAL));
	cr_expect(eq(int, got.verdict, TS_PASS));
	ts_device_take(gpu.a, gpu.ring, generation, &key, SLOT_BYTES, FOREVER, &got);
	cr_expect(eq(int, got.verdict, TS_CLAIM), "a full slot fits");
}

Test(device, an_equal_key_of_another_size_is_another_one)
{
	uint32_t generation = fixture_offer(gpu.a, 2);
	struct ts_key key = {.lo = 1, .hi = ~UINT64_C(1)};
	struct ts_device_take got;

	fixture_device_publish(gpu.a, 1);
	ts_device_take(gpu.b, gpu.ring, generation, &key, 12, FOREVER, &got);
	cr_expect(eq(int, got.verdict, TS_CLAIM));
}

Test(device, a_process_holds_so_many_and_no_more)
{
	struct ts_device_take got[TS_DEVICE_HOLDS];

	fixture_offer(gpu.a, TS_DEVICE_SLOTS);
	fixture_device_publish(gpu.b, 1);
	for (uint32_t i = 0; i < TS_DEVICE_HOLDS; i++) {
		got[i] = fixture_device_take(gpu.a, i % 2 ? 1 : 100 + i);
		cr_assert(eq(int, got[i].verdict, i % 2 ? TS_HIT : TS_CLAIM));
	}
	cr_expect(eq(int, fixture_device_take(gpu.a, 1).error, -EUSERS));
	ts_device_release(gpu.a, &got[1].hold);
	fixture_device_hit(gpu.a, 1);
	ts_device_abandon(gpu.a, &got[0].hold);
	fixture_device_hit(gpu.a, 1);
	fixture_device_hit(gpu.b, 1);
}

/* ---- waiting ---------------------------------------------------------------------------- */

static void *publish_soon(void *context)
{
	uint32_t never_woken = 0;

	ts_sys_futex_wait(&never_woken, 0, 20000000);
	ts_device_publish(gpu.a, context);
	return NULL;
}

Test(device, a_wait_ends_when_it_is_published)
{
	pthread_t thread;

	fixture_offer(gpu.a, 1);
	struct ts_device_take mine = fixture_device_take(gpu.a, 1);
	struct ts_device_take busy = fixture_device_take(gpu.b, 1);
	cr_assert(eq(int, pthread_create(&thread, NULL, publish_soon, &mine.hold), 0));
	cr_expect(eq(int, ts_device_wait(gpu.b, &busy, UINT64_C(10000000000)), 0));
	pthread_join(thread, NULL);
	fixture_device_hit(gpu.b, 1);
	cr_expect(eq(int, ts_device_wait(gpu.b, &busy, 0), 0), "has ended for good");
}

Test(device, a_wait_has_an_end)
{
	fixture_offer(gpu.a, 1);
	struct ts_device_take mine = fixture_device_take(gpu.a, 1);
	struct ts_device_take busy = fixture_device_take(gpu.b, 1);
	uint64_t start = ts_now_ns();
	cr_expect(eq(int, ts_device_wait(gpu.b, &busy, 30000000), -ETIMEDOUT));
	cr_expect(ge(u64, ts_now_ns() - start, 30000000));
	cr_expect(eq(int, ts_device_wait(gpu.b, &mine, 0), -EINVAL), "not a BUSY one");
	cr_expect(eq(int, ts_device_publish(gpu.a, &mine.hold), 0), "with a sleeper's mark");
}

/* Rings of copies to a GPU: whose memory they are, who maps it, joining and leaving. */

static const uint8_t handle[TS_DEVICE_HANDLE] = "another place";

TestSuite(device_rings, .init = fixture_device_init, .fini = fixture_device_finish);

/* ---- rings ------------------------------------------------------------------------------ */

Test(device_rings, there_is_one_owner)
{
	struct ts_device_owner owner;

	cr_expect(eq(int, ts_device_owner(gpu.b, gpu.ring, &owner), -ENODEV));
	uint32_t generation = fixture_offer(gpu.a, 4);
	cr_expect(eq(int, ts_device_offer(gpu.b, gpu.ring, handle, 1, 1), -EEXIST));
	cr_expect(eq(int, ts_device_offer(gpu.a, gpu.ring, handle, 1, 1), -EEXIST));
	cr_assert(eq(int, ts_device_owner(gpu.b, gpu.ring, &owner), 0));
	cr_expect(not(owner.mine));
	cr_expect(eq(u32, owner.slot_count, 4));
	cr_expect(eq(u64, owner.slot_bytes, SLOT_BYTES));
	cr_expect(eq(u32, owner.generation, generation));
	cr_expect(eq(u32, owner.lost, 0));
	cr_assert(eq(int, ts_device_owner(gpu.a, gpu.ring, &owner), 0));
	cr_expect(owner.mine);
	cr_expect(eq(int, fixture_withdraw(gpu.b, 0), -ENOENT));
}

Test(device_rings, sizes_that_cannot_be_are_refused)
{
	cr_expect(eq(int, ts_device_offer(gpu.a, gpu.ring, handle, 0, 1), -EINVAL));
	cr_expect(eq(int, ts_device_offer(gpu.a, gpu.ring, handle, 1, 0), -EINVAL));
	cr_expect(eq(int, ts_device_offer(gpu.a, gpu.ring, handle, TS_DEVICE_SLOTS + 1, 1),
		-EINVAL));
	cr_expect(
		eq(int, ts_device_offer(gpu.a, gpu.ring, handle, 2, UINT64_MAX / 2), -EINVAL));
	cr_expect(eq(int, ts_device_offer(gpu.a, TS_DEVICE_RINGS, handle, 1, 1), -EINVAL));
}

Test(device_rings, memory_is_freed_when_nobody_uses_it)
{
	struct ts_device_owner owner;
	uint32_t generation = fixture_offer(gpu.a, 3);

	fixture_device_publish(gpu.a, 1);
	struct ts_device_take reader = fixture_device_take(gpu.b, 1);
	struct ts_device_take writer = fixture_device_take(gpu.b, 2);
	cr_expect(eq(int, fixture_withdraw(gpu.a, 0), 2));
	cr_expect(eq(int, fixture_device_take(gpu.b, 1).error, -ENODEV), "no new leases");
	cr_expect(eq(int, ts_device_owner(gpu.b, gpu.ring, &owner), -EBUSY));
	cr_expect(eq(int, ts_device_offer(gpu.b, gpu.ring, handle, 1, 1), -EEXIST));
	cr_expect(eq(int, ts_device_publish(gpu.b, &writer.hold), 0));
	cr_expect(eq(int, fixture_withdraw(gpu.a, 1000000), 1));
	ts_device_release(gpu.b, &reader.hold);
	cr_expect(eq(int, fixture_withdraw(gpu.a, 0), 0));
	cr_expect(eq(int, fixture_withdraw(gpu.a, 0), -ENOENT));
	cr_expect(eq(int, ts_device_owner(gpu.b, gpu.ring, &owner), -ENODEV));
	cr_expect(eq(u32, fixture_offer(gpu.b, 3), generation + 1));
	cr_expect(eq(int, fixture_device_take(gpu.a, 1).verdict, TS_CLAIM), "other memory");
}

Test(device_rings, memory_is_kept_while_another_maps_it)
{
	uint32_t generation = fixture_offer(gpu.a, 1);
	cr_expect(not(ts_device_is_mapped(gpu.a, gpu.ring, generation)));
	int map = ts_device_map_begin(gpu.b, gpu.ring, generation);
	cr_assert(ge(int, map, 0));
	cr_expect(ts_device_is_mapped(gpu.a, gpu.ring, generation));
	cr_expect(not(ts_device_is_mapped(gpu.a, gpu.ring, generation + 1)));
	cr_expect(not(ts_device_is_mapped(gpu.a, gpu.ring + 1, generation)));
	cr_expect(eq(int, fixture_withdraw(gpu.a, 0), 0), "nobody uses it");
	cr_expect(ts_device_is_mapped(gpu.a, gpu.ring, generation));
	uint32_t next = fixture_offer(gpu.a, 1);
	cr_expect(not(ts_device_is_mapped(gpu.a, gpu.ring, next)), "other memory");
	ts_device_map_end(gpu.b, (uint32_t)map);
	cr_expect(not(ts_device_is_mapped(gpu.a, gpu.ring, generation)));
}

Test(device_rings, what_is_kept_is_mapped_too)
{
	uint32_t generation = fixture_offer(gpu.a, 1);
	int map = ts_device_map_begin(gpu.b, gpu.ring, generation);
	cr_assert(ge(int, map, 0));
	cr_expect(not(ts_device_is_kept(gpu.a, gpu.ring, generation)), "being tried");
	ts_device_map_keep(gpu.b, TS_DEVICE_MAPS); /* nothing that map_begin() gave */
	ts_device_map_keep(gpu.b, (uint32_t)map);
	cr_expect(ts_device_is_kept(gpu.a, gpu.ring, generation));
	cr_expect(ts_device_is_mapped(gpu.a, gpu.ring, generation));
	cr_expect(not(ts_device_is_kept(gpu.a, gpu.ring, generation + 1)));
	cr_expect(not(ts_device_is_kept(gpu.a, gpu.ring + 1, generation)));
	ts_device_map_end(gpu.b, (uint32_t)map);
	cr_expect(not(ts_device_is_kept(gpu.a, gpu.ring, generation)));
	cr_expect(not(ts_device_is_mapped(gpu.a, gpu.ring, generation)));
}

Test(device_rings, what_is_not_offered_is_not_mapped)
{
	uint32_t generation = fixture_offer(gpu.a, 1);
	cr_expect(eq(int, ts_device_map_begin(gpu.b, gpu.ring, generation + 1), -ESTALE));
	cr_expect(eq(int, ts_device_map_begin(gpu.b, TS_DEVICE_RINGS, generation), -EINVAL));
	cr_expect(eq(int, fixture_withdraw(gpu.a, 0), 0));
	cr_expect(eq(int, ts_device_map_begin(gpu.b, gpu.ring, generation), -ESTALE));
	cr_expect(not(ts_device_is_mapped(gpu.a, gpu.ring, generation)));
	ts_device_map_end(gpu.b, TS_DEVICE_MAPS); /* nothing that it gave */
}

Test(device_rings, a_process_maps_so_many_and_no_more)
{
	int maps[TS_DEVICE_MAPS];
	uint32_t generation = fixture_offer(gpu.a, 1);
	for (uint32_t i = 0; i < TS_DEVICE_MAPS; i++) {
		maps[i] = ts_device_map_begin(gpu.b, gpu.ring, generation);
		cr_assert(ge(int, maps[i], 0));
	}
	cr_expect(eq(int, ts_device_map_begin(gpu.b, gpu.ring, generation), -EUSERS));
	for (uint32_t i = 0; i < TS_DEVICE_MAPS; i++) {
		cr_expect(ts_device_is_mapped(gpu.a, gpu.ring, generation));
		ts_device_map_end(gpu.b, (uint32_t)maps[i]);
	}
	cr_expect(not(ts_device_is_mapped(gpu.a, gpu.ring, generation)));
	cr_expect(ge(int, ts_device_map_begin(gpu.b, gpu.ring, generation), 0));
}

Test(device_rings, gpus_have_rows_of_their_own)
{
	uint8_t uuid[TS_DEVICE_UUID] = {1};

	fixture_offer(gpu.a, 1);
	for (uint32_t i = 1; i < TS_DEVICE_RINGS; i++) {
		uuid[1] = (uint8_t)i;
		cr_assert(eq(int, ts_device_find(gpu.b, uuid), (int)i));
		cr_assert(eq(int, ts_device_find(gpu.a, uuid), (int)i));
		cr_assert(eq(int, ts_device_offer(gpu.b, i, handle, 1, i), 0));
	}
	uuid[1] = 255;
	cr_expect(eq(int, ts_device_find(gpu.a, uuid), -ENOSPC));
}

/* ---- joining and leaving ---------------------------------------------------------------- */

Test(device_rings, who_holds_something_stays_a_member)
{
	fixture_offer(gpu.a, 1);
	fixture_device_publish(gpu.a, 1);
	struct ts_device *device = fixture_device_join(JOB_B);
	struct ts_device_take reader = fixture_device_take(device, 1);
	cr_assert(eq(int, reader.verdict, TS_HIT));
	fixture_detach(device->store);
	cr_expect(eq(int, fixture_device_take(gpu.a, 2).error, -ENOBUFS), "still read");
	cr_expect(eq(int, fixture_device_take(device, 1).error, -ESTALE), "nothing new");
	ts_device_release(device, &reader.hold);
	fixture_device_publish(gpu.a, 2);
}

Test(device_rings, who_maps_something_stays_a_member)
{
	uint32_t generation = fixture_offer(gpu.a, 1);
	struct ts_device *device = fixture_device_join(JOB_B);
	int map = ts_device_map_begin(device, gpu.ring, generation);
	cr_assert(ge(int, map, 0));
	fixture_detach(device->store);
	cr_expect(ts_device_is_mapped(gpu.a, gpu.ring, generation));
	cr_expect(eq(int, ts_device_map_begin(device, gpu.ring, generation), -ESTALE));
	ts_device_map_end(device, (uint32_t)map);
	cr_expect(not(ts_device_is_mapped(gpu.a, gpu.ring, generation)));
}

Test(device_rings, an_owner_that_leaves_takes_its_ring_along)
{
	struct ts_device_owner owner;
	struct ts_device *device = fixture_device_join(JOB_B);
	fixture_offer(device, 1);
	fixture_device_publish(gpu.a, 1);
	fixture_detach(device->store);
	cr_expect(eq(int, ts_device_owner(gpu.a, gpu.ring, &owner), -ENODEV));
	cr_expect(eq(int, ts_device_offer(device, gpu.ring, handle, 1, 1), -ESTALE));
	cr_expect(eq(int, ts_device_owner(device, gpu.ring, &owner), -ESTALE));
	cr_expect(eq(int, ts_device_attach(device->store, &device), -ESTALE), "nor this");
	fixture_offer(gpu.a, 1);
}

static int use_what_the_parent_has(void *context)
{
	struct ts_device_take *parents = context, got;
	struct ts_device_owner owner;
	struct ts_device *own;

	got = fixture_device_take(gpu.a, 1);
	bool inert = got.verdict == TS_PASS && got.error == -ECHILD;
	inert &= ts_device_owner(gpu.a, gpu.ring, &owner) == -ECHILD;
	inert &= ts_device_offer(gpu.a, gpu.ring, handle, 1, 1) == -ECHILD;
	inert &= fixture_withdraw(gpu.a, 0) == -ECHILD;
	inert &= ts_device_publish(gpu.a, &parents->hold) == -ECHILD;
	inert &= ts_device_map_begin(gpu.a, gpu.ring, 0) == -ECHILD;
	inert &= ts_device_is_mapped(gpu.a, gpu.ring, 0); /* not known */
	ts_device_abandon(gpu.a, &parents->hold);
	ts_device_release(gpu.a, &parents->hold);
	inert &= ts_device_find(gpu.a, handle) == -ECHILD;
	if (!inert || ts_store_after_fork(gpu.store_a) < 0 ||
		ts_device_attach(gpu.store_a, &own) < 0 || own == gpu.a)
		return 1;
	got = fixture_device_take(own, 1);
	inert = got.verdict == TS_BUSY;
	fixture_detach(gpu.store_a);
	return inert ? 0 : 2;
}

Test(device_rings, a_fork_child_has_nothing_of_its_parents)
{
	ts_identity_init();
	/* Joined again: who had attached before is another one now. */
	fixture_detach(gpu.store_a);
	gpu.store_a = fixture_attach(JOB_A);
	cr_assert(eq(int, ts_device_attach(gpu.store_a, &gpu.a), 0));
	fixture_offer(gpu.a, 1);
	struct ts_device_take mine = fixture_device_take(gpu.a, 1);
	cr_assert(eq(int, mine.verdict, TS_CLAIM));
	cr_expect(eq(int, fixture_fork(use_what_the_parent_has, &mine), 0));
	cr_expect(eq(int, fixture_slot(0), TS_SLOT_WRITING));
	cr_expect(eq(int, ts_device_publish(gpu.a, &mine.hold), 0));
}

Test(device_rings, the_second_attach_gives_what_the_first_gave)
{
	struct ts_device *again;

	cr_assert(eq(int, ts_device_attach(gpu.store_a, &again), 0));
	cr_expect(again == gpu.a);
}

Test(device_rings, the_last_one_out_removes_the_table)
{
	cr_expect(eq(int, access(fixture_path("device"), F_OK), 0));
	fixture_detach(gpu.store_a);
	cr_expect(eq(int, access(fixture_path("device"), F_OK), 0));
	fixture_detach(gpu.store_b);
	cr_expect(eq(int, access(fixture_path("device"), F_OK), -1));
	gpu.store_a = gpu.store_b = NULL;
}
