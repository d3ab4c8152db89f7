/* SPDX-License-Identifier: MIT */
/* Waiting for a record that another produces, and taking its claim over. */
#include "../clock.h"
#include "fixture.h"

#define MS UINT64_C(1000000)

/* One sleep of a waiter (leader/ring/claims.c). */
#define SLICE (5 * MS)

/* What is waited for; the claim of joined.a on it; what joined.b, the waiter, has found. */
static struct ts_key key;
static struct ts_take claim, busy;
static struct ts_patience patience;
static void *buffer;

/* Time passes only in the sleeps of a waiter, so what passes can be said exactly. */
static void begin(void)
{
	fixture_pair_init();
	clock_begin();
	key = fixture_key(1, 1);
}

static void finish(void)
{
	clock_end();
	fixture_finish();
}

/* The limit of the suite before, which may still run: Criterion 2.4.1 leaks the timer of a
 * limit that ends before one that was set earlier, and LeakSanitizer sees it. */
TestSuite(wait, .init = begin, .fini = finish, .timeout = 60);

static void find_it_busy(void)
{
	busy = fixture_take(joined.b, key);
	cr_assert(eq(int, busy.verdict, TS_BUSY));
}

/* joined.a has the claim, and joined.b is about to wait. */
static void claim_and_find_it_busy(uint32_t number)
{
	key = fixture_key(number, number);
	claim = fixture_take(joined.a, key);
	find_it_busy();
}

static void publish_claim(void)
{
	memset(buffer, 5, 100);
	cr_assert(eq(int, ts_claim_publish(joined.a, &claim.claim, 100, 1), 0));
}

/* What the waiter got is a hit with these bytes. */
static void expect_hit(int value)
{
	cr_assert(eq(int, busy.verdict, TS_HIT));
	cr_expect(eq(int, *(const char *)busy.lease.data, value));
	ts_lease_release(joined.b, &busy.lease);
}

/* What it got is the claim, this long after the beginning. */
static void expect_claim(uint64_t passed_ns)
{
	cr_assert(eq(int, busy.verdict, TS_CLAIM));
	cr_expect(eq(u64, clock_passed(), passed_ns));
	ts_claim_abandon(joined.b, &busy.claim);
}

/* As the waiter of something whose producers are waited for so long while they work. */
static void wait_long_for(uint64_t timeout_ns, uint64_t longest_ns)
{
	ts_store_wait(joined.b, &key, timeout_ns,
		&(struct ts_patience){.longest_ns = longest_ns}, &busy);
}

static void wait_for(uint64_t timeout_ns)
{
	wait_long_for(timeout_ns, 0);
}

static void wait_a_moment(uint64_t timeout_ns)
{
	ts_store_wait_a_moment(joined.b, &key, timeout_ns, &patience, &busy);
}

Test(wait, wait_ends_with_the_record)
{
	claim_and_find_it_busy(1);
	cr_assert(eq(int, ts_claim_reserve(joined.a, &claim.claim, 100, &buffer), 0));
	publish_claim();
	wait_for(1000 * MS);
	expect_hit(5);
}

Test(wait, a_moment_ends_with_the_record_or_without_it)
{
	claim_and_find_it_busy(1);
	cr_assert(eq(int, ts_claim_reserve(joined.a, &claim.claim, 100, &buffer), 0));
	for (int i = 0; i < 100; i++) { /* no take-over before the deadline */
		wait_a_moment(30000 * MS);
		cr_assert(eq(int, busy.verdict, TS_BUSY));
	}
	publish_claim();
	cr_expect(eq(u64, patience.waited_ns, 100 * SLICE));
	wait_a_moment(30000 * MS);
	expect_hit(5);
	cr_expect(eq(u64, clock_passed(), 100 * SLICE), "nobody slept");

	claim_and_find_it_busy(2);
	ts_claim_abandon(joined.a, &claim.claim);
	wait_a_moment(30000 * MS);
	expect_claim(100 * SLICE);
}

static void give_up(void *unused)
{
	(void)unused;
	ts_claim_abandon(joined.a, &claim.claim);
}

/* What nobody else here has asked for, somebody outside has. */
static enum ts_verdict wait_for_who_gives_up(uint32_t number, bool wants)
{
	fixture_capture(joined.a, false);
	ts_store_want(joined.a, TS_KIND_PIXELS, true);
	ts_store_want(joined.b, TS_KIND_PIXELS, wants);
	claim_and_find_it_busy(number);
	clock_at(clock_passed() + 20 * MS, give_up, NULL);
	wait_for(1000 * MS);
	if (busy.verdict == TS_CLAIM)
		ts_claim_abandon(joined.b, &busy.claim);
	return busy.verdict;
}

Test(wait, who_wants_what_is_given_up_claims_it)
{
	cr_expect(eq(int, wait_for_who_gives_up(1, true), TS_CLAIM));
	cr_expect(eq(int, wait_for_who_gives_up(2, false), TS_PASS));
}

Test(wait, wait_takes_over_at_the_deadline_and_the_old_owner_loses)
{
	void *other;

	claim_and_find_it_busy(1);
	cr_assert(eq(int, ts_claim_reserve(joined.a, &claim.claim, 100, &buffer), 0));
	wait_for(33 * MS);
	cr_expect(eq(u64, clock_passed(), 33 * MS));
	cr_assert(eq(int, busy.verdict, TS_CLAIM));
	cr_assert(eq(int, ts_claim_reserve(joined.b, &busy.claim, 100, &other), 0));
	memset(other, 2, 100);
	memset(buffer, 1, 100); /* memory stays the old owner's */
	cr_expect(eq(int, ts_claim_publish(joined.a, &claim.claim, 100, 1), -ESTALE));
	cr_assert(eq(int, ts_claim_publish(joined.b, &busy.claim, 100, 1), 0));
	cr_expect(fixture_hits(joined.a, key, 100, 2));
}

Test(wait, moments_count_towards_the_deadline)
{
	claim_and_find_it_busy(1);
	for (int i = 0; i < 6; i++) {
		wait_a_moment(6 * SLICE);
		cr_assert(eq(int, busy.verdict, TS_BUSY));
	}
	wait_a_moment(6 * SLICE);
	expect_claim(6 * SLICE);
	ts_claim_abandon(joined.a, &claim.claim);

	/* What was waited for one claim is nothing that was waited for the next. */
	claim_and_find_it_busy(2);
	wait_a_moment(30000 * MS);
	cr_assert(eq(int, busy.verdict, TS_BUSY));
	cr_expect(eq(u64, patience.waited_ns, SLICE));
	ts_store_wait(joined.b, &key, 1000 * MS, &patience, &busy);
	expect_claim(6 * SLICE + 1000 * MS);
	ts_claim_abandon(joined.a, &claim.claim);
}

/* ---- owners in other processes ---------------------------------------------------------- */

/* Of a CPU, in thousandths: who gets so much is at work (leader/ring/claims.c). */
#define AT_WORK 250

/* A child that has a claim, and publishes when it is let. */
struct producer {
	int value;  /* of the bytes */
	bool waits; /* for the right, which somebody else has */
	struct fixture_child child;
	struct ts_store *store;
	struct ts_take take;
	void *buffer;
};

static void *win(void *context)
{
	struct producer *as = context;

	as->store = fixture_attach(JOB_A);
	as->take = fixture_take(as->store, key);
	if (as->take.verdict == TS_BUSY && as->waits)
		ts_store_wait(as->store, &key, 50 * MS, &patience, &as->take);
	bool has_room = as->take.verdict == TS_CLAIM &&
			ts_claim_reserve(as->store, &as->take.claim, 100, &as->buffer) == 0;
	return has_room ? as : NULL;
}

static int publish_won(void *context)
{
	struct producer *as = context;

	memset(as->buffer, as->value, 100);
	return ts_claim_publish(as->store, &as->take.claim, 100, 1) == 0 ? 0 : 2;
}

/* Start one; it has the claim when this returns, and the waiter finds that. */
static void start(struct producer *as)
{
	as->child = fixture_child_begin(win, publish_won, as);
}

static void start_and_find_it_busy(struct producer *as)
{
	start(as);
	find_it_busy();
}

/* Let it publish, and wait until it has. */
static void publish(void *as)
{
	fixture_child_end(&((struct producer *)as)->child, 0);
}

static void expect_too_late(const struct producer *as)
{
	fixture_child_end(&as->child, 2);
}

static int claim_and_die(void *unused)
{
	struct producer as = {.value = 1};

	if (win(&as))
		raise(SIGKILL);
	return 1;
}

Test(wait, a_dead_owner_is_noticed_long_before_the_deadline)
{
	cr_assert(eq(int, WTERMSIG(fixture_fork(claim_and_die, NULL)), SIGKILL));
	find_it_busy();
	wait_for(10000 * MS);
	expect_claim(SLICE);
}

Test(wait, a_dead_owner_is_noticed_in_a_moment)
{
	cr_assert(eq(int, WTERMSIG(fixture_fork(claim_and_die, NULL)), SIGKILL));
	find_it_busy();
	wait_a_moment(30000 * MS);
	expect_claim(SLICE);
}

Test(wait, who_works_on_a_long_record_is_waited_for)
{
	struct producer as = {.value = 40};

	start_and_find_it_busy(&as);
	clock_works(AT_WORK);
	clock_at(1777 * MS, publish, &as);
	wait_for(100 * MS);
	expect_hit(40);
	cr_expect(eq(u64, clock_passed(), 1777 * MS));
}

/* One that gets so much of a CPU is waited for so long, and comes too late. */
static void expect_lost(unsigned works, uint64_t timeout_ns, uint64_t lost_ns)
{
	struct producer as = {.value = 1};

	clock_works(works);
	start_and_find_it_busy(&as);
	wait_for(timeout_ns);
	expect_claim(lost_ns);
	expect_too_late(&as);
}

Test(wait, but_no_longer_than_anybody_is)
{
	expect_lost(1000, 300 * MS, TS_WAIT_MAX_NS);
}

static void stop_working(void *unused)
{
	(void)unused;
	clock_works(0);
}

Test(wait, a_record_that_takes_many_seconds_is_waited_for)
{
	struct producer as = {.value = 41};

	start_and_find_it_busy(&as);
	clock_works(AT_WORK);
	clock_at(17777 * MS, publish, &as);
	wait_long_for(20 * MS, TS_WAIT_WORK_NS);
	expect_hit(41);
	cr_expect(eq(u64, clock_passed(), 17777 * MS));
}

Test(wait, but_not_for_ever)
{
	struct producer as = {.value = 1};

	clock_works(1000);
	start_and_find_it_busy(&as);
	wait_long_for(300 * MS, TS_WAIT_WORK_NS);
	expect_claim(TS_WAIT_WORK_NS);
	expect_too_late(&as);
}

Test(wait, who_has_worked_for_long_and_stops_loses_the_right)
{
	struct producer as = {.value = 1};

	clock_works(1000);
	start_and_find_it_busy(&as);
	clock_at(10000 * MS, stop_working, NULL);
	wait_long_for(300 * MS, TS_WAIT_WORK_NS);
	cr_assert(eq(int, busy.verdict, TS_CLAIM));
	/* It is looked at every two seconds by then, and has to work a quarter of them. */
	cr_expect(gt(u64, clock_passed(), 10000 * MS));
	cr_expect(le(u64, clock_passed(), 10000 * MS + 2 * TS_WAIT_MAX_NS));
	ts_claim_abandon(joined.b, &busy.claim);
	expect_too_late(&as);
}

Test(wait, who_is_hardly_let_run_loses_the_right_at_the_deadline)
{
	expect_lost(AT_WORK - 1, 100 * MS, 100 * MS);
}

Test(wait, where_everybody_is_hardly_let_run_nobody_loses_it_for_that)
{
	struct producer as = {.value = 7};

	start_and_find_it_busy(&as);
	clock_works(AT_WORK / 10);
	clock_stretch(10);
	clock_at(1900 * MS, publish, &as);
	wait_for(20 * MS);
	expect_hit(7);
}

Test(wait, but_who_gets_less_than_others_does)
{
	clock_stretch(10);
	expect_lost(AT_WORK / 10 - 1, 20 * MS, 200 * MS);
}

Test(wait, who_is_stopped_loses_the_right_at_the_deadline)
{
	expect_lost(0, 52 * MS, 52 * MS);
}

/* One that does nothing, and who takes it over before the deadline and works as little. */
struct pair {
	struct producer stopped, next;
	uint64_t publishes_ns;
};

static void take_over(void *context)
{
	struct pair *pair = context;

	start(&pair->next);
	if (pair->publishes_ns)
		clock_at(pair->publishes_ns, publish, &pair->next);
}

static void wait_for_pair(struct pair *pair)
{
	pair->next = (struct producer){.value = 2, .waits = true};
	start_and_find_it_busy(&pair->stopped);
	clock_at(450 * MS, take_over, pair);
	wait_for(500 * MS);
}

Test(wait, who_took_over_is_waited_for_anew)
{
	struct pair pair = {.publishes_ns = 840 * MS};

	wait_for_pair(&pair);
	expect_hit(2);
	cr_expect(eq(u64, clock_passed(), 840 * MS));
	expect_too_late(&pair.stopped);
}

Test(wait, but_for_no_longer_than_the_one_before)
{
	struct pair pair = {.publishes_ns = 0};

	wait_for_pair(&pair);
	expect_claim((450 + 500) * MS);
	expect_too_late(&pair.next);
	expect_too_late(&pair.stopped);
}
