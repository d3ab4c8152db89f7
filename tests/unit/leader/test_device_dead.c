/* SPDX-License-Identifier: MIT */
/* Copies to a GPU: what the dead leave behind. */
#include "../clock.h"
#include "fixture_device.h"

#include "shim/sys.h"

#include <string.h>
#include <unistd.h>

TestSuite(device_dead, .init = fixture_device_init, .fini = fixture_device_finish);

static void take_one(struct ts_device *device)
{
	(void)fixture_device_take(device, 1);
}

static void offer(struct ts_device *device)
{
	fixture_offer(device, 2);
}

static void publish_one(struct ts_device *device)
{
	fixture_device_publish(device, 1);
}

Test(device_dead, a_reader_costs_nothing)
{
	fixture_offer(gpu.a, 1);
	fixture_device_publish(gpu.a, 1);
	fixture_device_die(NULL, take_one);
	fixture_device_publish(gpu.b, 2);
}

/* The next one in its place of the member table has other words than it left there. */
Test(device_dead, a_readers_place_is_given_away)
{
	fixture_offer(gpu.a, 1);
	fixture_device_publish(gpu.a, 1);
	fixture_device_die(NULL, take_one);
	/* Who attaches cleans up after the dead when it has a place itself. */
	struct ts_store *other = fixture_attach(JOB_B), *next = fixture_attach(JOB_B);
	cr_assert(eq(int, next->member, 2), "the place of the dead");
	cr_assert(ne(u64, ts_load_relaxed(&gpu.a->table->lines[2].lease[0]), 0));
	fixture_device_publish(gpu.b, 2);
	ts_store_detach(next);
	ts_store_detach(other);
}

/* Its copy may still be queued in the GPU as long as a child has its device files open. */
Test(device_dead, a_writer_costs_its_slot_until_the_ring_goes)
{
	struct ts_device_owner owner;

	cr_assert(eq(int, ts_device_memory_begin(gpu.a, gpu.ring), 0));
	fixture_offer(gpu.a, 2);
	fixture_device_die(NULL, take_one);
	cr_expect(eq(int, fixture_slot(0), TS_SLOT_WRITING));
	cr_expect(eq(u32, fixture_device_publish(gpu.b, 1), 1), "nobody waits for the dead");
	cr_expect(eq(int, fixture_slot(0), TS_SLOT_LOST));
	cr_expect(eq(u32, fixture_device_publish(gpu.b, 2), 1), "nor writes its slot");
	cr_assert(eq(int, ts_device_owner(gpu.b, gpu.ring, &owner), 0));
	cr_expect(eq(u32, owner.lost, 1));
	cr_expect(ts_device_memory_held(gpu.b, gpu.ring));
	cr_expect(eq(int, fixture_withdraw(gpu.a, 0), 1), "the memory stays");
	cr_expect(not(ts_device_memory_held(gpu.b, gpu.ring)), "but nobody can give it back");
	fixture_offer(gpu.b, 1);
	cr_expect(eq(int, fixture_withdraw(gpu.a, 0), 1), "for good");
	fixture_device_publish(gpu.a, 1);
	cr_expect(eq(int, fixture_withdraw(gpu.b, 0), 0), "and that is all");
}

static void have_memory(struct ts_device *device)
{
	cr_assert(eq(int, ts_device_memory_begin(device, gpu.ring), 0));
}

Test(device_dead, memory_goes_with_its_owner)
{
	fixture_device_die(NULL, have_memory);
	cr_expect(ne(u64, ts_load_relaxed(&gpu.a->table->rows[gpu.ring].memory), 0));
	cr_expect(not(ts_device_memory_held(gpu.a, gpu.ring)));
	cr_expect(eq(int, ts_device_memory_begin(gpu.a, gpu.ring), 0));
}

static void map_it(struct ts_device *device)
{
	uint32_t generation = 0;
	(void)ts_device_is_offered(device, gpu.ring, &generation);
	cr_assert(ge(int, ts_device_map_begin(device, gpu.ring, generation), 0));
}

Test(device_dead, memory_is_not_kept_for_the_dead)
{
	static const char *const points[] = {"device_announced", NULL};
	uint32_t generation = fixture_offer(gpu.a, 1);

	for (size_t i = 0; i < TS_ARRAY_SIZE(points); i++) {
		fixture_device_die(points[i], map_it);
		cr_expect(ne(u64, ts_load_relaxed(&gpu.a->table->maps[2].map[0]), 0), "%zu", i);
		cr_expect(not(ts_device_is_mapped(gpu.a, gpu.ring, generation)), "%zu", i);
	}
	/* Who has the dead one's place next has not mapped what that one had. */
	struct ts_device *next = fixture_device_join(JOB_B);
	cr_expect(eq(u32, next->member, 2), "the place of the dead");
	cr_expect(eq(u64, ts_load_relaxed(&gpu.a->table->maps[2].map[0]), 0));
	cr_expect(not(ts_device_is_mapped(gpu.a, gpu.ring, generation)));
}

Test(device_dead, who_waits_for_the_dead_is_told)
{
	fixture_offer(gpu.a, 2);
	fixture_device_die(NULL, take_one);
	struct ts_device_slot *slot = &gpu.a->table->rows[gpu.ring].slots[0];
	struct ts_device_take busy = {.verdict = TS_BUSY,
		.hold = {.ring = gpu.ring, .word = ts_load_acquire(&slot->word)}};

	clock_begin();
	cr_expect(eq(int, ts_device_wait(gpu.b, &busy, UINT64_C(5000000000)), 0));
	cr_expect(eq(u64, clock_passed(), 0), "it is seen before any sleep");
}

Test(device_dead, what_nobody_was_given_is_free_again)
{
	const char *const points[] = {"device_taken", "device_keyed"};

	fixture_offer(gpu.a, 1);
	for (size_t i = 0; i < TS_ARRAY_SIZE(points); i++) {
		fixture_device_die(points[i], take_one);
		cr_expect(eq(int, fixture_slot(0), TS_SLOT_TAKEN));
		fixture_device_publish(gpu.b, 2 + i);
	}
}

/* FREE by such a recovery, and read all the same: the next taker has to look. */
Test(device_dead, a_slot_that_the_dead_had_taken_may_be_read)
{
	fixture_offer(gpu.a, 1);
	fixture_device_publish(gpu.a, 2);
	struct ts_device_take reader = fixture_device_take(gpu.b, 2);
	cr_assert(eq(int, reader.verdict, TS_HIT));
	fixture_device_die("device_taken", take_one);
	struct ts_device_take got = fixture_device_take(gpu.a, 3);
	cr_expect(eq(int, got.error, -ENOBUFS));
	ts_device_release(gpu.b, &reader.hold);
	fixture_device_publish(gpu.a, 3);
}

Test(device_dead, an_owner_takes_its_ring_along)
{
	static const char *const points[] = {
		"device_making", "device_renewed", "device_live", NULL};
	struct ts_device_owner owner;
	uint32_t generation = 0;

	for (size_t i = 0; i < TS_ARRAY_SIZE(points); i++) {
		fixture_device_die(points[i], offer);
		struct ts_device_take got = fixture_device_take(gpu.b, 1);
		cr_expect(eq(int, got.error, -ENODEV), "%zu", i);
		cr_expect(eq(int, ts_device_owner(gpu.b, gpu.ring, &owner), -ENODEV));
		uint32_t next = fixture_offer(gpu.b, 2);
		cr_expect(gt(u32, next, generation));
		generation = next;
		cr_assert(eq(int, fixture_withdraw(gpu.b, 0), 0));
	}
}

/* What belongs to an older generation cannot touch a slot of this one. */
Test(device_dead, a_claim_ends_with_its_ring)
{
	fixture_device_die(NULL, offer);
	/* Nobody has looked whether the owner lives: take() finds what was seen before. */
	uint64_t word = ts_load_acquire(&gpu.a->table->rows[gpu.ring].word);
	ts_write_relaxed(&gpu.a->alive_until[ts_device_ring_owner(word)], UINT64_MAX);
	struct ts_device_take old = fixture_device_take(gpu.a, 1);
	cr_assert(eq(int, old.verdict, TS_CLAIM));
	fixture_offer(gpu.b, 2);
	cr_expect(eq(int, ts_device_publish(gpu.a, &old.hold), -ESTALE));
	cr_expect(eq(int, fixture_slot(old.hold.slot), TS_SLOT_FREE));
	fixture_device_publish(gpu.b, 1);
	ts_device_abandon(gpu.a, &old.hold);
	fixture_device_hit(gpu.b, 1);
}

/* A lease of an older ring is one on other memory. */
Test(device_dead, a_lease_does_not_hold_the_next_rings_slot)
{
	fixture_device_die(NULL, offer);
	uint64_t word = ts_load_acquire(&gpu.a->table->rows[gpu.ring].word);
	ts_write_relaxed(&gpu.a->alive_until[ts_device_ring_owner(word)], UINT64_MAX);
	fixture_device_publish(gpu.a, 1);
	struct ts_device_take old = fixture_device_take(gpu.a, 1);
	cr_assert(eq(int, old.verdict, TS_HIT));
	fixture_offer(gpu.b, 1);
	fixture_device_publish(gpu.b, 2);
	fixture_device_publish(gpu.b, 3);
	cr_expect(eq(int, fixture_withdraw(gpu.b, 0), 0));
	ts_device_release(gpu.a, &old.hold);
}

Test(device_dead, a_withdrawal_that_was_begun_is_ended_by_others)
{
	struct ts_device_owner owner;

	fixture_device_die(NULL, offer);
	_Atomic uint64_t *word = &gpu.a->table->rows[gpu.ring].word;
	uint64_t live = ts_load_acquire(word);
	ts_write_release(word, live | TS_RING_CLOSING);
	cr_expect(eq(int, ts_device_owner(gpu.b, gpu.ring, &owner), -ENODEV));
	fixture_offer(gpu.b, 1);
}

Test(device_dead, what_it_published_stays)
{
	fixture_offer(gpu.a, 1);
	fixture_device_die(NULL, publish_one);
	fixture_device_hit(gpu.b, 1);
}
