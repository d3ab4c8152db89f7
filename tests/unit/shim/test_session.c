/* SPDX-License-Identifier: MIT */
/* When a process joins its store, who does it, and where it counts. */
#include "tests/unit/clock.h"
#include "tests/unit/valgrind.h"
#include "fixture.h"
#include "leader/group/store_private.h"
#include "leader/group/attach.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>

#define THREADS 8

TestSuite(session, .init = fixture_init, .fini = fixture_finish);

/* Members of the group that are not proven dead. */
static unsigned members(void)
{
	struct ts_store *store = fixture_enter()->store;
	unsigned count = 0;

	for (uint32_t i = 0; i < ts_member_high(store); i++)
		count += !ts_member_is_gone(store, i);
	return count;
}

/* ---- joining ---------------------------------------------------------------------------- */

Test(session, is_joined_once)
{
	const struct ts_session *first = fixture_enter();

	cr_expect(eq(ptr, (void *)fixture_enter(), (void *)first));
	cr_expect(eq(u32, members(), 1));
}

/* What nothing is shared with, by aligned jobs either. */
static const char *const disabled[][2] = {
	{"TSSHIM_DISABLE", "1"}, {"TSSHIM_SHARE", "off"}, {"TSSHIM_RING", "0"}};
static const char *const *setting;

static int is_disabled(void)
{
	enum ts_reason reason = TS_REASON_COUNT;

	setenv(setting[0], setting[1], 1);
	setenv("TSSHIM_ALIGN", "0", 1);
	return ts_session_enter(&reason) == NULL && reason == TS_REASON_DISABLED ? 0 : 1;
}

Test(session, settings_switch_it_off)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(disabled); i++) {
		setting = disabled[i];
		cr_expect(eq(int, fixture_fork(is_disabled), 0), "%s", setting[0]);
	}
	/* Without samples it still shares pixels. */
	setenv("TSSHIM_SHARE", "pixels", 1);
	fixture_enter();
}

/* ---- forks ------------------------------------------------------------------------------ */

static struct ts_store *parents_store;
static int32_t parents_member;

static int join_in_child(void)
{
	enum ts_reason reason;
	const struct ts_session *session = ts_session_enter(&reason);

	if (!session || session->store->member == parents_member)
		return 1;
	/* The mappings are the parent's still; only the membership is new. */
	if (session->store != parents_store || members() != 2)
		return 2;
	ts_session_count_pass(TS_REASON_JPEG_SMALL);
	ts_session_finish();
	return 0;
}

Test(session, a_fork_child_joins_as_a_member_of_its_own)
{
	parents_store = fixture_enter()->store;
	parents_member = parents_store->member;
	cr_assert(eq(int, fixture_fork(join_in_child), 0));
	cr_expect(eq(u32, members(), 1));
	cr_expect(eq(u64, ts_load_relaxed(&fixture_ledger()->passed[TS_REASON_JPEG_SMALL]), 1));
}

static int leave_without_joining(void)
{
	ts_session_finish();
	return 0;
}

Test(session, a_fork_child_that_did_nothing_leaves_the_parent_alone)
{
	fixture_enter();
	cr_assert(eq(int, fixture_fork(leave_without_joining), 0));
	cr_expect(eq(u32, members(), 1));
}

static pthread_barrier_t barrier;
static _Atomic uint32_t entered;

static void *enter_with_others(void *unused)
{
	enum ts_reason reason = TS_REASON_COUNT;

	pthread_barrier_wait(&barrier);
	if (ts_session_enter(&reason))
		ts_add_relaxed(&entered, 1);
	else if (reason != TS_REASON_NO_STORE)
		abort();
	return NULL;
}

/* All threads of this process enter at once; how many members there are then. */
static unsigned enter_in_threads(void)
{
	pthread_t threads[THREADS];

	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, enter_with_others, NULL) != 0)
			return 0;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return ts_load_relaxed(&entered) == 0 ? 0 : members();
}

static int expect_members(unsigned wanted)
{
	unsigned count = enter_in_threads();

	ts_session_finish();
	return count == wanted ? 0 : (int)count + 10;
}

static int expect_two_members(void)
{
	return expect_members(2);
}

static int expect_one_member(void)
{
	return expect_members(1);
}

Test(session, threads_of_one_process_join_once)
{
	cr_expect(eq(u32, enter_in_threads(), 1));
}

/* The race is a matter of luck; many children have enough of it. */
Test(session, threads_of_a_child_of_nobody_and_of_a_fork_child_join_once)
{
	for (int i = 0; i < 50; i++)
		cr_assert(eq(int, fixture_fork(expect_one_member), 0), "child %d", i);
	fixture_enter();
	for (int i = 0; i < 50; i++)
		cr_assert(eq(int, fixture_fork(expect_two_members), 0), "child %d", i);
}

/* A file system on which attaching stops in the middle: the test holds the ledger's lock. */
static void *attach_slowly(void *unused)
{
	enum ts_reason reason;

	(void)ts_session_enter(&reason);
	return NULL;
}

static int hold_lock_pipe[2];

/* A thread that attaches waits for the lock until it may go on. */
static _Atomic int waits_for_lock, may_go_on;

static int wait_for_lock(const volatile void *word, uint32_t expected, uint64_t timeout_ns)
{
	(void)word;
	(void)expected;
	(void)timeout_ns;
	ts_write_release(&waits_for_lock, 1);
	while (!ts_load_acquire(&may_go_on))
		usleep(1000);
	return -ETIMEDOUT;
}

static uint64_t no_time_passes(void)
{
	return 1;
}

/* Another process, for a lock of our own would not keep us out. */
static pid_t hold_lock(const char *path)
{
	char ready;
	pid_t pid;

	cr_assert(eq(int, pipe(hold_lock_pipe), 0));
	pid = fork();
	if (pid == 0) {
		struct ts_object book = {.fd = -1};
		fixture_end_with_parent();
		memcpy(book.path, path, strlen(path) + 1);
		if (ts_object_open(&book) < 0 ||
			ts_object_lock_byte(ts_load_relaxed(&book.fd), 0, F_WRLCK) < 0)
			_exit(1);
		(void)!write(hold_lock_pipe[1], "", 1);
		for (;;)
			pause();
	}
	cr_assert(eq(int, (int)read(hold_lock_pipe[0], &ready, 1), 1));
	return pid;
}

static void end_holder(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* When @free has ended the lock is free again. */
static int join_after_holder(int free)
{
	enum ts_reason reason;
	char byte;

	ts_test_clock = NULL;
	cr_assert(eq(int, (int)read(free, &byte, 1), 0));
	const struct ts_session *session = ts_session_enter(&reason);
	if (!session)
		return (int)reason + 10;
	ts_session_finish();
	return 0;
}

Test(session, a_child_forked_while_a_thread_attached_can_join)
{
	static const struct ts_test_clock slow = {
		.now_ns = no_time_passes, .futex_wait = wait_for_lock};
	char path[TS_PATH_BYTES];
	pthread_t thread;
	int held[2];

	/* Make the ledger, and have no member. */
	cr_assert(eq(int, fixture_fork(expect_one_member), 0));
	cr_assert(eq(
		int, ts_object_path(path, sizeof(path), getenv("TSSHIM_GROUP"), "ledger"), 0));
	pid_t holder = hold_lock(path);
	cr_assert(eq(int, pipe(held), 0));
	ts_test_clock = &slow;
	cr_assert(eq(int, pthread_create(&thread, NULL, attach_slowly, NULL), 0));
	while (!ts_load_acquire(&waits_for_lock))
		usleep(1000);
	pid_t child = fork();
	if (child == 0) {
		close(held[1]);
		_exit(join_after_holder(held[0]));
	}
	end_holder(holder);
	close(held[1]);
	cr_expect(eq(int, fixture_wait(child), 0));
	ts_write_release(&may_go_on, 1);
	pthread_join(thread, NULL);
	ts_test_clock = NULL;
}

/* Our worker has used the ring; we never did, and cannot join to take it along. */
Test(session, a_job_that_cannot_join_to_leave_says_that_it_leaves)
{
	NOT_EMULATED("a child is told its parent's start time, so who lives is not known");
	const char *group = getenv("TSSHIM_GROUP");
	char path[TS_PATH_BYTES];

	cr_assert(eq(int, fixture_fork(expect_one_member), 0));
	cr_assert(eq(int, ts_object_path(path, sizeof(path), group, "ledger"), 0));
	struct ts_ledger *ledger = ts_ledger_map(group);
	cr_assert(ledger != NULL);
	cr_assert(ts_ledger_has_live_job(ledger, 0), "the ring stays for us");
	pid_t holder = hold_lock(path);
	ts_session_finish();
	cr_expect(ts_group_has_ring(group), "nobody could remove it");
	cr_expect(not(ts_ledger_has_live_job(ledger, 0)), "who holds the lock may");
	end_holder(holder);
	ts_ledger_unmap(ledger);
}

static int vfork_answer;

static int ask_like_vfork(void *unused)
{
	enum ts_reason reason = TS_REASON_COUNT;

	vfork_answer = ts_session_enter(&reason) ? -1 : (int)reason;
	ts_session_count_pass(reason);
	return 0;
}

Test(session, nothing_is_done_between_vfork_and_exec)
{
	NOT_UNDER_VALGRIND("vfork is a fork");
	NOT_EMULATED("vfork is a fork");
	static char stack[65536] __attribute__((aligned(16)));

	fixture_enter();
	pid_t pid = clone(
		ask_like_vfork, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
	cr_assert(gt(int, pid, 0));
	cr_assert(eq(int, fixture_wait(pid), 0));
	cr_expect(eq(int, vfork_answer, TS_REASON_VFORK));
	cr_expect(eq(u64, ts_load_relaxed(&fixture_ledger()->passed[TS_REASON_VFORK]), 0));
}

/* ---- what the user is told ----------------------------------------------------------------
 */

static int enter_silently(void)
{
	int lines = fixture_catch_stderr();

	fixture_enter();
	return fixture_lines(lines);
}

Test(session, the_job_says_once_which_settings_are_wrong)
{
	char text[1024] = {0};

	setenv("TSSHIM_VERIFY", "lots", 1);
	setenv("TSSHIM_RNIG", "1G", 1);
	setenv("TSSHIM_COLOUR", "red", 1);
	cr_expect(eq(int, fixture_fork(enter_silently), 0), "a worker repeats nothing");
	int lines = fixture_catch_stderr();
	fixture_enter();
	fixture_enter();
	cr_assert(gt(int, (int)read(lines, text, sizeof(text) - 1), 0));
	cr_expect(strstr(text, "tsshim: TSSHIM_VERIFY=lots is not a number") != NULL);
	cr_expect(strstr(text, "TSSHIM_RNIG, did you mean TSSHIM_RING?\n") != NULL);
	cr_expect(strstr(text, "unknown setting TSSHIM_COLOUR, ignoring\n") != NULL);
	cr_expect(eq(int, fixture_lines(lines), 0));
}

/* ---- trying again ----------------------------------------------------------------------- */

static enum ts_reason enter_fails(void)
{
	enum ts_reason reason = TS_REASON_COUNT;

	cr_assert(ts_session_enter(&reason) == NULL);
	return reason;
}

Test(session, a_failure_is_tried_again_after_1_and_2_seconds)
{
	char *shm = strdup(getenv("TSSHIM_TEST_SHM"));

	setenv("TSSHIM_TEST_SHM", "/proc/nonexistent", 1);
	setenv("TSSHIM_DEBUG", "info", 1);
	clock_begin();
	int lines = fixture_catch_stderr();
	cr_expect(eq(int, enter_fails(), TS_REASON_NO_STORE));
	cr_expect(eq(int, fixture_lines(lines), 1));
	for (int i = 0; i < 1000; i++)
		cr_expect(eq(int, enter_fails(), TS_REASON_NO_STORE));
	cr_expect(eq(int, fixture_lines(lines), 0));
	clock_pass(UINT64_C(1050000000));
	enter_fails();
	cr_expect(eq(int, fixture_lines(lines), 1));
	clock_pass(UINT64_C(1050000000));
	enter_fails();
	cr_expect(eq(int, fixture_lines(lines), 0), "now two seconds");
	ts_session_count_pass(TS_REASON_NO_STORE);
	setenv("TSSHIM_TEST_SHM", shm, 1);
	free(shm);
	clock_pass(UINT64_C(1050000000));
	cr_expect(eq(u64, ts_load_relaxed(&fixture_ledger()->passed[TS_REASON_NO_STORE]), 1));
	clock_end();
}

/* Where a session counts, how long it waits, what it verifies, and what is left at the end. */

TestSuite(counts, .init = fixture_init, .fini = fixture_finish);

/* ---- counting --------------------------------------------------------------------------- */

static struct ts_job_row *job_row(void)
{
	return ts_ledger_job(fixture_ledger(), fixture_enter()->job);
}

static struct ts_dataset_row *dataset_row(void)
{
	return ts_ledger_dataset(fixture_ledger(), fixture_enter()->dataset);
}

Test(counts, the_rows_are_those_of_the_settings_and_of_the_job)
{
	setenv("TSSHIM_DATASET", "pets=/somewhere", 1);
	bool alive = false;
	uint32_t dataset = fixture_enter()->dataset;

	cr_expect(eq(str, dataset_row()->name, (char *)"pets"));
	cr_expect(eq(u64, ts_load_relaxed(&job_row()->id), ts_identity_job()));
	cr_expect(eq(int, ts_ledger_leader(fixture_ledger(), dataset, &alive),
		(int)fixture_enter()->job));
	cr_expect(alive);
}

Test(counts, what_was_counted_before_is_counted_once_joined)
{
	for (int i = 0; i < 3; i++)
		ts_session_count_pass(TS_REASON_JPEG_SMALL);
	ts_session_count_pass(TS_REASON_MEMORY);
	ts_session_count_produced(TS_KIND_PIXELS, 100, 100);
	cr_expect(eq(u64, ts_load_relaxed(&fixture_ledger()->passed[TS_REASON_JPEG_SMALL]), 3));
	cr_expect(eq(u64, ts_load_relaxed(&job_row()->passed[TS_REASON_JPEG_SMALL]), 3));
	cr_expect(eq(u64, ts_load_relaxed(&fixture_ledger()->passed[TS_REASON_MEMORY]), 1));
	cr_expect(eq(u64, ts_load_relaxed(&dataset_row()->kinds[TS_KIND_PIXELS].produced), 1));
	cr_expect(eq(u64, ts_load_relaxed(&job_row()->kinds[TS_KIND_PIXELS].produced), 1));
}

static int join_and_say_nothing(void)
{
	fixture_enter();
	ts_session_finish();
	return 0;
}

Test(counts, a_child_does_not_count_again_what_its_parent_keeps)
{
	ts_session_count_pass(TS_REASON_JPEG_SMALL);
	cr_assert(eq(int, fixture_fork(join_and_say_nothing), 0));
	cr_expect(eq(u64, ts_load_relaxed(&fixture_ledger()->passed[TS_REASON_JPEG_SMALL]), 1));
}

Test(counts, what_is_shared_is_counted_with_what_it_saved)
{
	struct ts_lease lease = {.bytes = 1000, .produce_ns = 77};

	fixture_enter();
	ts_session_count_shared(TS_KIND_SAMPLE, &lease);
	ts_session_count_shared(TS_KIND_SAMPLE, &lease);
	struct ts_tally *rows[] = {
		&dataset_row()->kinds[TS_KIND_SAMPLE], &job_row()->kinds[TS_KIND_SAMPLE]};
	for (size_t i = 0; i < TS_ARRAY_SIZE(rows); i++) {
		cr_expect(eq(u64, ts_load_relaxed(&rows[i]->shared), 2));
		cr_expect(eq(u64, ts_load_relaxed(&rows[i]->shared_bytes), 2000));
		cr_expect(eq(u64, ts_load_relaxed(&rows[i]->saved_ns), 154));
		cr_expect(eq(u64, ts_load_relaxed(&rows[i]->produced), 0));
	}
}

/* Sum of everything that any job counted. */
static uint64_t counted_by_jobs(struct ts_ledger *book)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		struct ts_job_row *row = ts_ledger_job(book, i);
		for (uint32_t k = 0; k < TS_KIND_COUNT; k++)
			sum += ts_load_relaxed(&row->kinds[k].produced) +
			       ts_load_relaxed(&row->kinds[k].shared);
		for (uint32_t r = 0; r < TS_REASON_SLOTS; r++)
			sum += ts_load_relaxed(&row->passed[r]);
	}
	return sum;
}

/* A live job in each row, which is not the caller's. */
static int fill_job_rows(void)
{
	for (uint32_t i = 0; i < TS_JOB_MAX; i++)
		ts_write_relaxed(
			&ts_ledger_job(fixture_ledger(), i)->id, ts_process_id(1, false));
	return 0;
}

Test(counts, a_job_without_a_row_counts_in_nobody_elses)
{
	struct ts_lease lease = {.bytes = 1, .produce_ns = 1};

	ts_session_count_pass(TS_REASON_MEMORY);
	cr_assert(eq(int, fixture_fork(fill_job_rows), 0));
	cr_assert(eq(u32, fixture_enter()->job, TS_JOB_MAX));
	ts_session_count_pass(TS_REASON_JPEG_SMALL);
	ts_session_count_produced(TS_KIND_PIXELS, 1, 1);
	ts_session_count_shared(TS_KIND_PIXELS, &lease);
	cr_expect(eq(u64, counted_by_jobs(fixture_ledger()), 0));
	cr_expect(eq(u64, ts_load_relaxed(&fixture_ledger()->passed[TS_REASON_JPEG_SMALL]), 1));
	cr_expect(eq(u64, ts_load_relaxed(&fixture_ledger()->passed[TS_REASON_MEMORY]), 1));
	cr_expect(eq(u64, ts_load_relaxed(&dataset_row()->kinds[TS_KIND_PIXELS].shared), 1));
}

/* ---- deadlines -------------------------------------------------------------------------- */

#define MS UINT64_C(1000000)

Test(counts, a_deadline_lies_within_20_ms_and_2_s)
{
	_Atomic uint64_t *cost;

	cr_expect(eq(u64, ts_session_deadline_ns(TS_KIND_PIXELS, 1 << 20), 20 * MS));
	cost = &dataset_row()->cost_ns_per_kib[TS_KIND_PIXELS];
	cr_expect(eq(u64, ts_session_deadline_ns(TS_KIND_PIXELS, 1 << 20), 20 * MS));
	/* 10 ms for 100 KiB are 100 us for each. */
	ts_session_count_produced(TS_KIND_PIXELS, 100 << 10, 10 * MS);
	cr_expect(eq(u64, ts_load_relaxed(cost), 100000));
	cr_expect(eq(u64, ts_session_deadline_ns(TS_KIND_PIXELS, 99 << 10), 40 * MS));
	cr_expect(eq(u64, ts_session_deadline_ns(TS_KIND_PIXELS, 0), 20 * MS));
	cr_expect(eq(u64, ts_session_deadline_ns(TS_KIND_PIXELS, 64 << 20), 2000 * MS));
	cr_expect(eq(u64, ts_session_deadline_ns(TS_KIND_SAMPLE, 64 << 20), 20 * MS));
	/* What others wrote there cannot make it wrap around. */
	ts_write_relaxed(cost, UINT64_MAX);
	cr_expect(eq(u64, ts_session_deadline_ns(TS_KIND_PIXELS, UINT64_MAX), 2000 * MS));
	cr_expect(eq(u64, ts_session_deadline_ns(TS_KIND_PIXELS, 0), 2000 * MS));
}

Test(counts, the_cost_is_an_average)
{
	_Atomic uint64_t *cost = &dataset_row()->cost_ns_per_kib[TS_KIND_PIXELS];

	ts_session_count_produced(TS_KIND_PIXELS, 1024, 8000);
	for (int i = 0; i < 100; i++)
		ts_session_count_produced(TS_KIND_PIXELS, 1024, 16000);
	cr_expect(le(u64, ts_load_relaxed(cost), 16000));
	cr_expect(ge(u64, ts_load_relaxed(cost), 15900));
	ts_session_count_produced(TS_KIND_PIXELS, 1024, 0);
	cr_expect(ge(u64, ts_load_relaxed(cost), 15900), "0 is unknown, not free");
}

/* ---- verify mode ------------------------------------------------------------------------ */

static unsigned verified_of(unsigned hits, const char *percent)
{
	unsigned count = 0;

	setenv("TSSHIM_VERIFY", percent, 1);
	for (unsigned i = 0; i < hits; i++)
		count += ts_session_verify_this_hit();
	return count;
}

Test(counts, no_hit_is_verified_at_0)
{
	cr_expect(eq(u32, verified_of(100000, "0"), 0));
}

Test(counts, every_hit_is_verified_at_100)
{
	cr_expect(eq(u32, verified_of(100000, "100"), 100000));
}

Test(counts, some_hits_are_verified_in_between)
{
	unsigned count = verified_of(100000, "1");

	/* Six standard deviations of 31 each way. */
	cr_expect(ge(u32, count, 800), "%u", count);
	cr_expect(le(u32, count, 1200), "%u", count);
}

Test(counts, equal_results_are_counted)
{
	struct ts_lease lease = {.dataset = fixture_enter()->dataset};

	ts_session_count_verified(true, &lease);
	cr_expect(eq(u64, ts_load_relaxed(&fixture_ledger()->verified), 1));
	cr_expect(eq(u64, ts_load_relaxed(&fixture_ledger()->mismatched), 0));
	cr_expect(eq(u32, ts_load_relaxed(&dataset_row()->off), 0));
}

Test(counts, a_difference_switches_the_records_dataset_off)
{
	struct ts_ledger *book = fixture_ledger();
	int other = ts_ledger_find_dataset(book, "other");
	int third = ts_ledger_find_dataset(book, "third");
	struct ts_lease lease = {.dataset = (uint32_t)other};
	char text[1024] = {0};

	int lines = fixture_catch_stderr();
	ts_session_count_verified(false, &lease);
	cr_expect(eq(u64, ts_load_relaxed(&book->verified), 1));
	cr_expect(eq(u64, ts_load_relaxed(&book->mismatched), 1));
	cr_expect(eq(u32, ts_load_relaxed(&ts_ledger_dataset(book, (uint32_t)other)->off), 1));
	cr_expect(eq(u32, ts_load_relaxed(&dataset_row()->off), 1), "we would ask again");
	cr_expect(eq(u32, ts_load_relaxed(&ts_ledger_dataset(book, (uint32_t)third)->off), 0));
	cr_assert(gt(int, (int)read(lines, text, sizeof(text) - 1), 0));
	cr_expect(strstr(text, "dataset other differs") != NULL, "%s", text);
}

Test(counts, a_difference_in_a_dataset_that_does_not_exist_stays_within_bounds)
{
	struct ts_lease lease = {.dataset = UINT32_MAX};

	fixture_enter();
	fixture_catch_stderr();
	ts_session_count_verified(false, &lease);
	cr_expect(eq(u32, ts_load_relaxed(&dataset_row()->off), 1));
}

/* ---- the end ---------------------------------------------------------------------------- */

static bool ring_exists(void)
{
	char path[TS_PATH_BYTES];

	cr_assert(
		eq(int, ts_object_path(path, sizeof(path), getenv("TSSHIM_GROUP"), "ring"), 0));
	return access(path, F_OK) == 0;
}

Test(counts, the_job_removes_the_ring_that_its_workers_used)
{
	NOT_EMULATED("a child is told its parent's start time");
	/* The worker leaves while its job lives: the ring stays for the next one. */
	cr_assert(eq(int, fixture_fork(join_and_say_nothing), 0));
	cr_expect(ring_exists());
	ts_session_finish();
	cr_expect(not(ring_exists()));
}

Test(counts, the_summary_is_printed_when_asked_for)
{
	char text[1024] = {0};

	setenv("TSSHIM_SUMMARY", "1", 1);
	fixture_enter();
	ts_session_count_produced(TS_KIND_PIXELS, 1, 1);
	int lines = fixture_catch_stderr();
	ts_session_finish();
	cr_assert(gt(int, (int)read(lines, text, sizeof(text) - 1), 0));
	cr_expect(
		strstr(text, "decoded images: 1 worked out here, 0 taken") != NULL, "%s", text);
}

Test(counts, a_job_started_by_what_tsrun_started_has_a_summary_too)
{
	setenv("TSSHIM_SUMMARY", "pid:1", 1);
	fixture_enter();
	int lines = fixture_catch_stderr();
	ts_session_finish();
	cr_expect(eq(int, fixture_lines(lines), 2));
}

Test(counts, a_process_that_shares_nothing_prints_nothing_unless_tsrun_started_it)
{
	setenv("TSSHIM_SUMMARY", "pid:1", 1);
	int lines = fixture_catch_stderr();
	ts_session_finish();
	cr_expect(eq(int, fixture_lines(lines), 0));
}
