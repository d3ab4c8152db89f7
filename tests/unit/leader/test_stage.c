/* SPDX-License-Identifier: MIT */
/* Copies of files: which are made, which are given out, what the index says of them. */
#include "fixture.h"
#include "leader/stage_index_private.h"
#include "leader/stage.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CAPACITY (UINT64_C(4) << 20)
#define BYTES    10000u

static char folder[] = "/var/tmp/tsshim-unit-XXXXXX";
static char path[128];
static struct ts_store *store;
static struct ts_stage *stage;
static struct stat was;

static void write_file(char fill, size_t bytes)
{
	char *text = malloc(bytes);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	memset(text, fill, bytes);
	cr_assert(eq(int, (int)write(fd, text, bytes), (int)bytes));
	close(fd);
	free(text);
}

static void stage_init(void)
{
	fixture_init();
	cr_assert(mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/file", folder);
	write_file('a', BYTES);
	store = fixture_attach(JOB_A);
	cr_assert(eq(int, ts_stage_attach(store, fixture_group(), NULL, CAPACITY, &stage), 0));
}

static void stage_finish(void)
{
	ts_stage_destroy(stage);
	ts_store_detach(store);
	unlink(path);
	rmdir(folder);
	fixture_finish();
}

TestSuite(stage, .init = stage_init, .fini = stage_finish, .timeout = 20);

/* Open the copy of the file as it is now; the error, or its descriptor. */
static int open_copy(uint64_t wait_ns, bool *ret_fetched)
{
	struct ts_stage_copy copy = {.fd = -1};
	int fd = open(path, O_RDONLY);

	cr_assert(eq(int, fstat(fd, &was), 0));
	struct ts_stage_source source = {.fd = fd, .stat = &was, .path = path};
	int r = ts_stage_open(stage, &source, O_RDONLY, wait_ns, &copy);
	close(fd);
	if (r == 0 && ret_fetched)
		*ret_fetched = copy.fetched;
	return r < 0 ? r : copy.fd;
}

static bool holds(int fd, char fill, size_t bytes)
{
	char *text = malloc(bytes + 1);
	bool right = pread(fd, text, bytes + 1, 0) == (ssize_t)bytes;

	for (size_t i = 0; right && i < bytes; i++)
		right = text[i] == fill;
	free(text);
	return right;
}

static uint64_t used(void)
{
	return ts_stage_index_used(&stage->index) - TS_STAGE_CHUNK;
}

/* Name of the first copy, or of its .part; NULL when there is none. */
static const char *name_of_copy(void)
{
	static char name[TS_STAGE_STEM + 48];
	char pattern[TS_STAGE_STEM + 8];
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%s*", stage->index.stem);
	if (glob(pattern, 0, NULL, &found) != 0)
		return NULL;
	snprintf(name, sizeof(name), "%s", found.gl_pathv[0]);
	globfree(&found);
	return name;
}

Test(stage, a_copy_is_made_once_and_found_again)
{
	struct ts_stage_attributes original;
	char name[PATH_MAX];
	struct stat copy;
	bool fetched = false;
	int one = open_copy(0, &fetched);

	cr_assert(ge(int, one, 0), "%s", strerror(-one));
	cr_expect(fetched && holds(one, 'a', BYTES));
	int two = open_copy(0, &fetched);
	cr_expect(holds(two, 'a', BYTES) && !fetched);
	cr_expect(eq(u64, used(), BYTES));
	cr_assert(eq(int, fstat(one, &copy), 0));
	cr_expect(eq(int, (int)copy.st_mode, S_IFREG | 0400));
	cr_expect(eq(int, fcntl(one, F_GETFL) & O_ACCMODE, O_RDONLY));
	cr_expect(eq(int, fcntl(one, F_GETFD), FD_CLOEXEC));
	cr_assert(ts_stage_index_find(&stage->index, &copy, &original, name));
	cr_expect(eq(str, name, path));
	cr_expect(eq(u64, original.inode, (uint64_t)was.st_ino));
	cr_expect(eq(u64, original.mode, (uint64_t)was.st_mode));
	close(one);
	close(two);
}

Test(stage, a_changed_file_is_a_new_file)
{
	int old = open_copy(0, NULL);

	write_file('b', BYTES);
	int new = open_copy(0, NULL);
	cr_expect(holds(old, 'a', BYTES) && holds(new, 'b', BYTES));
	cr_expect(eq(u64, used(), 2 * BYTES));
	close(old);
	close(new);
}

Test(stage, what_changes_after_its_open_is_not_copied)
{
	struct ts_stage_copy copy;
	int fd = open(path, O_RDONLY);

	cr_assert(eq(int, fstat(fd, &was), 0));
	write_file('b', BYTES + 1);
	struct ts_stage_source source = {.fd = fd, .stat = &was, .path = path};
	cr_expect(eq(int, ts_stage_open(stage, &source, O_RDONLY, 0, &copy), -ESTALE));
	cr_expect(name_of_copy() == NULL, "nothing stays");
	cr_expect(eq(u64, used(), 0));
	close(fd);
}

/* Open with attributes that the kernel may still tell, of what the file was before. */
static int open_stale(const struct stat *before)
{
	struct ts_stage_copy copy = {.fd = -1};
	int fd = open(path, O_RDONLY);
	struct ts_stage_source source = {.fd = fd, .stat = before, .path = path};
	int r = ts_stage_open(stage, &source, O_RDONLY, 0, &copy);

	close(fd);
	return r < 0 ? r : copy.fd;
}

Test(stage, whoever_is_given_a_copy_first_asks_whether_it_is_still_true)
{
	int made = open_copy(0, NULL);
	struct stat before = was;

	write_file('b', BYTES);
	cr_expect(eq(int, open_stale(&before), -ESTALE));
	close(made);
}

Test(stage, that_is_asked_once_for_all)
{
	int made = open_copy(0, NULL), asked = open_copy(0, NULL);
	struct stat before = was, copy;

	cr_assert(eq(int, fstat(asked, &copy), 0));
	cr_expect(ts_stage_index_is_confirmed(&stage->index, copy.st_ino));
	write_file('b', BYTES);
	int given = open_stale(&before); /* as a kernel that asked a moment ago would have it */
	cr_expect(holds(given, 'a', BYTES));
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
		_exit(-open_copy(0, NULL));
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

	write_file('b', BYTES);
	cr_expect(eq(int, go_on(pid), ESTALE));
	cr_expect(name_of_copy() == NULL, "nothing stays");
	cr_expect(eq(u64, used(), 0));
}

/* Between open and lock somebody else failed, removed the .part, and a third one began anew. */
Test(stage, the_lock_of_a_removed_part_is_worth_nothing)
{
	char part[TS_STAGE_STEM + 48];
	pid_t pid = stop_copying("stage_made");

	snprintf(part, sizeof(part), "%s", name_of_copy());
	cr_assert(ne(ptr, strstr(part, ".part"), NULL));
	unlink(part);
	int held = open(part, O_RDWR | O_CREAT, 0600);
	cr_assert(eq(int, flock(held, LOCK_EX), 0));
	cr_expect(eq(int, go_on(pid), EBUSY));
	cr_expect(eq(str, (char *)name_of_copy(), part));
	close(held);
}

Test(stage, a_file_without_its_name_is_not_copied)
{
	struct ts_stage_copy copy;
	int fd = open(path, O_RDONLY);

	unlink(path);
	write_file('b', BYTES);
	cr_assert(eq(int, fstat(fd, &was), 0));
	struct ts_stage_source source = {.fd = fd, .stat = &was, .path = path};
	cr_expect(eq(int, ts_stage_open(stage, &source, O_RDONLY, 0, &copy), -ESTALE));
	cr_expect(eq(u64, used(), 0));
	close(fd);
}

Test(stage, large_files_are_left_to_others)
{
	truncate(path, (off_t)TS_STAGE_AT_ONCE + 1);
	cr_expect(eq(int, open_copy(0, NULL), -EFBIG));
	cr_expect(name_of_copy() == NULL);
}

Test(stage, room_is_limited_and_nothing_is_thrown_out)
{
	int first = open_copy(0, NULL);

	write_file('b', CAPACITY - TS_STAGE_CHUNK);
	cr_expect(eq(int, open_copy(0, NULL), -ENOSPC));
	cr_expect(eq(u64, used(), BYTES));
	write_file('c', 1000);
	int third = open_copy(0, NULL);
	cr_expect(holds(first, 'a', BYTES) && holds(third, 'c', 1000));
	close(first);
	close(third);
}

static int open_under_limit(void *unused)
{
	struct rlimit limit = {.rlim_cur = BYTES - 1, .rlim_max = BYTES - 1};

	setrlimit(RLIMIT_FSIZE, &limit);
	return -open_copy(0, NULL);
}

Test(stage, a_limit_of_file_sizes_kills_nobody)
{
	int status = fixture_fork(open_under_limit, NULL);

	cr_assert(eq(int, WIFSIGNALED(status), 0), "status %x", (unsigned)status);
	cr_expect(eq(int, WEXITSTATUS(status), ENOSPC));
	cr_expect(name_of_copy() == NULL);
}

/* Somebody else makes the copy: the lock of its .part is taken. */
static int hold_part(void)
{
	char part[TS_STAGE_STEM + 48];
	int fd = open_copy(0, NULL);

	close(fd);
	snprintf(part, sizeof(part), "%s.part", name_of_copy());
	unlink(name_of_copy());
	int held = open(part, O_RDWR | O_CREAT, 0600);
	cr_assert(eq(int, flock(held, LOCK_EX), 0));
	return held;
}

Test(stage, who_finds_it_taken_waits_until_the_deadline)
{
	int held = hold_part();
	uint64_t start = ts_now_ns();

	cr_expect(eq(int, open_copy(50000000, NULL), -EBUSY));
	uint64_t waited = ts_now_ns() - start;
	cr_expect(ge(u64, waited, 50000000));
	cr_expect(lt(u64, waited, 2000000000));
	start = ts_now_ns();
	cr_expect(eq(int, open_copy(0, NULL), -EBUSY));
	cr_expect(lt(u64, ts_now_ns() - start, 50000000), "no wait without time for it");
	close(held);
}

static void *let_go(void *held)
{
	usleep(30000);
	close((int)(intptr_t)held);
	return NULL;
}

Test(stage, who_waits_goes_on_as_soon_as_it_is_free)
{
	pthread_t thread;
	bool fetched = false;
	int held = hold_part();

	pthread_create(&thread, NULL, let_go, (void *)(intptr_t)held);
	int fd = open_copy(2000000000, &fetched);
	cr_expect(fetched && holds(fd, 'a', BYTES));
	pthread_join(thread, NULL);
	close(fd);
}

static int die_copying(void *point)
{
	setenv("TSSHIM_TEST_KILL", point, 1);
	open_copy(0, NULL);
	return 1;
}

Test(stage, the_dead_leave_their_part_to_the_next)
{
	const char *steps[] = {"stage_allocated", "stage_finished", "stage_noted"};

	for (size_t i = 0; i < TS_ARRAY_SIZE(steps); i++) {
		write_file((char)('k' + i), BYTES);
		int status = fixture_fork(die_copying, (void *)steps[i]);
		cr_assert(eq(int, WTERMSIG(status), SIGKILL));
		int fd = open_copy(0, NULL);
		cr_expect(holds(fd, (char)('k' + i), BYTES), "after %s", steps[i]);
		cr_expect(eq(u64, used(), BYTES * (i + 1)), "counted once, after %s", steps[i]);
		close(fd);
	}
}

Test(stage, a_file_that_is_no_copy_is_not_given_out)
{
	int fd = open_copy(0, NULL);
	const char *name = name_of_copy();

	close(fd);
	/* Another file of ours under that name, with everything but what the index knows. */
	unlink(name);
	fd = open(name, O_WRONLY | O_CREAT, 0400);
	cr_assert(eq(int, (int)write(fd, path, 10), 10));
	cr_assert(eq(int, ftruncate(fd, BYTES), 0));
	struct timespec times[2] = {was.st_atim, was.st_mtim};
	futimens(fd, times);
	close(fd);
	cr_expect(eq(int, open_copy(0, NULL), -EPERM));
	unlink(name);
	cr_assert(eq(int, symlink(path, name), 0));
	cr_expect(eq(int, open_copy(0, NULL), -EPERM));
	unlink(name);
	cr_assert(eq(int, mkfifo(name, 0400), 0));
	cr_expect(eq(int, open_copy(0, NULL), -EPERM), "and nobody waits for a pipe");
	unlink(name);
}

Test(stage, inodes_that_come_back_are_nobodys)
{
	struct ts_stage_attributes original;
	struct stat copy;
	int fd = open_copy(0, NULL);

	cr_assert(eq(int, fstat(fd, &copy), 0));
	cr_expect(ts_stage_index_find(&stage->index, &copy, &original, NULL));
	copy.st_mtim.tv_nsec ^= 1;
	cr_expect(not(ts_stage_index_find(&stage->index, &copy, &original, NULL)));
	copy.st_mtim.tv_nsec ^= 1;
	copy.st_mtim.tv_sec ^= 1;
	cr_expect(not(ts_stage_index_find(&stage->index, &copy, &original, NULL)));
	copy.st_mtim.tv_sec ^= 1;
	copy.st_size++;
	cr_expect(not(ts_stage_index_find(&stage->index, &copy, &original, NULL)));
	copy.st_size--;
	copy.st_dev ^= 1;
	cr_expect(not(ts_stage_index_find(&stage->index, &copy, &original, NULL)));
	copy.st_dev ^= 1;
	copy.st_mode = S_IFREG | 0600;
	cr_expect(not(ts_stage_index_find(&stage->index, &copy, &original, NULL)));
	close(fd);
}

/* Whatever stands in the index, looking something up stays within it. */
Test(stage, a_damaged_index_finds_nothing)
{
	struct ts_stage_attributes original;
	char name[PATH_MAX];
	struct stat copy;
	int fd = open_copy(0, NULL);
	uint64_t *words = (uint64_t *)((char *)stage->index.head + TS_PAGE_BYTES);
	const uint64_t wrong[] = {0, 1, 8, UINT64_MAX, UINT64_MAX - 7, UINT64_C(1) << 40,
		stage->index.total_bytes - 8, stage->index.total_bytes, TS_PAGE_BYTES};

	cr_assert(eq(int, fstat(fd, &copy), 0));
	uint64_t slots = stage->index.slot_count, at = 0;
	while (at < slots && words[2 * at] != copy.st_ino)
		at++;
	cr_assert(lt(u64, at, slots));
	uint64_t right = words[2 * at + 1];
	for (size_t i = 0; i < TS_ARRAY_SIZE(wrong); i++) {
		words[2 * at + 1] = wrong[i];
		cr_expect(not(ts_stage_index_find(&stage->index, &copy, &original, name)));
	}
	words[2 * at + 1] = right;
	struct ts_stage_row *row = (struct ts_stage_row *)((char *)stage->index.head + right);
	row->path_bytes = PATH_MAX;
	cr_expect(not(ts_stage_index_find(&stage->index, &copy, &original, name)));
	row->path_bytes = UINT64_MAX;
	cr_expect(not(ts_stage_index_find(&stage->index, &copy, &original, name)));
	close(fd);
}

Test(stage, another_index_is_refused)
{
	struct ts_stage *other = NULL;
	uint64_t magic = 7;

	int fd = open(fixture_path("stage"), O_RDWR);
	cr_assert(eq(int, (int)pwrite(fd, &magic, 8, 0), 8));
	close(fd);
	cr_expect(eq(int, ts_stage_attach(store, fixture_group(), NULL, CAPACITY, &other),
		-EBADMSG));
	chmod(fixture_path("stage"), 0644);
	cr_expect(eq(int, ts_stage_attach_existing(fixture_group(), &other), -EPERM));
	cr_expect(other == NULL);
}

Test(stage, copies_go_with_the_last_one_out)
{
	struct ts_store *other = fixture_attach(JOB_B);

	close(open_copy(0, NULL));
	ts_store_detach(other);
	cr_expect(name_of_copy() != NULL, "a member is left");
	ts_store_detach(store);
	cr_expect(name_of_copy() == NULL);
	cr_expect(ne(int, access(fixture_path("stage"), F_OK), 0));
	store = fixture_attach(JOB_A);
}

Test(stage, copies_go_with_a_damaged_index_as_well)
{
	struct ts_stage_usage usage = {.files = 0};
	uint64_t magic = 7;

	close(open_copy(0, NULL));
	int fd = open(fixture_path("stage"), O_RDWR);
	cr_assert(eq(int, (int)pwrite(fd, &magic, 8, 0), 8));
	close(fd);
	cr_expect(eq(int, ts_stage_remove(fixture_path("stage"), true, &usage), 0));
	cr_expect(eq(u64, usage.files, 1));
	cr_expect(name_of_copy() != NULL, "only looked");
	cr_expect(eq(int, ts_stage_remove(fixture_path("stage"), false, NULL), 0));
	cr_expect(name_of_copy() == NULL);
	cr_expect(eq(int, ts_stage_remove(fixture_path("stage"), false, NULL), -ENOENT));
}

Test(stage, a_second_index_removes_what_the_first_has_left)
{
	close(open_copy(0, NULL));
	ts_stage_destroy(stage);
	unlink(fixture_path("stage"));
	cr_assert(eq(int, ts_stage_attach(store, fixture_group(), NULL, CAPACITY, &stage), 0));
	cr_expect(name_of_copy() == NULL);
	bool fetched = false;
	close(open_copy(0, &fetched));
	cr_expect(fetched);
}
