/* SPDX-License-Identifier: MIT */
/* Ghosts, claims, hits, eviction. */
#include "fixture.h"
#include "shim/identity.h"
#include "shim/sys.h"
#include "../clock.h"

#define MS UINT64_C(1000000)

TestSuite(share, .init = fixture_alone_init, .fini = fixture_finish);
TestSuite(share_captured, .init = fixture_captured_init, .fini = fixture_finish);
TestSuite(share_pair, .init = fixture_pair_init, .fini = fixture_finish);

static void expect_pass(struct ts_take take, enum ts_reason reason)
{
	cr_expect(eq(int, take.verdict, TS_PASS));
	cr_expect(eq(int, take.reason, reason));
}

Test(share, a_key_nobody_shares_costs_a_ghost)
{
	uint64_t capacity, used;

	expect_pass(fixture_take(joined.a, fixture_key(1, 1)), TS_REASON_ALONE);
	expect_pass(fixture_take(joined.a, fixture_key(1, 1)), TS_REASON_ALONE);
	fixture_usage(joined.a, &capacity, &used);
	cr_expect(eq(u64, used, 0));
	cr_expect(
		eq(u64, joined.a->header->allocated_bytes, 0), "a lone job allocates nothing");
}

Test(share, jobs_meet_where_they_leave_word)
{
	struct ts_store *same = fixture_attach(JOB_A), *other = fixture_attach(JOB_B);
	struct ts_key here = fixture_key(1, 1), there = fixture_key(1, 2);

	cr_expect(not(ts_store_meet(joined.a, &here)));
	cr_expect(not(ts_store_meet(same, &here)), "the same job");
	cr_expect(not(ts_store_meet(other, &there)));
	cr_expect(ts_store_meet(other, &here));
	cr_expect(not(ts_store_meet(other, &here)), "its own word");
	cr_expect(ts_store_meet(joined.a, &here), "who was first, too");
	expect_pass(fixture_take(joined.a, fixture_key(1, 3)), TS_REASON_ALONE);
	fixture_detach(joined.a);
	fixture_detach(same);
	fixture_detach(other);
	cr_expect(not(ts_store_meet(joined.a, &here)), "detached");
}

Test(share, a_ghost_asked_for_by_another_job_starts_capturing)
{
	struct ts_store *same = fixture_attach(JOB_A), *other = fixture_attach(JOB_B);

	expect_pass(fixture_take(joined.a, fixture_key(1, 1)), TS_REASON_ALONE);
	expect_pass(fixture_take(same, fixture_key(1, 1)), TS_REASON_ALONE);
	fixture_publish(other, fixture_key(1, 1), 5000, 3);
	cr_expect(fixture_hits(joined.a, fixture_key(1, 1), 5000, 3));
	fixture_publish(joined.a, fixture_key(1, 2), 5000, 4);
	cr_expect(fixture_hits(other, fixture_key(1, 2), 5000, 4), "new keys are captured too");
}

Test(share, what_somebody_outside_wants_is_claimed_while_so)
{
	struct ts_key wanted = fixture_key(1, 1);

	expect_pass(fixture_take(joined.a, wanted), TS_REASON_ALONE);
	ts_store_want(joined.a, TS_KIND_SAMPLE, true);
	expect_pass(fixture_take(joined.a, wanted), TS_REASON_ALONE); /* of another kind */
	ts_store_want(joined.a, TS_KIND_PIXELS, true);
	struct ts_take take = fixture_take(joined.a, wanted);
	cr_assert(eq(int, take.verdict, TS_CLAIM));
	void *buffer;
	cr_assert(eq(int, ts_claim_reserve(joined.a, &take.claim, 1000, &buffer), 0));
	memset(buffer, 7, 1000);
	cr_assert(eq(int, ts_claim_publish(joined.a, &take.claim, 1000, 1), 0));
	ts_store_want(joined.a, TS_KIND_PIXELS, false);
	expect_pass(fixture_take(joined.a, fixture_key(1, 2)), TS_REASON_ALONE);
	cr_expect(fixture_hits(joined.a, wanted, 1000, 7));
}

static enum ts_verdict verdict_of(struct ts_store *store, enum ts_kind kind, uint64_t lo)
{
	struct ts_key key = {.lo = lo, .hi = fixture_key(1, 1).hi};
	struct ts_take take;

	ts_store_take(store, &key, 0, kind, &take);
	if (take.verdict == TS_CLAIM)
		ts_claim_abandon(store, &take.claim);
	return take.verdict;
}

Test(share, demand_for_one_kind_says_nothing_about_others)
{
	struct ts_store *other = fixture_attach(JOB_B);

	/* Keys that nobody has asked for, once the pixels of the dataset are wanted ... */
	cr_expect(eq(int, verdict_of(joined.a, TS_KIND_PIXELS, 0x100), TS_PASS));
	cr_expect(eq(int, verdict_of(other, TS_KIND_PIXELS, 0x100), TS_CLAIM));
	cr_expect(
		eq(int, verdict_of(joined.a, TS_KIND_PIXELS, 0x200 | TS_KEY_DRAWN), TS_CLAIM));
	cr_expect(eq(int, verdict_of(joined.a, TS_KIND_SAMPLE, 0x300), TS_PASS));
	/* ... and its samples, but not those that draw. */
	cr_expect(eq(int, verdict_of(other, TS_KIND_SAMPLE, 0x300), TS_CLAIM));
	cr_expect(eq(int, verdict_of(joined.a, TS_KIND_SAMPLE, 0x400), TS_CLAIM));
	cr_expect(eq(int, verdict_of(joined.a, TS_KIND_SAMPLE, 0x500 | TS_KEY_DRAWN), TS_PASS));
	cr_expect(eq(int, verdict_of(other, TS_KIND_SAMPLE, 0x500 | TS_KEY_DRAWN), TS_CLAIM));
}

Test(share, capturing_that_nobody_uses_stops_and_starts_harder)
{
	struct ts_demand *demand =
		&ts_ledger_dataset(ts_store_ledger(joined.a), 0)->demands[TS_KIND_PIXELS];
	uint64_t capacity, used;

	fixture_usage(joined.a, &capacity, &used);
	fixture_capture(joined.a, true);
	for (uint32_t i = 0; i < capacity / 400000 + 1; i++)
		fixture_publish(joined.a, fixture_key(i, i + 1), 400000, 1);
	expect_pass(fixture_take(joined.a, fixture_key(9, 999)), TS_REASON_ALONE);
	cr_expect(eq(u32, demand->needed, 4));
	for (int i = 0; i < 3; i++)
		cr_expect(not(ts_demand_count(demand)));
	cr_expect(ts_demand_count(demand), "the fourth ghost asked for turns it on again");
}

Test(share, capturing_that_is_used_goes_on)
{
	struct ts_demand *demand =
		&ts_ledger_dataset(ts_store_ledger(joined.a), 0)->demands[TS_KIND_PIXELS];

	fixture_capture(joined.a, true);
	ts_write_relaxed(&demand->needed, 64);
	for (uint32_t i = 0; i < 40; i++) {
		fixture_publish(joined.a, fixture_key(i, i + 1), 400000, 1);
		cr_assert(fixture_hits(joined.a, fixture_key(i, i + 1), 400000, 1));
	}
	cr_expect(eq(u32, demand->capture, 1));
	cr_expect(eq(u32, demand->needed, 1));
}

Test(share_captured, a_dataset_that_is_off_is_not_shared)
{
	fixture_publish(joined.a, fixture_key(1, 1), 100, 1);
	ts_write_relaxed(&ts_ledger_dataset(ts_store_ledger(joined.a), 0)->off, 1);
	expect_pass(fixture_take(joined.a, fixture_key(1, 1)), TS_REASON_DATASET_OFF);
}

Test(share, a_lease_says_what_the_producer_said)
{
	struct ts_key key = fixture_key(3, 3);
	struct ts_take take;
	void *buffer;

	struct ts_dataset_row *row = ts_ledger_dataset(ts_store_ledger(joined.a), 5);
	ts_write_relaxed(&ts_demand_of(row, TS_KIND_SAMPLE, &key)->capture, 1);
	ts_store_take(joined.a, &key, 5, TS_KIND_SAMPLE, &take);
	cr_assert(eq(int, take.verdict, TS_CLAIM));
	cr_assert(eq(int, ts_claim_reserve(joined.a, &take.claim, 90000, &buffer), 0));
	cr_expect(eq(u64, (uintptr_t)buffer % TS_PAGE_BYTES, 0));
	cr_assert(eq(int, ts_claim_publish(joined.a, &take.claim, 70001, 12345), 0));
	ts_store_take(joined.a, &key, 5, TS_KIND_SAMPLE, &take);
	cr_assert(eq(int, take.verdict, TS_HIT));
	cr_expect(eq(u64, take.lease.bytes, 70001));
	cr_expect(eq(u64, take.lease.produce_ns, 12345));
	cr_expect(eq(u32, take.lease.dataset, 5));
	cr_expect(eq(u32, take.lease.kind, TS_KIND_SAMPLE));
	cr_expect(eq(u64, (uintptr_t)take.lease.data % TS_PAGE_BYTES, 0));
	ts_lease_release(joined.a, &take.lease);
}

Test(share_pair, nobody_sees_a_record_before_it_is_published)
{
	void *buffer;

	struct ts_take take = fixture_take(joined.a, fixture_key(1, 1));
	cr_assert(eq(int, ts_claim_reserve(joined.a, &take.claim, 1000, &buffer), 0));
	cr_expect(eq(int, fixture_take(joined.b, fixture_key(1, 1)).verdict, TS_BUSY));
	cr_expect(eq(int, fixture_take(joined.a, fixture_key(1, 1)).verdict, TS_BUSY),
		"another thread of the producer waits like everybody");
	ts_claim_abandon(joined.a, &take.claim);
	struct ts_take next = fixture_take(joined.b, fixture_key(1, 1));
	cr_expect(eq(int, next.verdict, TS_CLAIM), "an abandoned key is free");
	ts_claim_abandon(joined.b, &next.claim);
}

Test(share, keys_with_equal_tags_do_not_mix)
{
	struct ts_key one = fixture_key(1, 1), two = fixture_key(1, 1);

	two.hi ^= 1; /* same set, same tag, another key */
	fixture_capture(joined.a, true);
	fixture_publish(joined.a, one, 1000, 1);
	cr_expect(not(fixture_hits(joined.a, two, 1000, 1)));
	fixture_publish(joined.a, two, 1000, 2);
	cr_expect(fixture_hits(joined.a, two, 1000, 2));
}

Test(share_captured, too_large_a_record_is_refused_and_the_claim_ends)
{
	void *buffer;

	struct ts_take take = fixture_take(joined.a, fixture_key(1, 1));
	cr_expect(eq(int, ts_claim_reserve(joined.a, &take.claim, (3 << 20) - 4095, &buffer),
		-E2BIG));
	fixture_publish(joined.a, fixture_key(1, 1), (3 << 20) - 4096, 9);
	cr_expect(fixture_hits(joined.a, fixture_key(1, 1), (3 << 20) - 4096, 9),
		"half of the ring fits");
	take = fixture_take(joined.a, fixture_key(1, 2));
	cr_expect(
		eq(int, ts_claim_reserve(joined.a, &take.claim, UINT64_MAX, &buffer), -E2BIG));
}

Test(share_captured, empty_records_are_records)
{
	fixture_publish(joined.a, fixture_key(1, 1), 0, 0);
	cr_expect(fixture_hits(joined.a, fixture_key(1, 1), 0, 0));
}

Test(share_captured, the_tail_that_was_not_needed_is_used_again)
{
	uint64_t capacity, used;
	void *buffer;

	for (uint32_t i = 0; i < 50; i++) {
		struct ts_take take = fixture_take(joined.a, fixture_key(i, i + 1));
		cr_assert(
			eq(int, ts_claim_reserve(joined.a, &take.claim, 1 << 19, &buffer), 0));
		cr_assert(eq(int, ts_claim_publish(joined.a, &take.claim, 1024, 1), 0));
	}
	fixture_usage(joined.a, &capacity, &used);
	cr_expect(le(u64, used, 50 * (1024 + 4096)));
}

Test(share_captured, a_full_set_evicts_its_oldest_record)
{
	for (uint32_t i = 1; i <= TS_WAYS + 1; i++)
		fixture_publish(joined.a, fixture_key(7, i), 500000, (int)i);
	cr_expect(fixture_hits(joined.a, fixture_key(7, TS_WAYS + 1), 500000, TS_WAYS + 1));
	cr_expect(not(fixture_hits(joined.a, fixture_key(7, 1), 500000, 1)));
	cr_expect(fixture_hits(joined.a, fixture_key(7, TS_WAYS), 500000, TS_WAYS));
}

Test(share_captured, live_claims_are_never_evicted)
{
	struct ts_take takes[TS_WAYS];

	for (uint32_t i = 0; i < TS_WAYS; i++)
		takes[i] = fixture_take(joined.a, fixture_key(7, i + 1));
	expect_pass(fixture_take(joined.a, fixture_key(7, 99)), TS_REASON_DIRECTORY_BUSY);
	for (uint32_t i = 0; i < TS_WAYS; i++)
		ts_claim_abandon(joined.a, &takes[i].claim);
}

Test(share_captured, ghosts_never_push_out_records)
{
	for (uint32_t i = 1; i <= TS_WAYS; i++)
		fixture_publish(joined.a, fixture_key(7, i), 100, (int)i);
	fixture_capture(joined.a, false);
	expect_pass(fixture_take(joined.a, fixture_key(7, 99)), TS_REASON_ALONE);
	for (uint32_t i = 1; i <= TS_WAYS; i++)
		cr_expect(fixture_hits(joined.a, fixture_key(7, i), 100, (int)i));
}

Test(share_pair, a_late_store_of_a_place_does_no_harm)
{
	void *buffer;

	/* What a producer stopped between its look at the claim and R1 does when it wakes. */
	fixture_publish(joined.a, fixture_key(1, 1), 100, 1);
	struct ts_take claim = fixture_take(joined.a, fixture_key(1, 2));
	cr_assert(eq(int, ts_claim_reserve(joined.a, &claim.claim, 100, &buffer), 0));
	uint64_t late = ts_where_pack(claim.claim.offset,
		(uint32_t)joined.a->windows[0].segment, joined.a->windows[0].generation);
	cr_assert(eq(int, ts_claim_publish(joined.a, &claim.claim, 100, 1), 0));
	for (uint32_t i = 0; i < TS_WAYS; i++) {
		struct ts_entry *entry = &joined.b->entries[1 * TS_WAYS + i];
		if (ts_entry_state(entry->word) == TS_ENTRY_READY &&
			ts_entry_tag(entry->word) == 1)
			ts_write_release(&entry->where, late);
	}
	cr_expect(not(fixture_hits(joined.b, fixture_key(1, 1), 100, 1)),
		"a miss, not other bytes");
	fixture_publish(joined.b, fixture_key(1, 1), 100, 3);
	cr_expect(fixture_hits(joined.b, fixture_key(1, 1), 100, 3));
}

Test(share_captured, garbage_in_the_directory_is_a_miss)
{
	uint64_t random = 88172645463325252u;

	fixture_publish(joined.a, fixture_key(7, 1), 1000, 1);
	for (int i = 0; i < 20000; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		struct ts_entry *entry =
			&joined.a->entries[7 * TS_WAYS + (unsigned)i % TS_WAYS];
		uint64_t state = i % 3 ? TS_ENTRY_READY : random % 8;
		ts_write_relaxed(&entry->word,
			ts_entry_pack((enum ts_entry_state)state, random % 1024, 5, 1 + i % 2));
		ts_write_relaxed(
			&entry->where, i % 2 ? random : random & ~UINT64_C(0x3ffffffff));
		struct ts_take take =
			fixture_take(joined.a, fixture_key(7, 1 + (unsigned)i % 2));
		if (take.verdict == TS_HIT)
			ts_lease_release(joined.a, &take.lease);
		else if (take.verdict == TS_CLAIM)
			ts_claim_abandon(joined.a, &take.claim);
	}
	for (uint32_t i = 0; i < TS_LEASES; i++)
		cr_expect(eq(u64, joined.a->members[joined.a->member].lease[i], 0));
}

Test(share_captured, a_record_of_a_dataset_that_is_off_is_no_hit_under_another_label)
{
	struct ts_key key = fixture_key(3, 3);
	struct ts_take take;

	fixture_publish(joined.a, key, 1000, 7); /* dataset 0 */
	ts_store_take(joined.a, &key, 1, TS_KIND_PIXELS, &take);
	cr_assert(eq(int, take.verdict, TS_HIT));
	ts_lease_release(joined.a, &take.lease);

	ts_write_relaxed(&ts_ledger_dataset(ts_store_ledger(joined.a), 0)->off, 1);
	ts_store_take(joined.a, &key, 1, TS_KIND_PIXELS, &take);
	cr_expect(eq(int, take.verdict, TS_PASS));
	cr_expect(eq(int, take.reason, TS_REASON_DATASET_OFF));
}

/* Rings that are kept: what a lone job puts in, and how long they stay. */

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
}

Test(keep, without_it_a_lone_job_publishes_nothing)
{
	struct ts_store *store = attach(JOB_A, 0);

	cr_expect(eq(u32, fill(store, 5), 0));
	fixture_detach(store);
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
}

Test(keep, demand_is_not_judged_by_what_was_filled)
{
	struct ts_store *store = attach(JOB_A, TIME);
	struct ts_demand *demand = &ts_demand_row(store, 0)->demands[TS_KIND_PIXELS];

	cr_assert(gt(u32, fill(store, 100), 0));
	cr_expect(eq(u64, demand->window_published, 0));
	cr_expect(eq(u64, demand->window_bytes, 0));
}

Test(keep, ghosts_of_jobs_that_are_over_ask_for_nothing)
{
	struct ts_key key = {.lo = fixture_key(1, 1).lo | TS_KEY_DRAWN, .hi = 1};
	struct ts_store *store = attach(JOB_A, TIME);
	struct ts_take take;

	ts_store_take(store, &key, 0, TS_KIND_SAMPLE, &take);
	fixture_detach(store);
	store = attach(JOB_B, TIME);
	ts_store_take(store, &key, 0, TS_KIND_SAMPLE, &take);
	cr_expect(eq(int, take.verdict, TS_PASS), "its maker is over");
	(void)attach(JOB_A, 0);
	ts_store_take(store, &key, 0, TS_KIND_SAMPLE, &take);
	cr_assert(eq(int, take.verdict, TS_CLAIM));
	ts_claim_abandon(store, &take.claim);
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
}

Test(keep, it_stays_for_the_next_job_and_then_goes)
{
	clock_begin();
	struct ts_store *store = attach(JOB_A, TIME);

	cr_assert(eq(u32, fill(store, 3), 3));
	clock_pass(TIME * SECOND); /* from the end of the job on, not from its beginning */
	fixture_detach(store);
	cr_assert(ring_exists());
	clock_pass((TIME - 1) * SECOND);
	store = attach(JOB_B, 0);
	cr_expect(eq(u32, hits(store, 3), 3));
	fixture_detach(store);
	cr_assert(ring_exists(), "who does not ask for it does not end it");
	clock_pass(2 * SECOND);
	store = attach(JOB_B, 0);
	cr_expect(eq(u32, hits(store, 3), 0), "its time is over");
	fixture_detach(store);
	cr_expect(not(ring_exists()));
	clock_end();
}

Test(keep, the_longest_time_counts)
{
	clock_begin();
	fixture_detach(attach(JOB_A, TIME));
	fixture_detach(attach(JOB_B, 1));
	clock_pass((TIME - 1) * SECOND);
	struct ts_store *store = attach(JOB_A, 0);
	fixture_detach(store);
	cr_expect(ring_exists());
	clock_pass(SECOND);
	fixture_detach(attach(JOB_A, 0));
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
	fixture_detach(store);
	cr_expect(eq(int, access(fixture_path("device"), F_OK), -1));
	cr_expect(eq(int, access(fixture_path("loaders"), F_OK), -1));
	cr_expect(eq(int, access(fixture_path("journal"), F_OK), 0));
}
