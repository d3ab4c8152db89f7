/* SPDX-License-Identifier: MIT */
/*
 * Jobs that follow one another at a distance through the same keys, as aligned jobs in strict
 * order do that were started one after the other.  One step is one key of each.
 */
#include "fixture.h"

#define JOBS  4u
#define BYTES UINT64_C(33000)
#define RING  (UINT64_C(34) << 20) /* some 1000 records */
#define STEPS 5000u
#define LAST  200u

TestSuite(apart, .init = fixture_init, .fini = fixture_finish);

struct walk {
	struct ts_store *store;
	uint64_t behind; /* keys */
};

static struct ts_key key_of(uint64_t place)
{
	uint64_t mixed = (place + 1) * UINT64_C(0x9e3779b97f4a7c15);

	return (struct ts_key){.lo = mixed ^ mixed >> 29, .hi = ~mixed};
}

/* Returns whether the job made it. */
static bool step(struct walk *walk, uint64_t place)
{
	struct ts_take take = fixture_take(walk->store, key_of(place));
	void *buffer;

	if (take.verdict == TS_HIT) {
		ts_lease_release(walk->store, &take.lease);
		return false;
	}
	if (take.verdict != TS_CLAIM)
		return true;
	cr_assert(eq(int, ts_claim_reserve(walk->store, &take.claim, BYTES, &buffer), 0));
	cr_assert(eq(int, ts_claim_publish(walk->store, &take.claim, BYTES, 1000), 0));
	return true;
}

/* Follow at distances @behind, and expect so much to be made of each key at the end. */
static void expect_made(unsigned count, const uint64_t *behind, uint64_t expected)
{
	struct walk walks[JOBS];
	uint64_t made = 0, capacity, used;

	for (unsigned i = 0; i < count; i++)
		walks[i] = (struct walk){
			.store = fixture_attach_sized(JOB_A + ((uint64_t)i << 24), RING),
			.behind = behind[i]};
	for (uint64_t at = 0; at < STEPS; at++) {
		for (unsigned i = 0; i < count && at >= behind[i]; i++)
			made += step(&walks[i], at - behind[i]) && at >= STEPS - LAST;
	}
	cr_expect(eq(u64, made, expected * LAST));
	fixture_usage(walks[0].store, &capacity, &used);
	cr_expect(ge(u64, capacity / BYTES, 1000));
	cr_expect(lt(u64, capacity / BYTES, 1050), "the distances are those of 1000 records");
	for (unsigned i = 0; i < count; i++)
		ts_store_detach(walks[i].store);
}

/* The fourth comes too late for some keys at first, as the second made some as well. */
Test(apart, who_is_within_reach_makes_nothing)
{
	expect_made(4, (const uint64_t[]){0, 300, 500, 800}, 1);
}

Test(apart, who_is_out_of_reach_costs_the_others_nothing)
{
	expect_made(3, (const uint64_t[]){0, 700, 3000}, 2);
}

Test(apart, who_follows_one_that_was_alone_is_noticed)
{
	expect_made(4, (const uint64_t[]){0, 300, 3000, 3300}, 2);
}
