/* SPDX-License-Identifier: MIT */
/* Stagers: where they go on, when they give up, and what they leave. */
#include "../clock.h"
#include "fixture_stage.h"
#include "leader/group/ledger.h"
#include "leader/files/stage_private.h"
#include "leader/files/stager.h"
#include "shim/identity.h"
#include "tests/unit/valgrind.h"

#include <limits.h>

#define LARGE  (TS_STAGER_CHUNK * 2 + 100)
#define BEYOND ((UINT64_C(1) << 32) + TS_STAGER_CHUNK + 5)

static char copy[TS_STAGE_PATH];

static void init(void)
{
	fixture_stage_init();
	fixture_files.stage->capacity = UINT64_MAX;
	(void)ts_ledger_find_job(
		ts_store_ledger(fixture_files.store), ts_process_id(getpid(), false));
}

TestSuite(stager, .init = init, .fini = fixture_stage_finish, .timeout = 60);

static int open_source(struct ts_stage_source *source)
{
	int fd = open(fixture_files.path, O_RDONLY | O_CLOEXEC);

	cr_assert(eq(int, fstat(fd, &fixture_files.was), 0));
	*source = (struct ts_stage_source){
		.fd = fd, .stat = &fixture_files.was, .path = fixture_files.path};
	ts_stage_path_of(fixture_files.stage, source, copy);
	return fd;
}

/* The error, or the locked .part. */
static int take(void)
{
	struct ts_stage_source source;
	int part = -1, fd = open_source(&source);
	int r = ts_stager_take(fixture_files.stage, &source, copy, &part);

	close(fd);
	return r < 0 ? r : part;
}

/* The same while time stands still: a sweep of the dead ends after 20 ms, and a busy machine
 * may not let it do anything in these. */
static int take_with_time(void)
{
	clock_begin();
	int part = take();
	clock_end();
	return part;
}

/* As a process of its own, which it always is; its error. */
static int run_for(int part, const char *path)
{
	NOT_EMULATED("a child is told its parent's start time, so nobody waits for it");
	struct ts_stage_source source;
	int status = 0, fd = open_source(&source);
	pid_t pid = fork();

	if (pid == 0) {
		const struct ts_stager_task task = {.group = fixture_group(),
			.dataset = "files",
			.ring_bytes = UINT64_C(8) << 20,
			.path = fixture_files.path,
			.copy = path,
			.bytes = (uint64_t)fixture_files.was.st_size,
			.source = fd,
			.part = part};
		_exit(-ts_stager_run(&task));
	}
	close(fd);
	close(part);
	cr_assert(eq(int, (int)waitpid(pid, &status, 0), (int)pid));
	cr_assert(eq(int, WTERMSIG(status), 0));
	return -WEXITSTATUS(status);
}

static int run(int part)
{
	return run_for(part, copy);
}

static void set_mark(int part, uint64_t mark)
{
	cr_assert(eq(int, (int)pwrite(part, &mark, sizeof(mark), fixture_files.was.st_size),
		(int)sizeof(mark)));
}

static uint64_t size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? (uint64_t)st.st_size : UINT64_MAX;
}

static const char *part_path(void)
{
	static char path[TS_STAGE_PATH + 8];

	snprintf(path, sizeof(path), "%s.part", copy);
	return path;
}

Test(stager, a_copy_is_made_and_given_out)
{
	bool fetched = true;

	fixture_write_file('x', LARGE);
	int part = take();
	cr_assert(ge(int, part, 0));
	cr_expect(eq(u64, size_of(part_path()), LARGE + TS_STAGER_MARK));
	cr_expect(eq(int, take(), -EBUSY));
	cr_expect(eq(int, fixture_open_copy(0, &fetched), -EFBIG));
	cr_assert(eq(int, run(part), 0));
	int fd = fixture_open_copy(0, &fetched);
	cr_assert(ge(int, fd, 0));
	cr_expect(fixture_holds(fd, 'x', LARGE) && !fetched);
	cr_expect(eq(u64, fixture_used(), LARGE));
	/* It has asked the storage itself. */
	struct stat st;
	cr_assert(eq(int, fstat(fd, &st), 0));
	cr_expect(ts_stage_index_is_confirmed(&fixture_files.stage->index, st.st_ino));
	close(fd);
}

Test(stager, goes_on_behind_the_mark)
{
	char first;

	fixture_write_file('x', LARGE);
	int part = take();
	set_mark(part, TS_STAGER_CHUNK);
	cr_assert(eq(int, run(part), 0));
	int fd = fixture_open_copy(0, NULL);
	/* What is said to be there is not read again; here it was not there. */
	cr_assert(eq(int, (int)pread(fd, &first, 1, TS_STAGER_CHUNK - 1), 1));
	cr_expect(eq(int, first, 0));
	cr_assert(eq(int, (int)pread(fd, &first, 1, TS_STAGER_CHUNK), 1));
	cr_expect(eq(int, first, 'x'));
	close(fd);
}

Test(stager, a_mark_that_cannot_be_is_none)
{
	const uint64_t marks[] = {1, TS_STAGER_CHUNK + 1, LARGE + 1, UINT64_MAX};

	fixture_write_file('x', LARGE);
	for (size_t i = 0; i < TS_ARRAY_SIZE(marks); i++) {
		int part = take();
		cr_assert(ge(int, part, 0));
		set_mark(part, marks[i]);
		cr_assert(eq(int, run(part), 0));
		int fd = fixture_open_copy(0, NULL);
		cr_expect(fixture_holds(fd, 'x', LARGE), "mark %zu", i);
		close(fd);
		unlink(copy);
	}
}

Test(stager, bytes_beyond_32_bits)
{
	const uint64_t tail = BEYOND - 3;
	char end[8] = "";

	/* A hole in the original and in what was copied already: nobody writes four gigabytes.
	 */
	cr_assert(eq(int, truncate(fixture_files.path, (off_t)BEYOND), 0));
	int fd = open(fixture_files.path, O_WRONLY);
	cr_assert(eq(int, (int)pwrite(fd, "end", 3, (off_t)tail), 3));
	cr_assert(eq(int, (int)pwrite(fd, "4", 1, (off_t)1 << 32), 1));
	close(fd);
	int part = take();
	if (part == -ENOSPC) {
		fixture_stage_finish(); /* which a skipped test does not come to */
		cr_skip_test("the machine leaves no room for four gigabytes");
	}
	cr_assert(ge(int, part, 0));
	set_mark(part, (UINT64_C(1) << 32) - TS_STAGER_CHUNK);
	cr_assert(eq(int, run(part), 0));
	cr_expect(eq(u64, size_of(copy), BEYOND));
	fd = fixture_open_copy(0, NULL);
	cr_assert(eq(int, (int)pread(fd, end, sizeof(end), (off_t)tail), 3));
	cr_expect(eq(int, memcmp(end, "end", 4), 0));
	cr_assert(eq(int, (int)pread(fd, end, 1, (off_t)1 << 32), 1));
	cr_expect(eq(int, end[0], '4'));
	close(fd);
}

Test(stager, what_has_no_room_is_not_begun)
{
	fixture_files.stage->capacity = LARGE - 1;
	fixture_write_file('x', LARGE);
	cr_expect(eq(int, take(), -ENOSPC));
	cr_expect(fixture_name_of_copy() == NULL);
	cr_expect(eq(u64, fixture_used(), 0));
}

/* A copy that nobody makes any more, of what the file is now; then the file is another one. */
static void leave_dead_part(size_t bytes)
{
	fixture_write_file('x', bytes);
	ts_stage_release_part(take());
	cr_assert(eq(u64, size_of(part_path()), bytes + TS_STAGER_MARK));
	cr_assert(eq(u64, fixture_used(), bytes));
}

Test(stager, room_of_a_dead_one_is_for_who_lacks_it)
{
	fixture_files.stage->capacity = TS_STAGE_CHUNK + LARGE + TS_STAGER_CHUNK;
	leave_dead_part(LARGE);
	char dead[TS_STAGE_PATH + 8];
	snprintf(dead, sizeof(dead), "%s", part_path());
	fixture_write_file('y', LARGE + 1);
	int part = take_with_time();
	cr_assert(ge(int, part, 0));
	cr_expect(eq(u64, size_of(dead), UINT64_MAX));
	cr_expect(eq(u64, fixture_used(), LARGE + 1));
	cr_assert(eq(int, run(part), 0));
	cr_expect(eq(u64, fixture_used(), LARGE + 1));
}

Test(stager, room_of_a_live_one_stays_its_own)
{
	fixture_files.stage->capacity = TS_STAGE_CHUNK + LARGE + TS_STAGER_CHUNK;
	fixture_write_file('x', LARGE);
	int part = take();
	char live[TS_STAGE_PATH + 8];
	snprintf(live, sizeof(live), "%s", part_path());
	fixture_write_file('y', LARGE + 1);
	cr_expect(eq(int, take_with_time(), -ENOSPC));
	cr_expect(eq(u64, size_of(live), LARGE + TS_STAGER_MARK));
	cr_expect(eq(u64, fixture_used(), LARGE));
	/* It dies. Not everybody who lacks room looks, but somebody does after a while. */
	ts_stage_release_part(part);
	cr_expect(eq(int, take(), -ENOSPC));
	ts_write_relaxed(&fixture_files.stage->index.head->sweep_at, 0);
	cr_expect(ge(int, take_with_time(), 0));
	cr_expect(eq(u64, fixture_used(), LARGE + 1));
}

Test(stager, all_sizes_of_dead_ones_give_back_no_more_than_they_took)
{
	const uint64_t sizes[] = {LARGE, LARGE + TS_STAGER_MARK};

	fixture_files.stage->capacity = TS_STAGE_CHUNK + LARGE + TS_STAGER_CHUNK;
	for (size_t i = 0; i < TS_ARRAY_SIZE(sizes); i++) {
		struct ts_stage_head *head = fixture_files.stage->index.head;
		uint64_t before = fixture_used();
		fixture_write_file('x', LARGE);
		int part = take();
		cr_assert(ge(int, part, 0));
		/* FILLED, GROWING. */
		cr_assert(eq(int, ftruncate(part, (off_t)sizes[i]), 0));
		ts_stage_release_part(part);
		ts_write_relaxed(&head->sweep_at, 0);
		fixture_write_file('y', LARGE + 1 + i);
		part = take_with_time();
		cr_assert(ge(int, part, 0));
		cr_expect(ge(u64, fixture_used(), before + LARGE + 1 + i));
		cr_expect(le(u64, fixture_used(), before + LARGE + 1 + i + TS_STAGER_MARK));
		cr_assert(eq(int, unlink(part_path()), 0));
		ts_stage_index_return(&fixture_files.stage->index, LARGE + 1 + i);
		ts_stage_release_part(part);
	}
}

Test(stager, without_a_job_it_leaves_the_part_to_others)
{
	fixture_write_file('x', LARGE);
	ts_ledger_end_job(ts_store_ledger(fixture_files.store), ts_process_id(getpid(), false));
	cr_expect(eq(int, run(take()), -ECANCELED));
	cr_expect(eq(u64, size_of(part_path()), LARGE + TS_STAGER_MARK));
	cr_expect(eq(u64, fixture_used(), LARGE));
	(void)ts_ledger_find_job(
		ts_store_ledger(fixture_files.store), ts_process_id(getpid(), false));
	cr_expect(eq(int, run(take()), 0));
	cr_expect(eq(u64, fixture_used(), LARGE));
}

Test(stager, as_many_as_there_are_slots)
{
	int index = open(fixture_files.stage->index.object.path, O_RDWR | O_CLOEXEC);
	struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = TS_STAGER_SLOTS};

	fixture_write_file('x', LARGE);
	cr_assert(eq(int, fcntl(index, F_OFD_SETLK, &all), 0));
	cr_expect(eq(int, run(take()), -ECANCELED));
	cr_expect(eq(u64, size_of(part_path()), LARGE + TS_STAGER_MARK));
	close(index);
	cr_expect(eq(int, run(take()), 0));
}

Test(stager, a_changed_original_leaves_nothing)
{
	char old[TS_STAGE_PATH];

	fixture_write_file('x', LARGE);
	int part = take();
	/* Which file it was only the name of the copy tells. */
	memcpy(old, copy, sizeof(old));
	fixture_write_file('y', LARGE);
	cr_expect(eq(int, run_for(part, old), -ESTALE));
	cr_expect(fixture_name_of_copy() == NULL);
	cr_expect(eq(u64, fixture_used(), 0));
	cr_expect(eq(u64, ts_load_relaxed(&fixture_files.stage->index.head->stager_pause), 0));
}

Test(stager, a_machine_without_room_makes_a_pause)
{
	fixture_write_file('x', LARGE);
	int part = take();
	struct ts_stage_head *head = fixture_files.stage->index.head;
	ts_write_relaxed(&head->used, UINT64_MAX / 2); /* more than any machine leaves */
	cr_expect(eq(int, run(part), -ENOSPC));
	cr_expect(fixture_name_of_copy() == NULL);
	cr_expect(gt(u64, ts_load_relaxed(&head->stager_pause), 0));
}
