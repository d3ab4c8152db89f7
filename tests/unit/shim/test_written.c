/* SPDX-License-Identifier: MIT */
/* Writes that the kernel notices; where it cannot, that this is said. */
#include "fixture.h"

#include "shim/identity.h"
#include "shim/written.h"

#define PAGES 64u
#define PAGE  ((size_t)sysconf(_SC_PAGESIZE))
#define BYTES (PAGES * PAGE)

static char *memory, *other;
static int memory_fd;

/* A mapping as those of the hand-over pool: shared, twice, all of it there. */
static void begin(void)
{
	ts_identity_init(); /* as the constructor has */
	memory_fd = memfd_create("tsshim-test", MFD_CLOEXEC);
	cr_assert(memory_fd >= 0 && ftruncate(memory_fd, (off_t)BYTES) == 0);
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
	other = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
	cr_assert(memory != MAP_FAILED && other != MAP_FAILED);
	for (size_t i = 0; i < BYTES; i += PAGE)
		memory[i] = other[i] = 1;
	int r = ts_written_watch(memory, BYTES);
	if (r == -ENOTSUP)
		cr_skip_test("this kernel does not tell who writes (Linux 6.7)");
	cr_assert(r == 0, "%d", r);
}

static void end(void)
{
	(void)munmap(memory, BYTES);
	(void)munmap(other, BYTES);
	(void)close(memory_fd);
}

TestSuite(written, .init = begin, .fini = end);

static bool is_written(size_t from, size_t bytes)
{
	int r = ts_written_since(memory + from, bytes);
	cr_assert(r >= 0, "%d", r);
	return r == 1;
}

Test(written, a_write_is_noticed_where_it_was_made)
{
	cr_expect(is_written(0, BYTES), "never protected");
	cr_assert(ts_written_protect(memory, BYTES) == 0);
	cr_expect_not(is_written(0, BYTES));
	memory[5 * PAGE + 17]++;
	cr_expect(is_written(0, BYTES) && is_written(5 * PAGE, PAGE));
	cr_expect_not(is_written(0, 5 * PAGE) || is_written(6 * PAGE, BYTES - 6 * PAGE));
	cr_assert(ts_written_protect(memory, BYTES) == 0);
	cr_expect_not(is_written(0, BYTES));
	memory[BYTES - 1]++;
	cr_expect(is_written(0, BYTES));
}

Test(written, reading_is_no_write)
{
	volatile char sum = 0;
	cr_assert(ts_written_protect(memory, BYTES) == 0);
	for (size_t i = 0; i < BYTES; i++)
		sum = (char)(sum + memory[i]);
	cr_expect_not(is_written(0, BYTES));
}

Test(written, system_calls_that_store_are_seen)
{
	cr_assert(ts_written_protect(memory, BYTES) == 0);
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	cr_assert(read(fd, memory + 3 * PAGE, 8) == 8);
	cr_expect(is_written(3 * PAGE, PAGE) && is_written(4 * PAGE, PAGE) == false);
	(void)close(fd);
}

Test(written, writing_the_same_bytes_is_a_write)
{
	cr_assert(ts_written_protect(memory, BYTES) == 0);
	*(volatile char *)memory = *(volatile char *)memory;
	cr_expect(is_written(0, BYTES));
}

Test(written, other_mappings_are_not_seen_as_is_said)
{
	cr_assert(ts_written_protect(memory, BYTES) == 0);
	other[0]++;
	cr_expect_not(is_written(0, BYTES));
}

Test(written, a_page_that_was_taken_away_counts_as_written)
{
	cr_assert(ts_written_protect(memory, BYTES) == 0);
	memory[7 * PAGE]++;
	cr_assert(madvise(memory + 7 * PAGE, PAGE, MADV_DONTNEED) == 0);
	cr_expect(is_written(7 * PAGE, PAGE), "not there");
	volatile char read_again = memory[7 * PAGE];
	(void)read_again;
	cr_expect(is_written(7 * PAGE, PAGE), "there again");
}

Test(written, what_is_not_watched_counts_as_written)
{
	int r = ts_written_since(other, BYTES);
	cr_expect(r == 1, "%d", r);
	cr_expect(ts_written_protect(other, BYTES) < 0);
	(void)munmap(other, BYTES);
	r = ts_written_since(other, BYTES);
	cr_expect(r != 0, "unmapped: %d", r);
}

Test(written, a_child_is_told_nothing_and_leaves_the_watch)
{
	cr_assert(ts_written_protect(memory, BYTES) == 0);
	pid_t child = fork();
	if (child == 0)
		_exit(ts_written_since(memory, BYTES) != -ECHILD ||
			ts_written_protect(memory, BYTES) != -ECHILD ||
			ts_written_watch(memory, BYTES) != -ECHILD);
	int status = -1;
	cr_assert(waitpid(child, &status, 0) == child);
	cr_expect_eq(status, 0);
	cr_expect_not(is_written(0, BYTES));
	memory[0]++;
	cr_expect(is_written(0, BYTES));
}

Test(written, errno_is_left_alone)
{
	errno = 77;
	(void)ts_written_protect(other, BYTES);
	(void)ts_written_watch(memory + 1, 1);
	(void)ts_written_since(memory + 1, 1);
	cr_expect_eq(errno, 77);
}
