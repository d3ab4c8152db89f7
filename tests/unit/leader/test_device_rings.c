/* SPDX-License-Identifier: MIT */
/* Rings of copies to a GPU: whose memory they are, who maps it, joining and leaving. */
#include "fixture_device.h"

#include "shim/identity.h"
#include "shim/sys.h"

#include <string.h>
#include <unistd.h>

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
		int ring = ts_device_find(gpu.b, uuid);
		cr_assert(eq(int, ring, (int)i));
		cr_assert(eq(int, ts_device_find(gpu.a, uuid), ring));
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
	struct ts_store *store = fixture_attach(JOB_B);
	struct ts_device *device;
	cr_assert(eq(int, ts_device_attach(store, &device), 0));
	struct ts_device_take reader = fixture_device_take(device, 1);
	cr_assert(eq(int, reader.verdict, TS_HIT));
	ts_store_detach(store);
	cr_expect(eq(int, fixture_device_take(gpu.a, 2).error, -ENOBUFS), "still read");
	cr_expect(eq(int, fixture_device_take(device, 1).error, -ESTALE), "nothing new");
	ts_device_release(device, &reader.hold);
	fixture_device_publish(gpu.a, 2);
}

Test(device_rings, who_maps_something_stays_a_member)
{
	uint32_t generation = fixture_offer(gpu.a, 1);
	struct ts_store *store = fixture_attach(JOB_B);
	struct ts_device *device;
	cr_assert(eq(int, ts_device_attach(store, &device), 0));
	int map = ts_device_map_begin(device, gpu.ring, generation);
	cr_assert(ge(int, map, 0));
	ts_store_detach(store);
	cr_expect(ts_device_is_mapped(gpu.a, gpu.ring, generation));
	cr_expect(eq(int, ts_device_map_begin(device, gpu.ring, generation), -ESTALE));
	ts_device_map_end(device, (uint32_t)map);
	cr_expect(not(ts_device_is_mapped(gpu.a, gpu.ring, generation)));
}

Test(device_rings, an_owner_that_leaves_takes_its_ring_along)
{
	struct ts_device_owner owner;
	struct ts_store *store = fixture_attach(JOB_B);
	struct ts_device *device;

	cr_assert(eq(int, ts_device_attach(store, &device), 0));
	fixture_offer(device, 1);
	fixture_device_publish(gpu.a, 1);
	ts_store_detach(store);
	cr_expect(eq(int, ts_device_owner(gpu.a, gpu.ring, &owner), -ENODEV));
	cr_expect(eq(int, ts_device_offer(device, gpu.ring, handle, 1, 1), -ESTALE));
	cr_expect(eq(int, ts_device_owner(device, gpu.ring, &owner), -ESTALE));
	cr_expect(eq(int, ts_device_attach(store, &device), -ESTALE), "nor this");
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
	ts_store_detach(gpu.store_a);
	return inert ? 0 : 2;
}

Test(device_rings, a_fork_child_has_nothing_of_its_parents)
{
	ts_identity_init();
	/* Joined again: who had attached before is another one now. */
	ts_store_detach(gpu.store_a);
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
	ts_store_detach(gpu.store_a);
	cr_expect(eq(int, access(fixture_path("device"), F_OK), 0));
	ts_store_detach(gpu.store_b);
	cr_expect(eq(int, access(fixture_path("device"), F_OK), -1));
	gpu.store_a = gpu.store_b = NULL;
}
