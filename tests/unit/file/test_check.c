/* SPDX-License-Identifier: MIT */
/* The list as bytes of a record, and what a reader makes of them. */
#include "fixture.h"

#include <sys/wait.h>

TestSuite(check, .init = folder_make, .fini = folder_remove, .timeout = 60);

static unsigned char record[TS_OPENS_ENCODED_MAX];

/* What a producer that opens @path writes into its record; the number of bytes. */
static size_t produce(const char *path)
{
	struct ts_opens opens;
	cr_assert(eq(int, item_reads(&opens, path), 0));
	int64_t size = ts_opens_encode(&opens, record, sizeof(record));
	cr_assert(gt(long, size, 0));
	return (size_t)size;
}

Test(check, same_files)
{
	struct ts_opens opens;
	file_write("a", "text");
	file_write("b", "");
	ts_opens_begin(&opens);
	close(open(in_folder("a"), O_RDONLY));
	close(open("b", O_RDONLY));
	(void)!open("absent", O_RDONLY);
	cr_assert(eq(int, ts_opens_end(&opens), 0));
	int64_t size = ts_opens_encode(&opens, record, sizeof(record));
	cr_assert(gt(long, size, 0));
	cr_expect(eq(int, ts_opens_check(record, (size_t)size), 0));
	/* Nothing depends on where the bytes lie. */
	memmove(record + 3, record, (size_t)size);
	cr_expect(eq(int, ts_opens_check(record + 3, (size_t)size), 0));
}

Test(check, no_files)
{
	struct ts_opens opens;
	ts_opens_begin(&opens);
	cr_assert(eq(int, ts_opens_end(&opens), 0));
	cr_assert(eq(long, ts_opens_encode(&opens, record, sizeof(record)), 8));
	cr_expect(eq(int, ts_opens_check(record, 8), 0));
}

Test(check, largest_list)
{
	struct ts_opens opens;
	ts_opens_begin(&opens);
	for (unsigned i = 0; i < TS_OPENS_FILES; i++) {
		char path[TS_OPENS_TEXT / TS_OPENS_FILES];
		memset(path, 'x', sizeof(path));
		memcpy(path, "/tmp/tsshim-no-such-directory/", 30);
		path[sizeof(path) - 2] = (char)('a' + i);
		path[sizeof(path) - 1] = '\0';
		path[240] = path[250] = '/';
		cr_expect(eq(int, open(path, O_RDONLY), -1));
	}
	cr_assert(eq(int, ts_opens_end(&opens), 0));
	cr_expect(eq(u32, opens.text_used, TS_OPENS_TEXT));
	int64_t size = ts_opens_encode(&opens, record, sizeof(record));
	cr_expect(eq(long, size, TS_OPENS_ENCODED_MAX - TS_OPENS_FILES));
	cr_expect(eq(long, ts_opens_encode(&opens, record, (size_t)size - 1), -ENOSPC));
	cr_expect(eq(int, ts_opens_check(record, (size_t)size), 0));
}

Test(check, changed_files)
{
	const struct timespec times[2] = {{1000000000, 1}, {1000000000, 1}};
	file_write("a", "text");
	size_t size = produce("a");
	cr_expect(eq(int, ts_opens_check(record, size), 0));
	file_clock_ticks();
	cr_assert(chmod("a", 0640) == 0);
	cr_expect(eq(int, ts_opens_check(record, size), -ESTALE), "ctime");

	size = produce("a");
	cr_assert(utimensat(AT_FDCWD, "a", times, 0) == 0);
	cr_expect(eq(int, ts_opens_check(record, size), -ESTALE), "mtime");

	size = produce("a");
	cr_assert(rename("a", "b") == 0);
	cr_expect(eq(int, ts_opens_check(record, size), -ESTALE), "gone");
	cr_assert(mkfifo("a", 0600) == 0);
	cr_expect(eq(int, ts_opens_check(record, size), -ESTALE), "a pipe");
	cr_assert(unlink("a") == 0 && link("b", "a") == 0);
	cr_expect(eq(int, ts_opens_check(record, size), -ESTALE), "linking sets ctime");
	size = produce("a");
	cr_expect(eq(int, ts_opens_check(record, size), 0));
}

Test(check, absent_files)
{
	size_t size = produce("a");
	cr_expect(eq(int, ts_opens_check(record, size), 0));
	file_write("a", "text");
	cr_expect(eq(int, ts_opens_check(record, size), -ESTALE));
}

Test(check, relative_paths_are_the_readers_own)
{
	file_write("a", "text");
	cr_assert(mkdir("other", 0700) == 0);
	size_t size = produce("a");
	cr_assert(chdir("other") == 0);
	cr_expect(eq(int, ts_opens_check(record, size), -ESTALE));
	cr_assert(symlink("../a", "a") == 0);
	cr_expect(eq(int, ts_opens_check(record, size), 0), "the same file after all");
}

Test(check, a_reader_without_permission)
{
	int status;
	file_write("a", "text");
	cr_assert(chmod("a", 0600) == 0 && chmod(".", 0711) == 0);
	size_t size = produce(in_folder("a"));
	/* Root becomes somebody who may not read the file, others lose the way to it. */
	bool root = geteuid() == 0;
	cr_assert(chmod(".", root ? 0711 : 0) == 0);
	pid_t child = fork();
	if (child == 0) {
		if (root && seteuid(65534) != 0)
			_exit(2);
		int r = ts_opens_check(record, size);
		if (root && seteuid(0) != 0) /* valgrind has files of root's to remove */
			_exit(3);
		_exit(r == -EACCES ? 0 : 1);
	}
	cr_assert(waitpid(child, &status, 0) == child);
	cr_assert(chmod(in_folder(""), 0700) == 0);
	cr_expect(eq(int, status, 0));
}

Test(check, leaves_no_trace)
{
	struct ts_opens opens;
	file_write("a", "text");
	size_t size = produce("a");
	unsigned before = descriptors();
	ts_opens_begin(&opens);
	errno = EXFULL;
	cr_expect(eq(int, ts_opens_check(record, size), 0));
	cr_assert(unlink("a") == 0);
	cr_expect(eq(int, ts_opens_check(record, size), -ESTALE));
	cr_expect(eq(int, errno, EXFULL));
	cr_expect(eq(int, ts_opens_end(&opens), 0));
	cr_expect(eq(u32, opens.count, 0), "not listed itself");
	cr_expect(eq(u32, descriptors(), before));
}

/* ---- damaged bytes ----------------------------------------------------------------------- */

Test(check, cut_anywhere)
{
	file_write("a", "text");
	size_t size = produce(in_folder("a"));
	for (size_t cut = 0; cut < size; cut++) {
		unsigned char *exact = malloc(cut ? cut : 1);
		memcpy(exact, record, cut);
		cr_expect(eq(int, ts_opens_check(exact, cut), -EBADMSG), "%zu bytes", cut);
		free(exact);
	}
	cr_expect(eq(int, ts_opens_check(record, size + 1), -EBADMSG));
}

Test(check, any_byte_changed)
{
	file_write("a", "text");
	size_t size = produce(in_folder("a"));
	for (size_t at = 0; at < size; at++)
		for (unsigned bit = 0; bit < 8; bit++) {
			record[at] ^= (unsigned char)(1u << bit);
			cr_expect(lt(int, ts_opens_check(record, size), 0), "byte %zu bit %u",
				at, bit);
			record[at] ^= (unsigned char)(1u << bit);
		}
	cr_expect(eq(int, ts_opens_check(record, size), 0));
}
