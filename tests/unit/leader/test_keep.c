/* SPDX-License-Identifier: MIT */
/* Rings that are kept: what a lone job puts in, and how long they stay. */
#include "../clock.h"
#include "fixture.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)
#define TIME   600u    /* seconds that the rings of these tests are kept */
#define RECORD 300000u /* bytes: three to a segment of the fixture's ring */

TestSuite(keep, .init = fixture_init, .fini = fixture_finish);

static struct ts_store *attach(uint64_t job, uint32_t keep)
{
	struct ts_attach_options options = {.ring_bytes = RING_BYTES, .job = job, .keep = keep};
	struct ts_store *store;
	enum ts_reason reason;

	strcpy(options.group, fixture_group());
	cr_assert(eq(int, ts_store_attach(&options, &store, &reason), 0));
	return store;
}

static bool ring_exists(void)
{
	return access(fixture_path("ring"), F_OK) == 0;
}

/* Ask for @count keys, and publish where that is allowed; returns how many were. */
static uint32_t fill(struct ts_store *store, uint32_t count)
{
	uint32_t published = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct ts_take take = fixture_take(store, fixture_key(i, i + 1));
		void *buffer;
		if (take.verdict == TS_HIT)
			ts_lease_release(store, &take.lease);
		if (take.verdict != TS_CLAIM ||
			ts_claim_reserve(store, &take.claim, RECORD, &buffer) < 0)
			continue;
		memset(buffer, (int)i, RECORD);
		cr_assert(eq(int, ts_claim_publish(store, &take.claim, RECORD, 1), 0));
		published++;
	}
	return published;
}

static uint32_t hits(struct ts_store *store, uint32_t count)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < count; i++)
		found += fixture_hits(store, fixture_key(i, i + 1), RECORD, (int)i);
	return found;
}

Test(keep, a_lone_job_fills_free_room_and_no_more)
{
	struct ts_store *store = attach(JOB_A, TIME);
	uint32_t room =
		store->shape.segment_count * (uint32_t)(store->shape.segment_bytes / RECORD);
	uint32_t many = 3 * room;

	cr_assert(eq(u32, fill(store, many), room));
	cr_expect(eq(u32, fill(store, many), 0), "it does not push out what it has");
	cr_expect(eq(u32, hits(store, many), room));
	ts_store_detach(store);
}

Test(keep, without_it_a_lone_job_publishes_nothing)
{
	struct ts_store *store = attach(JOB_A, 0);

	cr_expect(eq(u32, fill(store, 5), 0));
	ts_store_detach(store);
	cr_expect(not(ring_exists()));
}

Test(keep, what_was_filled_goes_for_what_is_asked_for)
{
	struct ts_store *store = attach(JOB_A, TIME);
	uint32_t room = fill(store, 100);

	fixture_capture(store, true);
	fixture_publish(store, fixture_key(7, 1000), RECORD, 9);
	cr_expect(fixture_hits(store, fixture_key(7, 1000), RECORD, 9));
	cr_expect(lt(u32, hits(store, 100), room));
	ts_store_detach(store);
}

Test(keep, demand_is_not_judged_by_what_was_filled)
{
	struct ts_store *store = attach(JOB_A, TIME);
	struct ts_demand *demand = &ts_demand_row(store, 0)->demands[TS_KIND_PIXELS];

	cr_assert(gt(u32, fill(store, 100), 0));
	cr_expect(eq(u64, demand->window_published, 0));
	cr_expect(eq(u64, demand->window_bytes, 0));
	ts_store_detach(store);
}

Test(keep, ghosts_of_jobs_that_are_over_ask_for_nothing)
{
	struct ts_key key = {.lo = fixture_key(1, 1).lo | TS_KEY_DRAWN, .hi = 1};
	struct ts_store *store = attach(JOB_A, TIME);
	struct ts_take take;

	ts_store_take(store, &key, 0, TS_KIND_SAMPLE, &take);
	ts_store_detach(store);
	store = attach(JOB_B, TIME);
	ts_store_take(store, &key, 0, TS_KIND_SAMPLE, &take);
	cr_expect(eq(int, take.verdict, TS_PASS), "its maker is over");
	struct ts_store *other = attach(JOB_A, 0);
	ts_store_take(store, &key, 0, TS_KIND_SAMPLE, &take);
	cr_assert(eq(int, take.verdict, TS_CLAIM));
	ts_claim_abandon(store, &take.claim);
	ts_store_detach(other);
	ts_store_detach(store);
}

Test(keep, what_is_a_part_finds_and_leaves_no_trace)
{
	struct ts_store *store = attach(JOB_A, TIME);
	struct ts_key there = fixture_key(0, 1), other = fixture_key(0, 2);
	struct ts_take take;

	cr_assert(eq(u32, fill(store, 1), 1));
	ts_store_find(store, &there, &take);
	cr_assert(eq(int, take.verdict, TS_HIT));
	ts_lease_release(store, &take.lease);
	ts_store_find(store, &other, &take);
	cr_expect(eq(int, take.verdict, TS_PASS));
	cr_expect(eq(int, take.reason, TS_REASON_NESTED));
	cr_expect(eq(int, ts_store_peek(store, &other), TS_ABSENT));
	ts_store_detach(store);
}

Test(keep, what_draws_random_numbers_is_not_filled)
{
	struct ts_store *store = attach(JOB_A, TIME);
	struct ts_key key = {.lo = fixture_key(1, 1).lo | TS_KEY_DRAWN, .hi = 1};
	struct ts_take take;

	ts_store_take(store, &key, 0, TS_KIND_SAMPLE, &take);
	cr_expect(eq(int, take.verdict, TS_PASS));
	key.lo &= ~TS_KEY_DRAWN;
	ts_store_take(store, &key, 0, TS_KIND_SAMPLE, &take);
	cr_assert(eq(int, take.verdict, TS_CLAIM));
	ts_claim_abandon(store, &take.claim);
	ts_store_detach(store);
}

Test(keep, it_stays_for_the_next_job_and_then_goes)
{
	clock_begin();
	struct ts_store *store = attach(JOB_A, TIME);

	cr_assert(eq(u32, fill(store, 3), 3));
	clock_pass(TIME * SECOND); /* from the end of the job on, not from its beginning */
	ts_store_detach(store);
	cr_assert(ring_exists());
	clock_pass((TIME - 1) * SECOND);
	store = attach(JOB_B, 0);
	cr_expect(eq(u32, hits(store, 3), 3));
	ts_store_detach(store);
	cr_assert(ring_exists(), "who does not ask for it does not end it");
	clock_pass(2 * SECOND);
	store = attach(JOB_B, 0);
	cr_expect(eq(u32, hits(store, 3), 0), "its time is over");
	ts_store_detach(store);
	cr_expect(not(ring_exists()));
	clock_end();
}

Test(keep, the_longest_time_counts)
{
	clock_begin();
	ts_store_detach(attach(JOB_A, TIME));
	ts_store_detach(attach(JOB_B, 1));
	clock_pass((TIME - 1) * SECOND);
	struct ts_store *store = attach(JOB_A, 0);
	ts_store_detach(store);
	cr_expect(ring_exists());
	clock_pass(SECOND);
	ts_store_detach(attach(JOB_A, 0));
	cr_expect(not(ring_exists()));
	clock_end();
}

/* Killed with a record reserved, a segment open and a lease held. */
static int die(void *unused)
{
	struct ts_store *store = attach(JOB_A, TIME);
	struct ts_take take;
	void *buffer;

	fill(store, 4);
	(void)fixture_take(store, fixture_key(0, 1));
	take = fixture_take(store, fixture_key(9, 99));
	if (take.verdict != TS_CLAIM ||
		ts_claim_reserve(store, &take.claim, RECORD, &buffer) < 0)
		return 1;
	raise(SIGKILL);
	return 1;
}

Test(keep, a_killed_job_leaves_it_whole)
{
	cr_assert(eq(int, fixture_fork(die, NULL), SIGKILL));
	cr_assert(ring_exists());
	struct ts_store *store = attach(JOB_B, TIME);
	cr_expect(eq(u32, hits(store, 4), 4));
	uint32_t room =
		store->shape.segment_count * (uint32_t)(store->shape.segment_bytes / RECORD);
	/* The rest of the segment that it had open is lost, the others are not. */
	cr_expect(ge(u32, fill(store, 100), room - 6));
	ts_store_detach(store);
}

Test(keep, what_goes_with_processes_is_not_kept)
{
	struct ts_store *store = attach(JOB_A, TIME);
	void *start;

	for (uint32_t i = TS_DEPENDENT_DEVICE; i < TS_DEPENDENTS; i++)
		cr_assert(eq(int,
			ts_dependent_map(store,
				&(struct ts_dependent_kind){
					.which = i, .abi = 1, .magic = 1, .bytes = 4096},
				&start),
			0));
	ts_store_detach(store);
	cr_expect(eq(int, access(fixture_path("device"), F_OK), -1));
	cr_expect(eq(int, access(fixture_path("loaders"), F_OK), -1));
	cr_expect(eq(int, access(fixture_path("journal"), F_OK), 0));
}
