/* SPDX-License-Identifier: MIT */
/* Copies of files: which are made, by whom, and which are given out. */
#include "../clock.h"
#include "fixture_stage.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(stage, .init = fixture_stage_init, .fini = fixture_stage_finish, .timeout = 60);

Test(stage, a_copy_is_made_once_and_found_again)
{
	struct ts_stage_attributes original;
	char name[PATH_MAX];
	struct stat copy;
	bool fetched = false;
	int one = fixture_open_copy(0, &fetched);

	cr_assert(ge(int, one, 0), "%s", strerror(-one));
	cr_expect(fetched && fixture_holds(one, 'a', BYTES));
	int two = fixture_open_copy(0, &fetched);
	cr_expect(fixture_holds(two, 'a', BYTES) && !fetched);
	cr_expect(eq(u64, fixture_used(), BYTES));
	cr_assert(eq(int, fstat(one, &copy), 0));
	cr_expect(eq(int, (int)copy.st_mode, S_IFREG | 0400));
	cr_expect(eq(int, fcntl(one, F_GETFL) & O_ACCMODE, O_RDONLY));
	cr_expect(eq(int, fcntl(one, F_GETFD), FD_CLOEXEC));
	cr_assert(ts_stage_index_find(&fixture_files.stage->index, &copy, &original, name));
	cr_expect(eq(str, name, fixture_files.path));
	cr_expect(eq(u64, original.inode, (uint64_t)fixture_files.was.st_ino));
	cr_expect(eq(u64, original.mode, (uint64_t)fixture_files.was.st_mode));
	close(one);
	close(two);
}

Test(stage, a_changed_file_is_a_new_file)
{
	int old = fixture_open_copy(0, NULL);

	fixture_write_file('b', BYTES);
	int new = fixture_open_copy(0, NULL);
	cr_expect(fixture_holds(old, 'a', BYTES) && fixture_holds(new, 'b', BYTES));
	cr_expect(eq(u64, fixture_used(), 2 * BYTES));
	close(old);
	close(new);
}

Test(stage, what_changes_after_its_open_is_not_copied)
{
	struct ts_stage_copy copy;
	int fd = open(fixture_files.path, O_RDONLY);

	cr_assert(eq(int, fstat(fd, &fixture_files.was), 0));
	fixture_write_file('b', BYTES + 1);
	struct ts_stage_source source = {
		.fd = fd, .stat = &fixture_files.was, .path = fixture_files.path};
	cr_expect(eq(
		int, ts_stage_open(fixture_files.stage, &source, O_RDONLY, 0, &copy), -ESTALE));
	cr_expect(fixture_name_of_copy() == NULL, "nothing stays");
	cr_expect(eq(u64, fixture_used(), 0));
	close(fd);
}

/* Open with attributes that the kernel may still tell, of what the file was before. */
static int open_stale(const struct stat *before)
{
	struct ts_stage_copy copy = {.fd = -1};
	int fd = open(fixture_files.path, O_RDONLY);
	struct ts_stage_source source = {.fd = fd, .stat = before, .path = fixture_files.path};
	int r = ts_stage_open(fixture_files.stage, &source, O_RDONLY, 0, &copy);

	close(fd);
	return r < 0 ? r : copy.fd;
}

Test(stage, whoever_is_given_a_copy_first_asks_whether_it_is_still_true)
{
	int made = fixture_open_copy(0, NULL);
	struct stat before = fixture_files.was;

	fixture_write_file('b', BYTES);
	cr_expect(eq(int, open_stale(&before), -ESTALE));
	close(made);
}

Test(stage, that_is_asked_once_for_all)
{
	int made = fixture_open_copy(0, NULL), asked = fixture_open_copy(0, NULL);
	struct stat before = fixture_files.was, copy;

	cr_assert(eq(int, fstat(asked, &copy), 0));
	cr_expect(ts_stage_index_is_confirmed(&fixture_files.stage->index, copy.st_ino));
	fixture_write_file('b', BYTES);
	int given = open_stale(&before); /* as a kernel that asked a moment ago would have it */
	cr_expect(fixture_holds(given, 'a', BYTES));
	close(made);
	close(asked);
	close(given);
}

/* A child that opens a copy and stops on the way, at @point. */
static pid_t stop_copying(const char *point)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		setenv("TSSHIM_TEST_STOP", point, 1);
		_exit(-fixture_open_copy(0, NULL));
	}
	cr_assert(eq(int, waitpid(pid, &status, WUNTRACED), pid));
	cr_assert(ne(int, WIFSTOPPED(status), 0));
	return pid;
}

/* Let it go on; its error. */
static int go_on(pid_t pid)
{
	int status = 0;

	kill(pid, SIGCONT);
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}

Test(stage, what_changes_while_it_is_copied_is_not_kept)
{
	pid_t pid = stop_copying("stage_filled");

	fixture_write_file('b', BYTES);
	cr_expect(eq(int, go_on(pid), ESTALE));
	cr_expect(fixture_name_of_copy() == NULL, "nothing stays");
	cr_expect(eq(u64, fixture_used(), 0));
}

/* Between open and lock somebody else failed, removed the .part, and a third one began anew. */
Test(stage, the_lock_of_a_removed_part_is_worth_nothing)
{
	char part[TS_STAGE_STEM + 48];
	pid_t pid = stop_copying("stage_made");

	snprintf(part, sizeof(part), "%s", fixture_name_of_copy());
	cr_assert(ne(ptr, strstr(part, ".part"), NULL));
	unlink(part);
	int held = open(part, O_RDWR | O_CREAT, 0600);
	cr_assert(eq(int, flock(held, LOCK_EX), 0));
	cr_expect(eq(int, go_on(pid), EBUSY));
	cr_expect(eq(str, (char *)fixture_name_of_copy(), part));
	close(held);
}

Test(stage, a_file_without_its_name_is_not_copied)
{
	struct ts_stage_copy copy;
	int fd = open(fixture_files.path, O_RDONLY);

	unlink(fixture_files.path);
	fixture_write_file('b', BYTES);
	cr_assert(eq(int, fstat(fd, &fixture_files.was), 0));
	struct ts_stage_source source = {
		.fd = fd, .stat = &fixture_files.was, .path = fixture_files.path};
	cr_expect(eq(
		int, ts_stage_open(fixture_files.stage, &source, O_RDONLY, 0, &copy), -ESTALE));
	cr_expect(eq(u64, fixture_used(), 0));
	close(fd);
}

Test(stage, large_files_are_left_to_others)
{
	truncate(fixture_files.path, (off_t)TS_STAGE_AT_ONCE + 1);
	cr_expect(eq(int, fixture_open_copy(0, NULL), -EFBIG));
	cr_expect(fixture_name_of_copy() == NULL);
}

Test(stage, room_is_limited_and_nothing_is_thrown_out)
{
	int first = fixture_open_copy(0, NULL);

	fixture_write_file('b', CAPACITY - TS_STAGE_CHUNK);
	cr_expect(eq(int, fixture_open_copy(0, NULL), -ENOSPC));
	cr_expect(eq(u64, fixture_used(), BYTES));
	fixture_write_file('c', 1000);
	int third = fixture_open_copy(0, NULL);
	cr_expect(fixture_holds(first, 'a', BYTES) && fixture_holds(third, 'c', 1000));
	close(first);
	close(third);
}

static int open_under_limit(void *unused)
{
	struct rlimit limit = {.rlim_cur = BYTES - 1, .rlim_max = BYTES - 1};

	setrlimit(RLIMIT_FSIZE, &limit);
	return -fixture_open_copy(0, NULL);
}

Test(stage, a_limit_of_file_sizes_kills_nobody)
{
	int status = fixture_fork(open_under_limit, NULL);

	cr_assert(eq(int, WIFSIGNALED(status), 0), "status %x", (unsigned)status);
	cr_expect(eq(int, WEXITSTATUS(status), ENOSPC));
	cr_expect(fixture_name_of_copy() == NULL);
}

/* Somebody else makes the copy: the lock of its .part is taken. */
static int hold_part(void)
{
	char part[TS_STAGE_STEM + 48];
	int fd = fixture_open_copy(0, NULL);

	close(fd);
	snprintf(part, sizeof(part), "%s.part", fixture_name_of_copy());
	unlink(fixture_name_of_copy());
	int held = open(part, O_RDWR | O_CREAT, 0600);
	cr_assert(eq(int, flock(held, LOCK_EX), 0));
	return held;
}

Test(stage, who_finds_it_taken_waits_until_the_deadline)
{
	int held = hold_part();

	clock_begin();
	cr_expect(eq(int, fixture_open_copy(50000000, NULL), -EBUSY));
	cr_expect(ge(u64, clock_passed(), 50000000));
	cr_expect(lt(u64, clock_passed(), 100000000), "the deadline and no more than a nap");
	unsigned sleeps = clock_sleeps();
	cr_expect(eq(int, fixture_open_copy(0, NULL), -EBUSY));
	cr_expect(eq(uint, clock_sleeps(), sleeps), "no wait without time for it");
	close(held);
}

static void let_go(void *held)
{
	close((int)(intptr_t)held);
}

Test(stage, who_waits_goes_on_as_soon_as_it_is_free)
{
	bool fetched = false;
	int held = hold_part();

	clock_begin();
	clock_at(30000000, let_go, (void *)(intptr_t)held);
	int fd = fixture_open_copy(2000000000, &fetched);
	cr_expect(fetched && fixture_holds(fd, 'a', BYTES));
	cr_expect(eq(u64, clock_passed(), 30000000));
	close(fd);
}

static int die_copying(void *point)
{
	setenv("TSSHIM_TEST_KILL", point, 1);
	fixture_open_copy(0, NULL);
	return 1;
}

Test(stage, the_dead_leave_their_part_to_the_next)
{
	const char *steps[] = {"stage_allocated", "stage_finished", "stage_noted"};

	for (size_t i = 0; i < TS_ARRAY_SIZE(steps); i++) {
		fixture_write_file((char)('k' + i), BYTES);
		int status = fixture_fork(die_copying, (void *)steps[i]);
		cr_assert(eq(int, WTERMSIG(status), SIGKILL));
		int fd = fixture_open_copy(0, NULL);
		cr_expect(fixture_holds(fd, (char)('k' + i), BYTES), "after %s", steps[i]);
		cr_expect(eq(u64, fixture_used(), BYTES * (i + 1)), "counted once, after %s",
			steps[i]);
		close(fd);
	}
}
