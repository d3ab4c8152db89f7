/* SPDX-License-Identifier: MIT */
/* The index of copies of files: what it says of them, and how they end. */
#include "fixture_stage.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

Test(stage, inodes_that_come_back_are_nobodys)
{
	struct ts_stage_attributes original;
	struct stat copy;
	int fd = fixture_open_copy(0, NULL);

	cr_assert(eq(int, fstat(fd, &copy), 0));
	cr_expect(ts_stage_index_find(&fixture_files.stage->index, &copy, &original, NULL));
	copy.st_mtim.tv_nsec ^= 1;
	cr_expect(
		not(ts_stage_index_find(&fixture_files.stage->index, &copy, &original, NULL)));
	copy.st_mtim.tv_nsec ^= 1;
	copy.st_mtim.tv_sec ^= 1;
	cr_expect(
		not(ts_stage_index_find(&fixture_files.stage->index, &copy, &original, NULL)));
	copy.st_mtim.tv_sec ^= 1;
	copy.st_size++;
	cr_expect(
		not(ts_stage_index_find(&fixture_files.stage->index, &copy, &original, NULL)));
	copy.st_size--;
	copy.st_dev ^= 1;
	cr_expect(
		not(ts_stage_index_find(&fixture_files.stage->index, &copy, &original, NULL)));
	copy.st_dev ^= 1;
	copy.st_mode = S_IFREG | 0600;
	cr_expect(
		not(ts_stage_index_find(&fixture_files.stage->index, &copy, &original, NULL)));
	close(fd);
}

/* Whatever stands in the index, looking something up stays within it. */
Test(stage, a_damaged_index_finds_nothing)
{
	struct ts_stage_attributes original;
	char name[PATH_MAX];
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
		cr_expect(not(ts_stage_index_find(
			&fixture_files.stage->index, &copy, &original, name)));
	}
	words[2 * at + 1] = right;
	struct ts_stage_row *row =
		(struct ts_stage_row *)((char *)fixture_files.stage->index.head + right);
	row->path_bytes = PATH_MAX;
	cr_expect(
		not(ts_stage_index_find(&fixture_files.stage->index, &copy, &original, name)));
	row->path_bytes = UINT64_MAX;
	cr_expect(
		not(ts_stage_index_find(&fixture_files.stage->index, &copy, &original, name)));
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
	ts_store_detach(other);
	cr_expect(fixture_name_of_copy() != NULL, "a member is left");
	ts_store_detach(fixture_files.store);
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
