/* SPDX-License-Identifier: MIT */
/* Who removes a ring when several leave, and the lock is somebody else's just then. */
#include "fixture.h"
#include "tests/unit/valgrind.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(leave, .init = fixture_init, .fini = fixture_finish);

static bool exists(const char *suffix)
{
	struct stat st;

	return stat(fixture_path(suffix), &st) == 0;
}

/* A member that leaves on order, and stops at @point on the way. */
struct leaver {
	pid_t pid;
	int order;
};

static struct leaver start(const char *point)
{
	int order[2], ready[2];
	char byte;

	cr_assert(eq(int, pipe(order), 0));
	cr_assert(eq(int, pipe(ready), 0));
	pid_t pid = fork();
	if (pid == 0) {
		setenv("TSSHIM_TEST_STOP", point, 1);
		close(order[1]);
		struct ts_store *store = fixture_attach(JOB_B);
		bool told = write(ready[1], "x", 1) == 1 && read(order[0], &byte, 1) == 0;
		ts_store_detach(store);
		_exit(told ? 0 : 1);
	}
	close(order[0]);
	close(ready[1]);
	cr_assert(eq(int, (int)read(ready[0], &byte, 1), 1));
	close(ready[0]);
	return (struct leaver){.pid = pid, .order = order[1]};
}

/* Give the order, and come back when it has stopped. */
static void stop(struct leaver *leaver)
{
	int status = 0;

	close(leaver->order);
	cr_assert(eq(int, waitpid(leaver->pid, &status, WUNTRACED), leaver->pid));
	cr_assert(ne(int, WIFSTOPPED(status), 0));
}

static void go_on(struct leaver *leaver)
{
	int status = -1;

	kill(leaver->pid, SIGCONT);
	cr_assert(eq(int, waitpid(leaver->pid, &status, 0), leaver->pid));
	cr_expect(eq(int, status, 0));
}

/* It has seen that we are there, and holds the lock until after we have given up. */
Test(leave, who_holds_the_lock_removes_what_the_last_one_had_to_leave, .timeout = 60)
{
	struct ts_store *store = fixture_attach(JOB_A);
	struct leaver other = start("detach_looked");

	stop(&other);
	ts_store_detach(store);
	cr_expect(exists("ring"), "nobody else can remove it now");
	go_on(&other);
	cr_expect(not(exists("ring")));
	cr_expect(exists("ledger"));
}

/* As above, but a third one came: the ring is its. */
Test(leave, who_holds_the_lock_leaves_what_is_used, .timeout = 60)
{
	NOT_EMULATED("a child is told its parent's start time, so who lives is not known");
	struct ts_store *store = fixture_attach(JOB_A), *third = fixture_attach(JOB_A);
	struct leaver other = start("detach_looked");

	stop(&other);
	ts_store_detach(store);
	go_on(&other);
	cr_expect(exists("ring"));
	ts_store_detach(third);
	cr_expect(not(exists("ring")));
}

Test(leave, a_kept_ring_stays_whoever_looks, .timeout = 60)
{
	struct ts_store *store = fixture_attach(JOB_A);
	struct leaver other = start("detach_looked");

	ts_write_relaxed(&store->header->kept_until_ns, UINT64_MAX);
	stop(&other);
	ts_store_detach(store);
	go_on(&other);
	cr_expect(exists("ring"));
}

/* The holder is gone: what it would have removed is the next one's to replace. */
Test(leave, a_holder_that_is_killed_leaves_it_to_the_next, .timeout = 60)
{
	struct ts_store *store = fixture_attach(JOB_A);
	struct leaver other = start("detach_looked");
	int status;

	stop(&other);
	ts_store_detach(store);
	kill(other.pid, SIGKILL);
	cr_assert(eq(int, waitpid(other.pid, &status, 0), other.pid));
	cr_expect(exists("ring"));
	ts_store_detach(fixture_attach(JOB_A));
	cr_expect(not(exists("ring")));
}
