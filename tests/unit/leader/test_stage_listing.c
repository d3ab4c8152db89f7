/* SPDX-License-Identifier: MIT */
/* Listings that jobs share: on what terms they are used, and what damaged ones say. */
#include "fixture_stage.h"
#include "leader/files/listing.h"
#include "leader/files/names.h"
#include "shim/hash.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* Let the header be right for what is behind it, whatever that is. */
static void seal(char *data, size_t bytes)
{
	struct header *header = (struct header *)data;

	header->bytes = bytes - sizeof(*header);
	header->entries = ts_hash128(data + sizeof(*header), header->bytes);
	header->check = ts_hash64(header, offsetof(struct header, check));
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
	const struct stat before = was;

	directory.rights = 2;
	cr_expect(eq(i64, use(false), -EPERM), "other rights");
	directory.rights = 1;
	was.st_ino++;
	cr_expect(eq(i64, use(false), -EPERM), "another directory");
	was = before;
	was.st_mtim.tv_nsec ^= 1;
	cr_expect(eq(i64, use(false), -EPERM), "it has changed");
	was = before;
	was.st_ctim.tv_sec++;
	cr_expect(eq(i64, use(false), -EPERM));
	was = before;
	was.st_size++;
	cr_expect(eq(i64, use(false), -EPERM));
	was = before;
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
		seal(bad, bytes);
		put(bad, bytes);
		cr_expect(eq(i64, use(false), -EPERM), "%zu", i);
	}
	/* The last one without the end of its name, and cut. */
	memcpy(bad, data, bytes);
	memset(bad + bytes - 24, 'x', 24);
	seal(bad, bytes);
	put(bad, bytes);
	cr_expect(eq(i64, use(false), -EPERM));
	memcpy(bad, data, bytes);
	seal(bad, bytes - 8);
	put(bad, bytes - 8);
	cr_expect(eq(i64, use(false), -EPERM));
	/* What seal() makes of the right ones is right. */
	memcpy(bad, data, bytes);
	seal(bad, bytes);
	put(bad, bytes);
	cr_expect(eq(i64, use(false), made));
	/* Without entries it says that it was too large to be made. */
	seal(bad, sizeof(struct header));
	put(bad, sizeof(struct header));
	cr_expect(eq(i64, use(true), -EFBIG));
	free(bad);
	free(data);
}
