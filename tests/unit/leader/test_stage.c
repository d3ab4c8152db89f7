/* SPDX-License-Identifier: MIT */
/* Copies of files: which are made, by whom, and which are given out. */
#include "../clock.h"
#include "fixture_stage.h"
#include "shim/sys.h"
#include "leader/files/listing.h"
#include "leader/files/names.h"
#include "shim/hash.h"

#include <limits.h>
#include <sys/file.h>
#include <sys/resource.h>

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

/* The copy of the open file @fd, closed here, with attributes that it had before. */
static int open_copy_of(int fd, const struct stat *before)
{
	struct ts_stage_copy copy = {.fd = -1};
	struct ts_stage_source source = {.fd = fd, .stat = before, .path = fixture_files.path};
	int r = ts_stage_open(fixture_files.stage, &source, O_RDONLY, 0, &copy);

	close(fd);
	return r < 0 ? r : copy.fd;
}

/* As a kernel has them that asked a moment ago. */
static int open_stale(const struct stat *before)
{
	return open_copy_of(open(fixture_files.path, O_RDONLY), before);
}

Test(stage, what_changes_after_its_open_is_not_copied)
{
	int fd = open(fixture_files.path, O_RDONLY);

	cr_assert(eq(int, fstat(fd, &fixture_files.was), 0));
	fixture_write_file('b', BYTES + 1);
	cr_expect(eq(int, open_copy_of(fd, &fixture_files.was), -ESTALE));
	cr_expect(fixture_name_of_copy() == NULL, "nothing stays");
	cr_expect(eq(u64, fixture_used(), 0));
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
	int fd = open(fixture_files.path, O_RDONLY);

	unlink(fixture_files.path);
	fixture_write_file('b', BYTES);
	cr_assert(eq(int, fstat(fd, &fixture_files.was), 0));
	cr_expect(eq(int, open_copy_of(fd, &fixture_files.was), -ESTALE));
	cr_expect(eq(u64, fixture_used(), 0));
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

/* The index of copies of files: what it says of them, and how they end. */

Test(stage, a_file_that_is_no_copy_is_not_given_out)
{
	int fd = fixture_open_copy(0, NULL);
	const char *name = fixture_name_of_copy();

	close(fd);
	/* Another file of ours under that name, with everything but what the index knows. */
	unlink(name);
	fd = open(name, O_WRONLY | O_CREAT, 0400);
	cr_assert(eq(int, (int)write(fd, fixture_files.path, 10), 10));
	cr_assert(eq(int, ftruncate(fd, BYTES), 0));
	struct timespec times[2] = {fixture_files.was.st_atim, fixture_files.was.st_mtim};
	futimens(fd, times);
	close(fd);
	cr_expect(eq(int, fixture_open_copy(0, NULL), -EPERM));
	unlink(name);
	cr_assert(eq(int, symlink(fixture_files.path, name), 0));
	cr_expect(eq(int, fixture_open_copy(0, NULL), -EPERM));
	unlink(name);
	cr_assert(eq(int, mkfifo(name, 0400), 0));
	cr_expect(eq(int, fixture_open_copy(0, NULL), -EPERM), "and nobody waits for a pipe");
	unlink(name);
}

/* Whether the index has this one as a copy. */
static bool is_found(struct stat copy)
{
	struct ts_stage_attributes original;
	char name[PATH_MAX];

	return ts_stage_index_find(&fixture_files.stage->index, &copy, &original, name);
}

Test(stage, inodes_that_come_back_are_nobodys)
{
	struct stat copies[6];
	int fd = fixture_open_copy(0, NULL);

	for (size_t i = 0; i < TS_ARRAY_SIZE(copies); i++)
		cr_assert(eq(int, fstat(fd, &copies[i]), 0));
	copies[1].st_mtim.tv_nsec ^= 1;
	copies[2].st_mtim.tv_sec ^= 1;
	copies[3].st_size++;
	copies[4].st_dev ^= 1;
	copies[5].st_mode = S_IFREG | 0600;
	for (size_t i = 0; i < TS_ARRAY_SIZE(copies); i++)
		cr_expect(eq(int, is_found(copies[i]), i == 0), "%zu", i);
	close(fd);
}

/* Whatever stands in the index, looking something up stays within it. */
Test(stage, a_damaged_index_finds_nothing)
{
	struct stat copy;
	int fd = fixture_open_copy(0, NULL);
	uint64_t *words = (uint64_t *)((char *)fixture_files.stage->index.head + TS_PAGE_BYTES);
	const uint64_t wrong[] = {0, 1, 8, UINT64_MAX, UINT64_MAX - 7, UINT64_C(1) << 40,
		fixture_files.stage->index.total_bytes - 8,
		fixture_files.stage->index.total_bytes, TS_PAGE_BYTES};

	cr_assert(eq(int, fstat(fd, &copy), 0));
	uint64_t slots = fixture_files.stage->index.slot_count, at = 0;
	while (at < slots && words[2 * at] != copy.st_ino)
		at++;
	cr_assert(lt(u64, at, slots));
	uint64_t right = words[2 * at + 1];
	for (size_t i = 0; i < TS_ARRAY_SIZE(wrong); i++) {
		words[2 * at + 1] = wrong[i];
		cr_expect(not(is_found(copy)), "%zu", i);
	}
	words[2 * at + 1] = right;
	struct ts_stage_row *row =
		(struct ts_stage_row *)((char *)fixture_files.stage->index.head + right);
	row->path_bytes = PATH_MAX;
	cr_expect(not(is_found(copy)));
	row->path_bytes = UINT64_MAX;
	cr_expect(not(is_found(copy)));
	close(fd);
}

/* Slots in the first page of them that are not as they were in @before: their number, or -1
 * where something other than the inode of a free one changed. */
static int taken_slots(const struct ts_stage_slot *before, const struct ts_stage_slot *now)
{
	int taken = 0;

	for (size_t i = 0; i < TS_PAGE_BYTES / sizeof(*now); i++) {
		uint64_t inode = ts_load_relaxed(&before[i].inode);
		if (ts_load_relaxed(&now[i].row) != ts_load_relaxed(&before[i].row))
			return -1;
		if (ts_load_relaxed(&now[i].inode) == inode)
			continue;
		if (inode != 0)
			return -1;
		taken++;
	}
	return taken;
}

/* Nor does noting something: not over the slots, not behind the end. One slot may have been
 * taken for the copy before its row found no room. */
Test(stage, a_damaged_counter_leads_nowhere)
{
	struct ts_stage_index *index = &fixture_files.stage->index;
	const uint64_t wrong[] = {UINT64_MAX - 7, -index->rows_at,
		TS_PAGE_BYTES - index->rows_at, 4, index->total_bytes, UINT64_C(1) << 63};
	uint64_t magic = index->head->head.magic;
	const struct ts_stage_slot *slots =
		(const struct ts_stage_slot *)((char *)index->head + TS_PAGE_BYTES);
	struct ts_stage_slot before[TS_PAGE_BYTES / sizeof(*slots)];

	for (size_t i = 0; i < TS_ARRAY_SIZE(wrong); i++) {
		ts_write_relaxed(&index->head->rows_used, wrong[i]);
		memcpy(before, slots, sizeof(before));
		cr_expect(eq(int, fixture_open_copy(0, NULL), -ENOSPC), "%zu", i);
		int taken = taken_slots(before, slots);
		cr_expect(taken == 0 || taken == 1, "%zu: %d", i, taken);
		cr_expect(eq(u64, index->head->head.magic, magic), "%zu", i);
	}
}

Test(stage, another_index_is_refused)
{
	struct ts_stage *other = NULL;
	uint64_t magic = 7;

	int fd = open(fixture_path("stage"), O_RDWR);
	cr_assert(eq(int, (int)pwrite(fd, &magic, 8, 0), 8));
	close(fd);
	cr_expect(eq(int,
		ts_stage_attach(fixture_files.store, fixture_group(), NULL, CAPACITY, &other),
		-EBADMSG));
	chmod(fixture_path("stage"), 0644);
	cr_expect(eq(int, ts_stage_attach_existing(fixture_group(), &other), -EPERM));
	cr_expect(other == NULL);
}

Test(stage, copies_go_with_the_last_one_out)
{
	struct ts_store *other = fixture_attach(JOB_B);

	close(fixture_open_copy(0, NULL));
	fixture_detach(other);
	cr_expect(fixture_name_of_copy() != NULL, "a member is left");
	fixture_detach(fixture_files.store);
	cr_expect(fixture_name_of_copy() == NULL);
	cr_expect(ne(int, access(fixture_path("stage"), F_OK), 0));
	fixture_files.store = fixture_attach(JOB_A);
}

Test(stage, copies_go_with_a_damaged_index_as_well)
{
	struct ts_stage_usage usage = {.files = 0};
	uint64_t magic = 7;

	close(fixture_open_copy(0, NULL));
	int fd = open(fixture_path("stage"), O_RDWR);
	cr_assert(eq(int, (int)pwrite(fd, &magic, 8, 0), 8));
	close(fd);
	cr_expect(eq(int, ts_stage_remove(fixture_path("stage"), true, &usage), 0));
	cr_expect(eq(u64, usage.files, 1));
	cr_expect(fixture_name_of_copy() != NULL, "only looked");
	cr_expect(eq(int, ts_stage_remove(fixture_path("stage"), false, NULL), 0));
	cr_expect(fixture_name_of_copy() == NULL);
	cr_expect(eq(int, ts_stage_remove(fixture_path("stage"), false, NULL), -ENOENT));
}

Test(stage, a_second_index_removes_what_the_first_has_left)
{
	close(fixture_open_copy(0, NULL));
	ts_stage_destroy(fixture_files.stage);
	unlink(fixture_path("stage"));
	cr_assert(eq(int,
		ts_stage_attach(fixture_files.store, fixture_group(), NULL, CAPACITY,
			&fixture_files.stage),
		0));
	cr_expect(fixture_name_of_copy() == NULL);
	bool fetched = false;
	close(fixture_open_copy(0, &fetched));
	cr_expect(fetched);
}

/* Listings that jobs share: on what terms they are used, and what damaged ones say. */

#define FILES 40

/* As leader/files/listing.c has it. */
struct header {
	uint64_t magic, bytes, asked_ms, rights;
	uint64_t device, inode, size;
	int64_t modified_s, modified_ns, changed_s, changed_ns;
	struct ts_hash128 entries;
	uint64_t check;
};

static char place[160];
static struct stat was;
static struct ts_stage_directory directory;

static void name_of(int number, char path[256])
{
	snprintf(path, 256, "%s/%0*d", place, 1 + number, number);
}

static void init(void)
{
	char path[256];

	fixture_stage_init();
	snprintf(place, sizeof(place), "%s.d", fixture_files.path);
	cr_assert(eq(int, mkdir(place, 0700), 0));
	for (int i = 0; i < FILES; i++) {
		name_of(i, path);
		cr_assert(eq(int, close(open(path, O_CREAT | O_WRONLY, 0600)), 0));
	}
	int fd = open(place, O_RDONLY | O_DIRECTORY);
	cr_assert(eq(int, fstat(fd, &was), 0));
	directory = (struct ts_stage_directory){.fd = fd,
		.stat = &was,
		.path = place,
		.rights = 1,
		.seconds = 600,
		.may_make = true};
}

static void finish(void)
{
	char path[256];

	close(directory.fd);
	for (int i = 0; i < FILES; i++) {
		name_of(i, path);
		unlink(path);
	}
	rmdir(place);
	fixture_stage_finish();
}

TestSuite(stage_listing, .init = init, .fini = finish);

/* Open it on the terms of @directory and close it; the error, or its bytes. */
static int64_t use(bool may_make)
{
	struct ts_stage_listing listing;

	directory.may_make = may_make;
	cr_assert(eq(i64, lseek(directory.fd, 0, SEEK_SET), 0));
	int r = ts_stage_listing_open(fixture_files.stage, &directory, 0, &listing);
	if (r < 0)
		return r;
	cr_expect(listing.is_complete);
	int64_t bytes = (int64_t)listing.bytes;
	ts_stage_listing_finish(&listing);
	return bytes;
}

/* Give the listing's file other contents. */
static void put(const void *data, size_t bytes)
{
	const char *name = fixture_name_of_copy();

	cr_assert(eq(int, chmod(name, 0600), 0));
	int fd = open(name, O_WRONLY | O_TRUNC);
	cr_assert(eq(i64, write(fd, data, bytes), (int64_t)bytes));
	cr_assert(eq(int, fchmod(fd, 0400), 0));
	close(fd);
}

static size_t contents(char **ret_data)
{
	struct stat st;
	int fd = open(fixture_name_of_copy(), O_RDONLY);

	cr_assert(eq(int, fstat(fd, &st), 0));
	*ret_data = malloc((size_t)st.st_size);
	cr_assert(eq(i64, read(fd, *ret_data, (size_t)st.st_size), st.st_size));
	close(fd);
	return (size_t)st.st_size;
}

/* Use @data, with a header that is right for what is behind it, whatever that is. */
static int64_t use_sealed(char *data, size_t bytes)
{
	struct header *header = (struct header *)data;

	header->bytes = bytes - sizeof(*header);
	header->entries = ts_hash128(data + sizeof(*header), header->bytes);
	header->check = ts_hash64(header, offsetof(struct header, check));
	put(data, bytes);
	return use(false);
}

Test(stage_listing, one_makes_it_and_others_use_it)
{
	struct ts_stage_listing listing;

	cr_expect(eq(i64, use(false), -EPERM), "nobody has made it");
	int64_t made = use(true);
	cr_expect(gt(i64, made, FILES * 24));
	cr_expect(eq(i64, lseek(directory.fd, 0, SEEK_CUR) != 0, 1), "it was read from");
	cr_expect(eq(i64, use(false), made));
	cr_expect(eq(i64, lseek(directory.fd, 0, SEEK_CUR), 0), "it was not read from");
	/* Entry for entry what the kernel gives. */
	char kernels[64 << 10];
	cr_assert(eq(
		int, ts_stage_listing_open(fixture_files.stage, &directory, 0, &listing), 0));
	cr_expect(eq(i64, ts_sys_list(directory.fd, kernels, sizeof(kernels)), made));
	cr_expect(eq(int, memcmp(kernels, listing.map, (size_t)made), 0));
	ts_stage_listing_finish(&listing);
	ts_stage_listing_finish(&listing);
}

Test(stage_listing, what_it_is_not_of)
{
	int64_t made = use(true);
	struct stat others[] = {was, was, was, was};

	others[0].st_ino++;
	others[1].st_mtim.tv_nsec ^= 1;
	others[2].st_ctim.tv_sec++;
	others[3].st_size++;
	for (size_t i = 0; i < TS_ARRAY_SIZE(others); i++) {
		directory.stat = &others[i];
		cr_expect(eq(i64, use(false), -EPERM), "another or changed directory, %zu", i);
	}
	directory.stat = &was;
	directory.rights = 2;
	cr_expect(eq(i64, use(false), -EPERM), "other rights");
	directory.rights = 1;
	directory.path = "/somewhere/else";
	cr_expect(eq(i64, use(false), -EPERM));
	directory.path = place;
	cr_expect(eq(i64, use(false), made));
}

Test(stage_listing, it_ends)
{
	int64_t made = use(true);

	directory.seconds = 0;
	cr_expect(eq(i64, use(false), -EPERM), "no seconds");
	directory.seconds = 600;
	cr_expect(eq(i64, use(false), made));
	ts_stage_names_leave(&fixture_files.stage->index, 1);
	cr_expect(eq(i64, use(false), -EPERM), "a job has written");
	fixture_time_passes(1);
	cr_expect(eq(i64, use(true), made));
	cr_expect(eq(i64, use(false), made));
}

Test(stage_listing, an_old_one_is_replaced_and_its_room_returned)
{
	cr_expect(gt(i64, use(true), 0));
	uint64_t used = fixture_used();
	for (int i = 0; i < 3; i++) {
		fixture_time_passes(1);
		ts_stage_names_leave(&fixture_files.stage->index, 1);
		fixture_time_passes(1);
		cr_expect(gt(i64, use(true), 0));
		cr_expect(eq(u64, fixture_used(), used));
	}
}

Test(stage_listing, without_room_it_is_the_makers)
{
	int64_t made = use(true);

	unlink(fixture_name_of_copy());
	fixture_files.stage->capacity = 100;
	cr_expect(eq(i64, use(true), made));
	cr_expect(fixture_name_of_copy() == NULL);
	cr_expect(eq(i64, use(false), -EPERM));
}

Test(stage_listing, who_reads_as_well_makes_it_incomplete)
{
	struct ts_stage_listing listing;
	char some[512];

	cr_assert(gt(i64, ts_sys_list(directory.fd, some, sizeof(some)), 0));
	int64_t at = lseek(directory.fd, 0, SEEK_CUR);
	cr_assert(eq(
		int, ts_stage_listing_open(fixture_files.stage, &directory, 0, &listing), 0));
	cr_expect(not(listing.is_complete));
	cr_expect(eq(u64, listing.bytes, 0));
	cr_expect(eq(i64, lseek(directory.fd, 0, SEEK_CUR), at));
	cr_expect(fixture_name_of_copy() == NULL);
	ts_stage_listing_finish(&listing);
}

Test(stage_listing, every_changed_byte_is_noticed)
{
	int64_t made = use(true);
	char *data;
	size_t bytes = contents(&data);

	for (size_t i = 0; i < bytes; i++) {
		data[i] ^= 4;
		put(data, bytes);
		cr_assert(eq(i64, use(false), -EPERM), "byte %zu", i);
		data[i] ^= 4;
	}
	for (size_t length = 0; length < bytes; length += 7) {
		put(data, length);
		cr_assert(eq(i64, use(false), -EPERM), "%zu bytes", length);
	}
	put(data, bytes);
	cr_expect(eq(i64, use(false), made));
	free(data);
}

/* With hashes that are right: what would make readdir hand out what is no entry. */
Test(stage_listing, entries_are_checked)
{
	static const struct {
		size_t at;
		uint64_t value, bytes;
	} wrong[] = {
		{0, 0, 8},      /* inode 0 */
		{16, 0, 2},     /* no length */
		{16, 8, 2},     /* shorter than its head */
		{16, 25, 2},    /* not aligned */
		{16, 4096, 2},  /* longer than a name can be */
		{16, 65528, 2}, /* out of the listing */
		{19, 0, 1},     /* no name */
	};
	char *data, *bad;
	int64_t made = use(true);
	size_t bytes = contents(&data);

	bad = malloc(bytes);
	for (size_t i = 0; i < TS_ARRAY_SIZE(wrong); i++) {
		memcpy(bad, data, bytes);
		memcpy(bad + sizeof(struct header) + wrong[i].at, &wrong[i].value,
			wrong[i].bytes);
		cr_expect(eq(i64, use_sealed(bad, bytes), -EPERM), "%zu", i);
	}
	/* The last one without the end of its name, and cut. */
	memcpy(bad, data, bytes);
	memset(bad + bytes - 24, 'x', 24);
	cr_expect(eq(i64, use_sealed(bad, bytes), -EPERM));
	memcpy(bad, data, bytes);
	cr_expect(eq(i64, use_sealed(bad, bytes - 8), -EPERM));
	cr_expect(eq(i64, use_sealed(bad, bytes), made), "the right ones are right");
	/* Without entries it says that it was too large to be made. */
	(void)use_sealed(bad, sizeof(struct header));
	cr_expect(eq(i64, use(true), -EFBIG));
	free(bad);
	free(data);
}
