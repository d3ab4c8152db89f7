/* SPDX-License-Identifier: MIT */
/* Who a process is, for whom it works, and what forks and threads do to that. */
#include "tests/unit/valgrind.h"
#include "fixture.h"

#include "shim/identity.h"
#include "shim/sys.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>

TestSuite(identity, .init = ts_identity_init);

/* ---- processes -------------------------------------------------------------------------- */

Test(identity, an_id_holds_the_pid_and_a_start_time)
{
	uint64_t self = ts_process_id(getpid(), false);

	cr_expect(eq(int, TS_PROCESS_PID(self), getpid()));
	cr_expect(ne(u64, self >> 24, 0), "no start time");
	cr_expect(eq(u64, ts_process_id(getpid(), true), self));
	cr_expect(eq(u64, ts_identity_self(), self));
}

Test(identity, nobody_has_no_id)
{
	cr_expect(eq(u64, ts_process_id(0, false), 0));
	cr_expect(eq(u64, ts_process_id(-1, false), 0));
	cr_expect(eq(u64, ts_process_id(1 << 22, false), 0), "beyond the largest pid");
}

Test(identity, a_zombie_is_there_until_it_is_waited_for)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	siginfo_t info;
	cr_assert(eq(int, waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0));
	cr_expect(ne(u64, ts_process_id(pid, false), 0));
	cr_expect(eq(u64, ts_process_id(pid, true), 0));
	cr_assert(eq(int, fixture_wait(pid), 0));
	cr_expect(eq(u64, ts_process_id(pid, false), 0));
}

static int ready_pipe[2], end_pipe[2];

static void *outlive_main(void *main_thread)
{
	char end;

	pthread_join(*(pthread_t *)main_thread, NULL);
	(void)!write(ready_pipe[1], "", 1);
	(void)!read(end_pipe[0], &end, 1);
	_exit(0);
}

Test(identity, a_process_lives_on_when_its_main_thread_has_ended)
{
	char ready;

	cr_assert(eq(int, pipe(ready_pipe), 0));
	cr_assert(eq(int, pipe(end_pipe), 0));
	pid_t pid = fork();
	if (pid == 0) {
		static pthread_t self;
		pthread_t thread;
		self = pthread_self();
		pthread_create(&thread, NULL, outlive_main, &self);
		/* The first thread of a process, and not the C library's exit. */
		syscall(SYS_exit, 0);
	}
	uint64_t id = ts_process_id(pid, false);
	cr_assert(eq(int, (int)read(ready_pipe[0], &ready, 1), 1));
	cr_expect(ne(u64, id, 0));
	cr_expect(eq(u64, ts_process_id(pid, true), id));
	(void)!write(end_pipe[1], "", 1);
	cr_assert(eq(int, fixture_wait(pid), 0));
}

static int name_with_brackets(void)
{
	FILE *comm = fopen("/proc/self/comm", "w");

	if (!comm || fputs(") Z 1 (", comm) < 0 || fclose(comm) != 0)
		return 1;
	return ts_process_id(getpid(), true) == ts_identity_self() ? 0 : 2;
}

Test(identity, a_name_with_brackets_confuses_nobody)
{
	ts_identity_self();
	cr_expect(eq(int, name_with_brackets(), 0));
}

/* ---- forks ------------------------------------------------------------------------------ */

static uint64_t parents_self, parents_job;
static uint32_t parents_serial;

/* What every kind of fork must show, before and after it is settled. */
static int settle_in_child(void)
{
	if (ts_identity_check() != TS_FORK_CHILD || !ts_identity_forked())
		return 1;
	uint32_t serial = ts_identity_serial();
	ts_identity_settle();
	if (ts_identity_check() != TS_SAME_PROCESS || ts_identity_forked())
		return 2;
	if (serial == parents_serial || ts_identity_serial() != serial)
		return 5;
	if (ts_identity_self() == parents_self ||
		ts_identity_self() != ts_process_id(getpid(), false))
		return 3;
	return ts_identity_job() == parents_job ? 0 : 4;
}

static void remember_parent(void)
{
	parents_self = ts_identity_self();
	parents_job = ts_identity_job();
	parents_serial = ts_identity_serial();
	cr_assert(eq(u64, parents_self, parents_job));
	cr_assert(eq(int, ts_identity_check(), TS_SAME_PROCESS));
}

Test(identity, a_fork_child_is_noticed)
{
	remember_parent();
	cr_expect(eq(int, fixture_fork(settle_in_child), 0));
	cr_expect(eq(int, ts_identity_check(), TS_SAME_PROCESS));
	cr_expect(eq(u64, ts_identity_self(), parents_self));
}

static int fork_again(void)
{
	ts_identity_settle();
	parents_self = ts_identity_self();
	parents_serial = ts_identity_serial();
	return fixture_fork(settle_in_child);
}

Test(identity, a_fork_child_of_a_fork_child_works_for_the_same_job)
{
	remember_parent();
	cr_expect(eq(int, fixture_fork(fork_again), 0));
}

/* Like _Fork(3), which glibc 2.34 brought: no handler runs. */
Test(identity, a_fork_without_handlers_is_noticed)
{
	remember_parent();
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0)
		_exit(settle_in_child());
	cr_expect(eq(int, fixture_wait(pid), 0));
}

static int answer;

static int ask(void *unused)
{
	answer = (int)ts_identity_check();
	return 0;
}

Test(identity, a_vfork_child_is_noticed)
{
	NOT_UNDER_VALGRIND("vfork is a fork");
	NOT_EMULATED("vfork is a fork");
	static char stack[65536] __attribute__((aligned(16)));

	answer = -1;
	pid_t pid = clone(ask, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
	cr_assert(eq(int, fixture_wait(pid), 0));
	cr_expect(eq(int, answer, TS_VFORK_CHILD));
	cr_expect(eq(int, ts_identity_check(), TS_SAME_PROCESS));
}

static void *ask_in_thread(void *unused)
{
	(void)ask(unused);
	return NULL;
}

Test(identity, a_thread_is_the_same_process)
{
	pthread_t thread;

	answer = -1;
	cr_assert(eq(int, pthread_create(&thread, NULL, ask_in_thread, NULL), 0));
	pthread_join(thread, NULL);
	cr_expect(eq(int, answer, TS_SAME_PROCESS));
}

/* In a suite of its own: nobody has called ts_identity_init(). */
Test(identity_without_init, is_one_process)
{
	cr_expect(eq(int, ts_identity_check(), TS_SAME_PROCESS));
	cr_expect(not(ts_identity_forked()));
	cr_expect(eq(u64, ts_identity_job(), ts_identity_self()));
}

/* ---- jobs ------------------------------------------------------------------------------- */

/* Run unit_shim_program with @argv; read up to @count numbers that it prints. */
static int read_numbers(const char *const *argv, uint64_t *numbers, int count)
{
	const char *program = fixture_program("unit_shim_program");
	unsigned long long number;
	int pipe_ends[2], got = 0;

	cr_assert(eq(int, pipe(pipe_ends), 0));
	pid_t pid = fork();
	if (pid == 0) {
		dup2(pipe_ends[1], 1);
		close(pipe_ends[0]);
		execv(program, (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	close(pipe_ends[1]);
	FILE *output = fdopen(pipe_ends[0], "r");
	while (got < count && fscanf(output, "%llu", &number) == 1)
		numbers[got++] = number;
	fclose(output);
	cr_assert(eq(int, fixture_wait(pid), 0));
	return got;
}

#define WORKER "--multiprocessing-fork"

/* Whose job a child is of: that of number @job, of so many that are printed. */
static const struct {
	const char *words[3];
	int count, job;
} children[] = {
	/* The command lines that CPython 3.8 to 3.13 use for workers. */
	{{"parent", "-c", WORKER}, 3, 0},
	{{"parent", "-c",
		 "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, "
		 "pipe_handle=7)"},
		3, 0},
	{{"parent", "-c",
		 "from multiprocessing.forkserver import main; main(4, 5, ['__main__'])"},
		3, 0},
	{{"parent", "-c", "from multiprocessing.resource_tracker import main;main(4)"}, 3, 0},
	{{"parent", "child"}, 3, 1}, /* another child is a job of its own */
	/* An orphan: this program stands for the reaper, and runs something else than it. */
	{{"-c", WORKER}, 2, 0},
};

Test(identity, a_worker_works_for_its_parent_and_nobody_else_does)
{
	NOT_UNDER_VALGRIND("/proc shows valgrind's program");
	NOT_EMULATED("it runs no programs but the first");
	for (size_t i = 0; i < TS_ARRAY_SIZE(children); i++) {
		const char *const *words = children[i].words;
		const char *argv[] = {"program", words[0], words[1], words[2], NULL};
		uint64_t n[3];
		cr_assert(eq(int, read_numbers(argv, n, children[i].count), children[i].count));
		cr_expect(
			eq(u64, n[children[i].count - 1], n[children[i].job]), "child %zu", i);
		if (children[i].count == 3)
			cr_expect(ne(u64, n[1], n[0]), "child %zu", i);
	}
}

#define MAY_NOT_MOUNT 77

/* Process 1 of a PID namespace, like a trainer that a container starts without an init. */
struct start {
	const char *program;
	int ends[2];
};

static int start_as_process_1(void *context)
{
	const char *argv[] = {"program", "parent", "-c", WORKER, NULL};

	/* A /proc of the new namespace, seen by nobody else. */
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("proc", "/proc", "proc", 0, NULL) < 0)
		_exit(MAY_NOT_MOUNT);
	dup2(((struct start *)context)->ends[1], 1);
	execv(((struct start *)context)->program, (char *const *)(uintptr_t)argv);
	_exit(127);
}

Test(identity, a_trainer_that_is_process_1_is_a_job)
{
	NOT_UNDER_VALGRIND("/proc shows valgrind's program");
	static char stack[65536] __attribute__((aligned(16)));
	static const int spaces = CLONE_NEWPID | CLONE_NEWNS;
	struct start start = {.program = fixture_program("unit_shim_program")};
	unsigned long long n[3];

	cr_assert(eq(int, pipe(start.ends), 0));
	pid_t pid = clone(start_as_process_1, stack + sizeof(stack), spaces | SIGCHLD, &start);
	if (pid < 0)
		pid = clone(start_as_process_1, stack + sizeof(stack),
			spaces | CLONE_NEWUSER | SIGCHLD, &start);
	if (pid < 0)
		cr_skip_test("this machine allows no PID namespace");
	close(start.ends[1]);
	FILE *output = fdopen(start.ends[0], "r");
	int got = fscanf(output, "%llu %llu %llu", &n[0], &n[1], &n[2]);
	fclose(output);
	int status = fixture_wait(pid);
	if (status == MAY_NOT_MOUNT)
		cr_skip_test("this machine allows no /proc of a PID namespace");
	cr_assert(eq(int, status, 0));
	cr_assert(eq(int, got, 3));
	cr_expect(eq(int, TS_PROCESS_PID(n[0]), 1));
	cr_expect(eq(u64, n[2], n[0]));
}
