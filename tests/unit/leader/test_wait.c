/* SPDX-License-Identifier: MIT */
/* Waiting for a record that another produces, and taking its claim over. */
#include "../clock.h"
#include "fixture.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

/* One sleep of who waits (leader/ring/claims.c). */
#define SLICE (5 * MS)

/* Time passes only in the sleeps of who waits, so what passes can be said exactly. */
static void begin(void)
{
	fixture_init();
	clock_begin();
}

static void finish(void)
{
	clock_end();
	fixture_finish();
}

/* The limit of the suite before, which may still run: Criterion 2.4.1 leaks the timer of a
 * limit that ends before one that was set earlier, and LeakSanitizer sees it. */
TestSuite(wait, .init = begin, .fini = finish, .timeout = 60);

Test(wait, wait_ends_with_the_record)
{
	struct ts_store *one = fixture_attach(JOB_A), *two = fixture_attach(JOB_B);
	struct ts_key key = fixture_key(1, 1);
	void *buffer;

	fixture_capture(one, true);
	struct ts_take claim = fixture_take(one, key), busy = fixture_take(two, key);
	cr_assert(eq(int, busy.verdict, TS_BUSY));
	cr_assert(eq(int, ts_claim_reserve(one, &claim.claim, 100, &buffer), 0));
	memset(buffer, 5, 100);
	cr_assert(eq(int, ts_claim_publish(one, &claim.claim, 100, 1), 0));
	ts_store_wait(two, &key, 1000 * MS, &(struct ts_patience){0}, &busy);
	cr_assert(eq(int, busy.verdict, TS_HIT));
	cr_expect(eq(int, *(const char *)busy.lease.data, 5));
	ts_lease_release(two, &busy.lease);
}

Test(wait, a_moment_ends_with_the_record_or_without_it)
{
	struct ts_store *one = fixture_attach(JOB_A), *two = fixture_attach(JOB_B);
	struct ts_key key = fixture_key(1, 1), other = fixture_key(2, 2);
	struct ts_patience patience = {0};
	void *buffer;

	fixture_capture(one, true);
	struct ts_take claim = fixture_take(one, key), busy = fixture_take(two, key);
	cr_assert(eq(int, ts_claim_reserve(one, &claim.claim, 100, &buffer), 0));
	for (int i = 0; i < 100; i++) { /* no take-over before the deadline */
		ts_store_wait_a_moment(two, &key, 30000 * MS, &patience, &busy);
		cr_assert(eq(int, busy.verdict, TS_BUSY));
	}
	memset(buffer, 5, 100);
	cr_assert(eq(int, ts_claim_publish(one, &claim.claim, 100, 1), 0));
	cr_expect(eq(u64, clock_passed(), 100 * SLICE));
	cr_expect(eq(u64, patience.waited_ns, 100 * SLICE));
	ts_store_wait_a_moment(two, &key, 30000 * MS, &patience, &busy);
	cr_assert(eq(int, busy.verdict, TS_HIT));
	cr_expect(eq(u64, clock_passed(), 100 * SLICE), "nobody slept");
	ts_lease_release(two, &busy.lease);

	claim = fixture_take(one, other);
	busy = fixture_take(two, other);
	cr_assert(eq(int, busy.verdict, TS_BUSY));
	ts_claim_abandon(one, &claim.claim);
	ts_store_wait_a_moment(two, &other, 30000 * MS, &patience, &busy);
	cr_expect(eq(int, busy.verdict, TS_CLAIM));
	ts_claim_abandon(two, &busy.claim);
}

static struct {
	struct ts_store *store;
	struct ts_take take;
} given_up;

static void give_up(void *unused)
{
	(void)unused;
	ts_claim_abandon(given_up.store, &given_up.take.claim);
}

/* What nobody else here has asked for, somebody outside has. */
static enum ts_verdict wait_for_who_gives_up(struct ts_store *two, uint32_t number, bool wants)
{
	struct ts_key key = fixture_key(number, number);
	struct ts_take busy;

	ts_store_want(given_up.store, TS_KIND_PIXELS, true);
	ts_store_want(two, TS_KIND_PIXELS, wants);
	ts_store_take(given_up.store, &key, 0, TS_KIND_PIXELS, &given_up.take);
	cr_assert(eq(int, given_up.take.verdict, TS_CLAIM));
	ts_store_take(two, &key, 0, TS_KIND_PIXELS, &busy);
	cr_assert(eq(int, busy.verdict, TS_BUSY));
	clock_at(clock_passed() + 20 * MS, give_up, NULL);
	ts_store_wait(two, &key, 1000 * MS, &(struct ts_patience){0}, &busy);
	if (busy.verdict == TS_CLAIM)
		ts_claim_abandon(two, &busy.claim);
	return busy.verdict;
}

Test(wait, who_wants_what_is_given_up_claims_it)
{
	struct ts_store *one = fixture_attach(JOB_A), *two = fixture_attach(JOB_B);

	given_up.store = one;
	cr_expect(eq(int, wait_for_who_gives_up(two, 1, true), TS_CLAIM));
	cr_expect(eq(int, wait_for_who_gives_up(two, 2, false), TS_PASS));
}

Test(wait, wait_takes_over_at_the_deadline_and_the_old_owner_loses)
{
	struct ts_store *one = fixture_attach(JOB_A), *two = fixture_attach(JOB_B);
	struct ts_key key = fixture_key(1, 1);
	void *buffer, *other;

	fixture_capture(one, true);
	struct ts_take claim = fixture_take(one, key), busy = fixture_take(two, key);
	cr_assert(eq(int, ts_claim_reserve(one, &claim.claim, 100, &buffer), 0));
	ts_store_wait(two, &key, 33 * MS, &(struct ts_patience){0}, &busy);
	cr_expect(eq(u64, clock_passed(), 33 * MS));
	cr_assert(eq(int, busy.verdict, TS_CLAIM));
	cr_assert(eq(int, ts_claim_reserve(two, &busy.claim, 100, &other), 0));
	memset(other, 2, 100);
	memset(buffer, 1, 100); /* memory stays the old owner's */
	cr_expect(eq(int, ts_claim_publish(one, &claim.claim, 100, 1), -ESTALE));
	cr_assert(eq(int, ts_claim_publish(two, &busy.claim, 100, 1), 0));
	cr_expect(fixture_hits(one, key, 100, 2));
}

Test(wait, moments_count_towards_the_deadline)
{
	struct ts_store *one = fixture_attach(JOB_A), *two = fixture_attach(JOB_B);
	struct ts_key key = fixture_key(1, 1), other = fixture_key(2, 2);
	struct ts_patience patience = {0};

	fixture_capture(one, true);
	struct ts_take claim = fixture_take(one, key), busy = fixture_take(two, key);
	cr_assert(eq(int, busy.verdict, TS_BUSY));
	for (int i = 0; i < 6; i++) {
		ts_store_wait_a_moment(two, &key, 6 * SLICE, &patience, &busy);
		cr_assert(eq(int, busy.verdict, TS_BUSY));
	}
	ts_store_wait_a_moment(two, &key, 6 * SLICE, &patience, &busy);
	cr_assert(eq(int, busy.verdict, TS_CLAIM));
	cr_expect(eq(u64, clock_passed(), 6 * SLICE));
	ts_claim_abandon(two, &busy.claim);
	ts_claim_abandon(one, &claim.claim);

	/* What was waited for one claim is nothing that was waited for the next. */
	claim = fixture_take(one, other);
	busy = fixture_take(two, other);
	ts_store_wait_a_moment(two, &other, 30000 * MS, &patience, &busy);
	cr_assert(eq(int, busy.verdict, TS_BUSY));
	cr_expect(eq(u64, patience.waited_ns, SLICE));
	ts_store_wait(two, &other, 1000 * MS, &patience, &busy);
	cr_assert(eq(int, busy.verdict, TS_CLAIM));
	cr_expect(eq(u64, clock_passed(), 6 * SLICE + 1000 * MS));
	ts_claim_abandon(two, &busy.claim);
	ts_claim_abandon(one, &claim.claim);
}

static int claim_and_die(void *context)
{
	struct ts_store *store = fixture_attach(JOB_A);
	struct ts_take take = fixture_take(store, *(struct ts_key *)context);
	void *buffer;

	if (take.verdict != TS_CLAIM || ts_claim_reserve(store, &take.claim, 100, &buffer) != 0)
		return 1;
	raise(SIGKILL);
	return 1;
}

Test(wait, a_dead_owner_is_noticed_in_a_moment)
{
	struct ts_store *store = fixture_attach(JOB_B);
	struct ts_key key = fixture_key(1, 1);
	struct ts_patience patience = {0};

	fixture_capture(store, true);
	cr_assert(eq(int, WTERMSIG(fixture_fork(claim_and_die, &key)), SIGKILL));
	struct ts_take busy = fixture_take(store, key);
	cr_assert(eq(int, busy.verdict, TS_BUSY));
	ts_store_wait_a_moment(store, &key, 30000 * MS, &patience, &busy);
	cr_assert(eq(int, busy.verdict, TS_CLAIM));
	cr_expect(eq(u64, clock_passed(), SLICE));
	ts_claim_abandon(store, &busy.claim);
}

Test(wait, a_dead_owner_is_noticed_long_before_the_deadline)
{
	struct ts_store *store = fixture_attach(JOB_B);
	struct ts_key key = fixture_key(1, 1);

	fixture_capture(store, true);
	cr_assert(eq(int, WTERMSIG(fixture_fork(claim_and_die, &key)), SIGKILL));
	struct ts_take busy = fixture_take(store, key);
	cr_assert(eq(int, busy.verdict, TS_BUSY));
	ts_store_wait(store, &key, 10000 * MS, &(struct ts_patience){0}, &busy);
	cr_expect(eq(u64, clock_passed(), SLICE));
	cr_expect(eq(int, busy.verdict, TS_CLAIM));
	ts_claim_abandon(store, &busy.claim);
}

/* ---- owners in other processes ---------------------------------------------------------- */

/* Of a CPU, in thousandths: who gets so much is at work (leader/ring/claims.c). */
#define AT_WORK 250

/* A child that has a claim, and publishes when it is let. */
struct producer {
	struct ts_key key;
	int value;  /* of the bytes */
	bool waits; /* for the right, which somebody else has */
	int let;    /* closed: it may publish */
	pid_t pid;
};

static int produce(const struct producer *as, int said, int may)
{
	struct ts_store *store = fixture_attach(JOB_A);
	struct ts_take take = fixture_take(store, as->key);
	void *buffer;
	char end;

	if (take.verdict == TS_BUSY && as->waits)
		ts_store_wait(store, &as->key, 50 * MS, &(struct ts_patience){0}, &take);
	if (take.verdict != TS_CLAIM ||
		ts_claim_reserve(store, &take.claim, 100, &buffer) != 0 ||
		write(said, "", 1) != 1 || read(may, &end, 1) != 0)
		return 1;
	memset(buffer, as->value, 100);
	return ts_claim_publish(store, &take.claim, 100, 1) == 0 ? 0 : 2;
}

/* Start one; it has the claim when this returns. */
static void start(struct producer *as)
{
	int says[2], lets[2];
	char said;

	cr_assert(eq(int, pipe(says), 0));
	cr_assert(eq(int, pipe(lets), 0));
	as->pid = fork();
	if (as->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* if the test fails */
		close(lets[1]);
		_exit(produce(as, says[1], lets[0]));
	}
	cr_assert(gt(int, as->pid, 0));
	close(says[1]);
	cr_assert(eq(int, (int)read(says[0], &said, 1), 1));
	close(says[0]);
	close(lets[0]);
	as->let = lets[1];
}

/* Let it publish, and wait until it has, which must end so. */
static void expect_exit(struct producer *as, int expected)
{
	int status = -1;

	close(as->let);
	cr_assert(eq(int, waitpid(as->pid, &status, 0), as->pid));
	cr_expect(eq(int, WIFEXITED(status) ? WEXITSTATUS(status) : -1, expected));
}

static void publish(void *as)
{
	expect_exit(as, 0);
}

/* @take must be a hit, with the bytes of @as. */
static void expect_hit(struct ts_store *store, struct ts_take *take, const struct producer *as)
{
	cr_assert(eq(int, take->verdict, TS_HIT));
	cr_expect(eq(int, *(const char *)take->lease.data, as->value));
	ts_lease_release(store, &take->lease);
}

/* Wait so long for what @as makes, and lose the patience with it after @lost_ns. */
static void expect_lost(struct producer *as, uint64_t timeout_ns, uint64_t lost_ns)
{
	struct ts_store *store = fixture_attach(JOB_B);

	fixture_capture(store, true);
	start(as);
	struct ts_take busy = fixture_take(store, as->key);
	cr_assert(eq(int, busy.verdict, TS_BUSY));
	ts_store_wait(store, &as->key, timeout_ns, &(struct ts_patience){0}, &busy);
	cr_expect(eq(int, busy.verdict, TS_CLAIM));
	cr_expect(eq(u64, clock_passed(), lost_ns));
	ts_claim_abandon(store, &busy.claim);
	expect_exit(as, 2);
	fixture_detach(store);
}

Test(wait, who_works_on_a_long_record_is_waited_for)
{
	struct ts_store *store = fixture_attach(JOB_B);
	struct producer as = {.key = fixture_key(1, 1), .value = 40};

	fixture_capture(store, true);
	start(&as);
	struct ts_take busy = fixture_take(store, as.key);
	cr_assert(eq(int, busy.verdict, TS_BUSY));
	clock_works(AT_WORK);
	clock_at(1777 * MS, publish, &as);
	ts_store_wait(store, &as.key, 100 * MS, &(struct ts_patience){0}, &busy);
	expect_hit(store, &busy, &as);
	cr_expect(eq(u64, clock_passed(), 1777 * MS));
}

Test(wait, but_no_longer_than_anybody_is)
{
	clock_works(1000);
	expect_lost(&(struct producer){.key = fixture_key(1, 1)}, 300 * MS, TS_WAIT_MAX_NS);
}

Test(wait, who_is_hardly_let_run_loses_the_right_at_the_deadline)
{
	clock_works(AT_WORK - 1);
	expect_lost(&(struct producer){.key = fixture_key(1, 1)}, 100 * MS, 100 * MS);
}

Test(wait, who_is_stopped_loses_the_right_at_the_deadline)
{
	clock_works(0);
	expect_lost(&(struct producer){.key = fixture_key(1, 1)}, 52 * MS, 52 * MS);
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

static struct pair a_pair(uint64_t publishes_ns)
{
	struct ts_key key = fixture_key(1, 1);

	return (struct pair){.stopped = {.key = key, .value = 1},
		.next = {.key = key, .value = 2, .waits = true},
		.publishes_ns = publishes_ns};
}

Test(wait, who_took_over_is_waited_for_anew)
{
	struct ts_store *store = fixture_attach(JOB_B);
	struct pair pair = a_pair(840 * MS);

	fixture_capture(store, true);
	start(&pair.stopped);
	struct ts_take busy = fixture_take(store, pair.stopped.key);
	clock_at(450 * MS, take_over, &pair);
	ts_store_wait(store, &pair.stopped.key, 500 * MS, &(struct ts_patience){0}, &busy);
	expect_hit(store, &busy, &pair.next);
	cr_expect(eq(u64, clock_passed(), 840 * MS));
	expect_exit(&pair.stopped, 2);
}

Test(wait, but_for_no_longer_than_the_one_before)
{
	struct ts_store *store = fixture_attach(JOB_B);
	struct pair pair = a_pair(0);

	fixture_capture(store, true);
	start(&pair.stopped);
	struct ts_take busy = fixture_take(store, pair.stopped.key);
	clock_at(450 * MS, take_over, &pair);
	ts_store_wait(store, &pair.stopped.key, 500 * MS, &(struct ts_patience){0}, &busy);
	cr_expect(eq(int, busy.verdict, TS_CLAIM));
	cr_expect(eq(u64, clock_passed(), (450 + 500) * MS));
	ts_claim_abandon(store, &busy.claim);
	expect_exit(&pair.next, 2);
	expect_exit(&pair.stopped, 2);
}
