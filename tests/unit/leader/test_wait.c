/* SPDX-License-Identifier: MIT */
/* Waiting for a record that another produces, and taking its claim over. */
#include "fixture.h"
#include "shim/sys.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

/* The limit of the suite before, which may still run: Criterion 2.4.1 leaks the timer of a
 * limit that ends before one that was set earlier, and LeakSanitizer sees it. */
TestSuite(wait, .init = fixture_init, .fini = fixture_finish, .timeout = 60);

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
	ts_store_detach(one);
	ts_store_detach(two);
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
	uint64_t start = ts_now_ns();
	ts_store_wait_a_moment(two, &key, 30000 * MS, &patience, &busy);
	cr_assert(eq(int, busy.verdict, TS_HIT));
	cr_expect(lt(u64, ts_now_ns() - start, 1000 * MS));
	ts_lease_release(two, &busy.lease);

	claim = fixture_take(one, other);
	busy = fixture_take(two, other);
	cr_assert(eq(int, busy.verdict, TS_BUSY));
	ts_claim_abandon(one, &claim.claim);
	ts_store_wait_a_moment(two, &other, 30000 * MS, &patience, &busy);
	cr_expect(eq(int, busy.verdict, TS_CLAIM));
	ts_claim_abandon(two, &busy.claim);
	ts_store_detach(one);
	ts_store_detach(two);
}

Test(wait, wait_takes_over_at_the_deadline_and_the_old_owner_loses)
{
	struct ts_store *one = fixture_attach(JOB_A), *two = fixture_attach(JOB_B);
	struct ts_key key = fixture_key(1, 1);
	void *buffer, *other;

	fixture_capture(one, true);
	struct ts_take claim = fixture_take(one, key), busy = fixture_take(two, key);
	cr_assert(eq(int, ts_claim_reserve(one, &claim.claim, 100, &buffer), 0));
	uint64_t start = ts_now_ns();
	ts_store_wait(two, &key, 30 * MS, &(struct ts_patience){0}, &busy);
	cr_expect(ge(u64, ts_now_ns() - start, 30 * MS));
	cr_assert(eq(int, busy.verdict, TS_CLAIM));
	cr_assert(eq(int, ts_claim_reserve(two, &busy.claim, 100, &other), 0));
	memset(other, 2, 100);
	memset(buffer, 1, 100); /* memory stays the old owner's */
	cr_expect(eq(int, ts_claim_publish(one, &claim.claim, 100, 1), -ESTALE));
	cr_assert(eq(int, ts_claim_publish(two, &busy.claim, 100, 1), 0));
	cr_expect(fixture_hits(one, key, 100, 2));
	ts_store_detach(one);
	ts_store_detach(two);
}

Test(wait, moments_count_towards_the_deadline)
{
	struct ts_store *one = fixture_attach(JOB_A), *two = fixture_attach(JOB_B);
	struct ts_key key = fixture_key(1, 1), other = fixture_key(2, 2);
	struct ts_patience patience = {0};

	fixture_capture(one, true);
	struct ts_take claim = fixture_take(one, key), busy = fixture_take(two, key);
	cr_assert(eq(int, busy.verdict, TS_BUSY));
	uint64_t start = ts_now_ns();
	while (busy.verdict == TS_BUSY && ts_now_ns() - start < 30000 * MS)
		ts_store_wait_a_moment(two, &key, 30 * MS, &patience, &busy);
	cr_expect(ge(u64, ts_now_ns() - start, 30 * MS));
	cr_assert(eq(int, busy.verdict, TS_CLAIM));
	ts_claim_abandon(two, &busy.claim);
	ts_claim_abandon(one, &claim.claim);

	/* What was waited for one claim is nothing that was waited for the next. */
	claim = fixture_take(one, other);
	busy = fixture_take(two, other);
	start = ts_now_ns();
	ts_store_wait_a_moment(two, &other, 30000 * MS, &patience, &busy);
	cr_assert(eq(int, busy.verdict, TS_BUSY));
	cr_expect(gt(u64, patience.waited_ns, 0));
	cr_expect(le(u64, patience.waited_ns, ts_now_ns() - start));

	/* As if it had gone on for so long. */
	patience.waited_ns = 1000 * MS;
	start = ts_now_ns();
	ts_store_wait(two, &other, 1000 * MS, &patience, &busy);
	cr_expect(lt(u64, ts_now_ns() - start, 800 * MS));
	cr_assert(eq(int, busy.verdict, TS_CLAIM));
	ts_claim_abandon(two, &busy.claim);
	ts_claim_abandon(one, &claim.claim);
	ts_store_detach(one);
	ts_store_detach(two);
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
	ts_claim_abandon(store, &busy.claim);
	ts_store_detach(store);
}

Test(wait, a_dead_owner_is_noticed_long_before_the_deadline)
{
	struct ts_store *store = fixture_attach(JOB_B);
	struct ts_key key = fixture_key(1, 1);

	fixture_capture(store, true);
	cr_assert(eq(int, WTERMSIG(fixture_fork(claim_and_die, &key)), SIGKILL));
	struct ts_take busy = fixture_take(store, key);
	cr_assert(eq(int, busy.verdict, TS_BUSY));
	uint64_t start = ts_now_ns();
	ts_store_wait(store, &key, 10000 * MS, &(struct ts_patience){0}, &busy);
	cr_expect(lt(u64, ts_now_ns() - start, 5000 * MS));
	cr_expect(eq(int, busy.verdict, TS_CLAIM));
	ts_claim_abandon(store, &busy.claim);
	ts_store_detach(store);
}

/* ---- owners in other processes ---------------------------------------------------------- */

/* A child that makes a record. */
struct producer {
	struct ts_key key;
	uint64_t cpu_ns; /* it works that long, then publishes; the value is its milliseconds */
	bool stops;      /* before it has worked */
	bool waits;      /* for the right, which somebody else has */
};

static void work(uint64_t cpu_ns)
{
	uint64_t begin = ts_thread_cpu_ns();

	while (ts_thread_cpu_ns() - begin < cpu_ns)
		;
}

static int produce(const struct producer *as, int said)
{
	struct ts_store *store = fixture_attach(JOB_A);
	struct ts_take take = fixture_take(store, as->key);
	void *buffer;

	if (take.verdict == TS_BUSY && as->waits)
		ts_store_wait(store, &as->key, 50 * MS, &(struct ts_patience){0}, &take);
	if (take.verdict != TS_CLAIM ||
		ts_claim_reserve(store, &take.claim, 100, &buffer) != 0 ||
		write(said, "", 1) != 1)
		return 1;
	if (as->stops)
		raise(SIGSTOP);
	work(as->cpu_ns);
	memset(buffer, (int)(as->cpu_ns / MS / 10), 100);
	return ts_claim_publish(store, &take.claim, 100, as->cpu_ns) == 0 ? 0 : 2;
}

/* Start one; unless it waits, it has the claim when this returns. */
static pid_t start(const struct producer *as)
{
	int ends[2];
	char said;

	cr_assert(eq(int, pipe(ends), 0));
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a stopped one as well, if the test fails */
		_exit(produce(as, ends[1]));
	}
	cr_assert(gt(int, pid, 0));
	if (!as->waits)
		cr_assert(eq(int, (int)read(ends[0], &said, 1), 1));
	close(ends[0]);
	close(ends[1]);
	return pid;
}

static void expect_exit(pid_t pid, int expected)
{
	int status = -1;

	cr_assert(eq(int, waitpid(pid, &status, 0), pid));
	cr_expect(eq(int, WIFEXITED(status) ? WEXITSTATUS(status) : -1, expected));
}

/* Whether @take, which is ended, is a hit, and then with the bytes of @as. */
static bool is_hit(struct ts_store *store, struct ts_take *take, const struct producer *as)
{
	if (take->verdict == TS_CLAIM)
		ts_claim_abandon(store, &take->claim);
	if (take->verdict != TS_HIT)
		return false;
	cr_expect(
		eq(int, *(const unsigned char *)take->lease.data, (int)(as->cpu_ns / MS / 10)));
	ts_lease_release(store, &take->lease);
	return true;
}

/* On a busy machine a producer may for once get too little of a CPU to count as one at work. */
#define ATTEMPTS 8

static bool is_long_record_waited_for(struct ts_store *store, uint32_t number)
{
	struct producer as = {.key = fixture_key(1, number + 1), .cpu_ns = 400 * MS};
	pid_t pid = start(&as);
	struct ts_take busy = fixture_take(store, as.key);

	cr_assert(eq(int, busy.verdict, TS_BUSY));
	ts_store_wait(store, &as.key, 100 * MS, &(struct ts_patience){0}, &busy);
	bool waited = is_hit(store, &busy, &as);
	expect_exit(pid, waited ? 0 : 2);
	return waited;
}

Test(wait, who_works_on_a_long_record_is_waited_for)
{
	struct ts_store *store = fixture_attach(JOB_B);
	bool waited = false;

	fixture_capture(store, true);
	for (uint32_t i = 0; i < ATTEMPTS && !waited; i++)
		waited = is_long_record_waited_for(store, i);
	cr_expect(waited);
	ts_store_detach(store);
}

Test(wait, but_no_longer_than_anybody_is)
{
	struct ts_store *store = fixture_attach(JOB_B);
	struct producer as = {.key = fixture_key(1, 1), .cpu_ns = 10000 * MS};

	fixture_capture(store, true);
	pid_t pid = start(&as);
	struct ts_take busy = fixture_take(store, as.key);
	uint64_t begin = ts_now_ns();
	ts_store_wait(store, &as.key, 100 * MS, &(struct ts_patience){0}, &busy);
	cr_expect(eq(int, busy.verdict, TS_CLAIM));
	cr_expect(lt(u64, ts_now_ns() - begin, 2 * TS_WAIT_MAX_NS));
	ts_claim_abandon(store, &busy.claim);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ts_store_detach(store);
}

Test(wait, who_is_stopped_loses_the_right_at_the_deadline)
{
	struct ts_store *store = fixture_attach(JOB_B);
	struct producer as = {.key = fixture_key(1, 1), .stops = true};

	fixture_capture(store, true);
	pid_t pid = start(&as);
	struct ts_take busy = fixture_take(store, as.key);
	cr_assert(eq(int, waitpid(pid, NULL, WUNTRACED), pid));
	uint64_t begin = ts_now_ns();
	ts_store_wait(store, &as.key, 50 * MS, &(struct ts_patience){0}, &busy);
	cr_expect(lt(u64, ts_now_ns() - begin, 1000 * MS));
	cr_expect(eq(int, busy.verdict, TS_CLAIM));
	ts_claim_abandon(store, &busy.claim);
	kill(pid, SIGCONT);
	expect_exit(pid, 2);
	ts_store_detach(store);
}

static bool is_waited_for_anew(struct ts_store *store, uint32_t number)
{
	struct producer stopped = {.key = fixture_key(1, number + 1), .stops = true};
	struct producer next = {.key = stopped.key, .cpu_ns = 600 * MS, .waits = true};
	pid_t one = start(&stopped);
	struct ts_take busy = fixture_take(store, stopped.key);

	cr_assert(eq(int, waitpid(one, NULL, WUNTRACED), one));
	pid_t two = start(&next);
	ts_store_wait(store, &stopped.key, 500 * MS, &(struct ts_patience){0}, &busy);
	bool waited = is_hit(store, &busy, &next);
	kill(two, SIGKILL);
	waitpid(two, NULL, 0);
	kill(one, SIGCONT);
	expect_exit(one, 2);
	return waited;
}

Test(wait, who_took_over_is_waited_for_anew)
{
	struct ts_store *store = fixture_attach(JOB_B);
	bool waited = false;

	fixture_capture(store, true);
	for (uint32_t i = 0; i < ATTEMPTS && !waited; i++)
		waited = is_waited_for_anew(store, i);
	cr_expect(waited);
	ts_store_detach(store);
}
