/* SPDX-License-Identifier: MIT */
/* Copies to a GPU: who is stopped between two steps costs what it holds, and harms nobody. */
#include "fixture_device.h"

#include "shim/sys.h"

#include <unistd.h>

TestSuite(device_stopped, .init = fixture_device_init, .fini = fixture_device_finish);

/* What the woken one was given: its verdict, or 10 - the error of TS_PASS. */
static int take_one(struct ts_device *device)
{
	struct ts_device_take got = fixture_device_take(device, 1);

	if (got.verdict == TS_HIT)
		ts_device_release(device, &got.hold);
	return got.verdict == TS_PASS ? 10 - got.error : (int)got.verdict;
}

static int publish_one(struct ts_device *device)
{
	struct ts_device_take got = fixture_device_take(device, 1);

	return got.verdict == TS_CLAIM ? -ts_device_publish(device, &got.hold) : 200;
}

static void withdraw(void)
{
	cr_expect(eq(int, fixture_withdraw(gpu.a, 0), 0));
}

static void withdraw_and_offer(void)
{
	withdraw();
	fixture_offer(gpu.a, 1);
	fixture_device_publish(gpu.a, 1);
}

static void withdraw_in_vain(void)
{
	cr_expect(eq(int, fixture_withdraw(gpu.a, 1000000), 1));
}

static void write_another(void)
{
	fixture_device_publish(gpu.a, 2);
}

static void write_another_in_vain(void)
{
	cr_expect(eq(int, fixture_device_take(gpu.a, 2).error, -ENOBUFS));
	cr_expect(eq(int, fixture_device_hurry(gpu.a, 2).error, -ENOBUFS));
}

static void find_it_busy(void)
{
	struct ts_device_take got = fixture_device_take(gpu.a, 1);

	cr_expect(eq(int, got.verdict, TS_BUSY));
	cr_expect(eq(int, ts_device_wait(gpu.a, &got, 20000000), -ETIMEDOUT));
	write_another_in_vain();
}

/* It has seen what there was to read, but said to nobody that it would read it. */
Test(device_stopped, a_reader_that_comes_late_reads_nothing)
{
	fixture_offer(gpu.a, 1);
	fixture_device_publish(gpu.a, 1);
	cr_expect(
		eq(int, fixture_device_stop("device_looked", take_one, withdraw), 10 + ESTALE));
	fixture_offer(gpu.a, 1);
	fixture_device_publish(gpu.a, 1);
	cr_expect(eq(int, fixture_device_stop("device_looked", take_one, withdraw_and_offer),
		10 + ESTALE));
	cr_expect(eq(
		int, fixture_device_stop("device_looked", take_one, write_another), TS_CLAIM));
}

Test(device_stopped, a_reader_that_was_first_keeps_its_slot)
{
	const char *const points[] = {"device_pinned", "device_checked"};

	fixture_offer(gpu.a, 1);
	fixture_device_publish(gpu.a, 1);
	for (size_t i = 0; i < TS_ARRAY_SIZE(points); i++)
		cr_expect(
			eq(int, fixture_device_stop(points[i], take_one, write_another_in_vain),
				TS_HIT));
	cr_expect(eq(int, fixture_device_stop("device_checked", take_one, withdraw_in_vain),
		TS_HIT));
	withdraw();
}

Test(device_stopped, a_writer_that_comes_late_writes_nothing)
{
	fixture_offer(gpu.a, 1);
	cr_expect(
		eq(int, fixture_device_stop("device_looked", take_one, withdraw), 10 + ESTALE));
	fixture_offer(gpu.a, 1);
	cr_expect(eq(int, fixture_device_stop("device_looked", take_one, withdraw_and_offer),
		10 + ESTALE));
	fixture_device_hit(gpu.a, 1);
}

Test(device_stopped, a_writer_that_was_first_keeps_its_slot)
{
	const char *const points[] = {
		"device_taken", "device_keyed", "device_writing", "device_written"};

	fixture_offer(gpu.a, 1);
	for (size_t i = 0; i < TS_ARRAY_SIZE(points); i++) {
		cr_expect(eq(int,
				  fixture_device_stop(points[i], publish_one,
					  i < 2 ? write_another_in_vain : find_it_busy),
				  0),
			"%zu", i);
		fixture_device_hit(gpu.a, 1);
		write_another();
	}
}

static uint32_t withdrawn;

static int map_it(struct ts_device *device)
{
	uint32_t generation = 0;
	(void)ts_device_is_offered(device, gpu.ring, &generation);
	int map = ts_device_map_begin(device, gpu.ring, generation);
	if (map >= 0)
		ts_device_map_end(device, (uint32_t)map);
	return map < 0 ? -map : 0;
}

static void withdraw_and_look(void)
{
	(void)ts_device_is_offered(gpu.a, gpu.ring, &withdrawn);
	withdraw();
	cr_expect(ts_device_is_mapped(gpu.a, gpu.ring, withdrawn));
}

/* Between saying that it maps a ring and looking at it: it does not, or the memory stays. */
Test(device_stopped, who_maps_a_ring_comes_late_or_keeps_it)
{
	fixture_offer(gpu.a, 1);
	cr_expect(eq(int, fixture_device_stop("device_announced", map_it, withdraw_and_look),
		ESTALE));
	cr_expect(not(ts_device_is_mapped(gpu.a, gpu.ring, withdrawn)));
	fixture_offer(gpu.a, 1);
	cr_expect(eq(int, fixture_device_stop("device_unmapped", map_it, withdraw), 0));
}

/* In the middle of giving up a ring that nobody uses. */
static int offer_and_withdraw(struct ts_device *device)
{
	fixture_offer(device, 1);
	return ts_device_withdraw(device, gpu.ring, 0) == 0 ? 0 : 1;
}

static void nobody_offers(void)
{
	struct ts_device_owner owner = {.slot_count = 0};

	cr_expect(eq(int, ts_device_owner(gpu.a, gpu.ring, &owner), -EBUSY));
	cr_expect(eq(int, ts_device_offer(gpu.a, gpu.ring, owner.handle, 1, 1), -EEXIST));
	cr_expect(eq(int, fixture_device_take(gpu.a, 1).error, -ENODEV));
}

static void others_use_it(void)
{
	fixture_device_publish(gpu.a, 1);
	fixture_device_hit(gpu.b, 1);
}

Test(device_stopped, an_owner_is_not_replaced_while_it_lives)
{
	const char *const points[] = {"device_making", "device_renewed", "device_closing"};

	for (size_t i = 0; i < TS_ARRAY_SIZE(points); i++)
		cr_expect(eq(int,
				  fixture_device_stop(
					  points[i], offer_and_withdraw, nobody_offers),
				  0),
			"%zu", i);
	cr_expect(eq(int, fixture_device_stop("device_live", offer_and_withdraw, others_use_it),
			  0),
		"a stopped owner is no obstacle");
}
