/* SPDX-License-Identifier: MIT */
/* What is told of paths on other nodes, and the copies that are made of it. */
#include "fixture_stage.h"
#include "leader/files/remote.h"
#include "leader/files/stage_private.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

TestSuite(bring, .init = fixture_stage_init, .fini = fixture_stage_finish, .timeout = 60);

#define SECONDS 600

static const struct ts_hash128 known_as = {0x1234, 0x5678};

static unsigned char told[TS_STAGE_TOLD_BYTES];

static uint64_t device(void)
{
	return (uint64_t)fixture_files.was.st_dev;
}

/* What a node with a copy of the fixture's file tells; how many bytes. */
static size_t tell(void)
{
	struct stat copy;
	int fd = fixture_open_copy(0, NULL);

	cr_assert(eq(int, fstat(fd, &copy), 0));
	close(fd);
	int r = ts_stage_tell(fixture_files.stage, copy.st_ino, device(), told);
	cr_assert(gt(int, r, 0));
	return (size_t)r;
}

/* The same of a file that this group has no copy of. */
static size_t tell_of_another(void)
{
	struct ts_stage_told head;
	size_t bytes = tell();

	memcpy(&head, told, sizeof(head));
	head.attributes.inode++;
	memcpy(told, &head, sizeof(head));
	return bytes;
}

static bool is_known(struct ts_stage_known *ret_known)
{
	return ts_stage_name_find(&fixture_files.stage->index, known_as, SECONDS, ret_known);
}

static int note(const struct ts_stage_remote *bringing)
{
	return ts_stage_remote_note(fixture_files.stage, bringing, known_as, SECONDS);
}

/* Begin with what was told of a file that is opened here by now. */
static void begin(size_t bytes, struct ts_stage_remote *ret)
{
	cr_assert(eq(int,
		ts_stage_remote_begin(fixture_files.stage, told, bytes, device(), ret), 0));
}

Test(bring, what_is_told_does_not_name_a_device)
{
	struct ts_stage_told head;
	size_t bytes = tell();

	memcpy(&head, told, sizeof(head));
	cr_expect(eq(sz, bytes, sizeof(head) + strlen(fixture_files.path)));
	cr_expect(memcmp(told + sizeof(head), fixture_files.path, head.path_bytes) == 0);
	cr_expect(eq(u32, head.attributes.device_major | head.attributes.device_minor, 0));
	cr_expect(eq(u64, head.attributes.bytes, BYTES));
	cr_expect(eq(int, ts_stage_tell(fixture_files.stage, 1, device(), told), -ENOENT));
}

Test(bring, a_file_beyond_a_mount_point_is_not_told)
{
	struct stat copy;
	int fd = fixture_open_copy(0, NULL);

	cr_assert(eq(int, fstat(fd, &copy), 0));
	close(fd);
	cr_expect(eq(int, ts_stage_tell(fixture_files.stage, copy.st_ino, device() + 1, told),
		-ENOENT));
}

Test(bring, a_copy_that_is_there_is_only_noted)
{
	struct ts_stage_remote bringing;
	struct ts_stage_known known;

	begin(tell(), &bringing);
	cr_expect(eq(int, bringing.part, -1));
	cr_expect(eq(int, ts_stage_remote_end(fixture_files.stage, &bringing, 0), 0));
	cr_expect(eq(int, note(&bringing), 0));
	cr_assert(is_known(&known));
	cr_expect(eq(str, (char *)known.path, fixture_files.path));
	cr_expect(eq(u64, fixture_used(), BYTES));
}

Test(bring, a_new_copy_is_opened_by_its_path_alone)
{
	struct ts_stage_remote bringing;
	char text[BYTES];
	uint64_t bytes = 0;

	begin(tell_of_another(), &bringing);
	cr_assert(ge(int, bringing.part, 0));
	memset(text, 'z', sizeof(text));
	cr_assert(eq(i64, (int64_t)pwrite(bringing.part, text, sizeof(text), 0), BYTES));
	cr_expect(eq(int, ts_stage_remote_end(fixture_files.stage, &bringing, 0), 0));
	cr_expect(eq(int, note(&bringing), 0));
	int fd = ts_stage_open_known(fixture_files.stage, known_as, SECONDS, O_RDONLY, &bytes);
	cr_assert(ge(int, fd, 0));
	cr_expect(eq(u64, bytes, BYTES));
	cr_expect(fixture_holds(fd, 'z', BYTES));
	close(fd);
	cr_expect(eq(u64, fixture_used(), 2 * BYTES));
}

Test(bring, what_could_not_be_had_leaves_nothing)
{
	struct ts_stage_remote bringing, second;
	size_t bytes = tell_of_another();

	cr_assert(eq(int,
		ts_stage_remote_begin(fixture_files.stage, told, bytes, device(), &bringing),
		0));
	cr_expect(eq(u64, fixture_used(), 2 * BYTES));
	/* Somebody else makes it. */
	cr_expect(eq(int,
		ts_stage_remote_begin(fixture_files.stage, told, bytes, device(), &second),
		-EBUSY));
	cr_expect(eq(int, ts_stage_remote_end(fixture_files.stage, &bringing, -EIO), -EIO));
	cr_expect(eq(u64, fixture_used(), BYTES));
	cr_assert(eq(int,
		ts_stage_remote_begin(fixture_files.stage, told, bytes, device(), &second), 0));
	cr_expect(eq(int, ts_stage_remote_end(fixture_files.stage, &second, -EIO), -EIO));
}

/* Half of the time is for the server to keep it: half of it is left. */
Test(bring, it_is_known_as_of_when_it_may_have_been_asked_for)
{
	struct ts_stage_remote bringing;
	struct ts_stage_known known;

	begin(tell(), &bringing);
	cr_expect(eq(int, note(&bringing), 0));
	cr_expect(eq(int,
		ts_stage_name_find(&fixture_files.stage->index, known_as, SECONDS / 2, &known),
		false));
	cr_expect(is_known(&known));
	ts_stage_names_leave(&fixture_files.stage->index, 1);
	cr_expect(eq(int, note(&bringing), 0));
	cr_expect(eq(int, is_known(&known), false),
		"it may be older than what a job has written");
}

Test(bring, nonsense_is_refused)
{
	struct ts_stage_told good, bad;
	struct ts_stage_remote bringing;
	size_t bytes = tell_of_another();

	memcpy(&good, told, sizeof(good));
	for (int i = 0; i < 8; i++) {
		size_t count = bytes;
		bad = good;
		memcpy(told + sizeof(good), fixture_files.path, good.path_bytes);
		switch (i) {
		case 0:
			bad.version++;
			break;
		case 1:
			bad.path_bytes++;
			break;
		case 2:
			bad.path_bytes = 0;
			count = sizeof(bad);
			break;
		case 3:
			bad.attributes.mode = S_IFDIR | 0755;
			break;
		case 4:
			bad.attributes.bytes = 0;
			break;
		case 5:
			told[sizeof(bad)] = 'x'; /* not absolute */
			break;
		case 6:
			told[sizeof(bad) + 2] = '\0';
			break;
		default:
			count = sizeof(bad) - 1;
		}
		memcpy(told, &bad, sizeof(bad));
		cr_expect(eq(int,
				  ts_stage_remote_begin(fixture_files.stage, told, count,
					  device(), &bringing),
				  -EBADMSG),
			"%d", i);
	}
	good.attributes.bytes = TS_STAGE_AT_ONCE + 1;
	memcpy(told, &good, sizeof(good));
	memcpy(told + sizeof(good), fixture_files.path, good.path_bytes);
	cr_expect(eq(int,
		ts_stage_remote_begin(fixture_files.stage, told, bytes, device(), &bringing),
		-EFBIG));
	cr_expect(eq(u64, fixture_used(), BYTES));
}

Test(bring, short_times_are_not_told)
{
	cr_expect(eq(u32, ts_stage_told_for(0), 0));
	cr_expect(eq(u32, ts_stage_told_for(TS_STAGE_TELL_SECONDS - 1), 0));
	cr_expect(eq(u32, ts_stage_told_for(TS_STAGE_TELL_SECONDS), TS_STAGE_TELL_SECONDS / 2));
	cr_expect(eq(u32, ts_stage_told_for(601), 300));
}
