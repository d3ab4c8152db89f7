/* SPDX-License-Identifier: MIT */
/* System calls report through their result and leave errno to the host. */
#include "tests/unit/valgrind.h"
#include "fixture.h"
#include "shim/sys.h"
#include "shim/hash.h"
#include "shim/utf8.h"
#include "shim/stream.h"
#include "shim/scratch.h"
#include "leader/group/kinds.h"
#include "shim/config.h"
#include "shim/reasons.h"

#include <stdint.h>
#include <sys/prctl.h>

TestSuite(sys);

Test(sys, failures_are_results_and_errno_stays)
{
	struct stat st;
	uint64_t bytes = 77;
	char buffer[8];

	errno = EXDEV;
	cr_expect(eq(int, ts_sys_open("/proc/nonexistent", O_RDONLY, 0), -ENOENT));
	cr_expect(eq(int, ts_sys_close(-1), -EBADF));
	cr_expect(eq(int, ts_sys_fstat(-1, &st), -EBADF));
	cr_expect(eq(int, ts_sys_stat("/proc/nonexistent", &st), -ENOENT));
	cr_expect(eq(int, (int)ts_sys_read(-1, buffer, 1), -EBADF));
	cr_expect(eq(int, (int)ts_sys_write(-1, buffer, 1), -EBADF));
	cr_expect(eq(int, ts_sys_unlink("/proc/nonexistent"), -ENOENT));
	cr_expect(eq(int, ts_sys_link("/proc/nonexistent", "/nowhere", 0), -ENOENT));
	cr_expect(eq(int, ts_sys_fallocate(-1, 0, 1), -EBADF));
	cr_expect(eq(int, ts_sys_ftruncate(-1, 0), -EBADF));
	cr_expect(eq(int, ts_sys_fcntl(-1, F_GETFD, NULL), -EBADF));
	cr_expect(eq(int, ts_sys_free_bytes(-1, &bytes), -EBADF));
	cr_expect(eq(u64, bytes, 77), "untouched on failure");
	cr_expect(eq(
		int, ts_sys_read_file("/proc/nonexistent", buffer, sizeof(buffer)), -ENOENT));
	cr_expect(eq(int, errno, EXDEV));
}

Test(sys, the_structure_of_fstat_is_the_c_librarys)
{
	NOT_UNDER_VALGRIND("/proc/self/exe is valgrind's");
	NOT_EMULATED("/proc/self/exe is qemu's to stat(2)");
	struct stat ours, theirs;
	int fd = open("/proc/self/exe", O_RDONLY);

	cr_assert(eq(int, fstat(fd, &theirs), 0));
	cr_assert(eq(int, ts_sys_fstat(fd, &ours), 0));
	cr_expect(eq(u64, ours.st_dev, theirs.st_dev));
	cr_expect(eq(u64, ours.st_ino, theirs.st_ino));
	cr_expect(eq(u64, ours.st_mode, theirs.st_mode));
	cr_expect(eq(u64, (uint64_t)ours.st_size, (uint64_t)theirs.st_size));
	close(fd);
	/* Follows links, as stat(2) does. */
	cr_assert(eq(int, ts_sys_stat("/proc/self/exe", &ours), 0));
	cr_expect(eq(u64, ours.st_ino, theirs.st_ino));
}

Test(sys, a_file_is_read_as_far_as_it_fits)
{
	char path[] = "/tmp/tsshim-sys-XXXXXX", buffer[8];
	int fd = mkstemp(path);

	cr_assert(eq(int, (int)write(fd, "1234567890", 10), 10));
	cr_expect(eq(int, ts_sys_read_file(path, buffer, sizeof(buffer)), 7));
	cr_expect(eq(str, buffer, (char *)"1234567"));
	cr_assert(eq(int, ftruncate(fd, 2), 0));
	cr_expect(eq(int, ts_sys_read_file(path, buffer, sizeof(buffer)), 2));
	cr_expect(eq(str, buffer, (char *)"12"));
	cr_assert(eq(int, ftruncate(fd, 0), 0));
	cr_expect(eq(int, ts_sys_read_file(path, buffer, sizeof(buffer)), 0));
	cr_expect(eq(str, buffer, (char *)""));
	close(fd);
	unlink(path);
}

Test(sys, a_futex_is_slept_on_until_the_time_or_not_at_all)
{
	uint32_t word = 1;

	cr_expect(eq(int, ts_sys_futex_wait(&word, 0, UINT64_C(10000000000)), -EAGAIN));
	uint64_t start = ts_now_ns();
	cr_expect(eq(int, ts_sys_futex_wait(&word, 1, 20000000), -ETIMEDOUT));
	cr_expect(ge(u64, ts_now_ns() - start, 20000000));
}

Test(sys, clocks_run)
{
	uint64_t wall = ts_now_ns(), cpu = ts_thread_cpu_ns();

	while (ts_thread_cpu_ns() - cpu < 1000000)
		continue;
	cr_expect(ge(u64, ts_now_ns() - wall, 1000000), "CPU time cannot pass faster");
}

Test(sys, the_clock_of_a_process_runs_while_it_works)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* if the test fails */
		for (;;)
			continue;
	}
	cr_assert(gt(int, pid, 0));
	uint64_t used = ts_process_cpu_ns(pid);
	while (ts_process_cpu_ns(pid) < used + 1000000)
		usleep(100);
	kill(pid, SIGSTOP);
	cr_assert(eq(int, waitpid(pid, NULL, WUNTRACED), pid));
	do { /* it says that it stops a moment before it does */
		used = ts_process_cpu_ns(pid);
		usleep(1000);
	} while (ts_process_cpu_ns(pid) != used);
	cr_expect(ge(u64, used, 1000000));
	kill(pid, SIGKILL);
	cr_assert(eq(int, waitpid(pid, NULL, 0), pid));
	cr_expect(eq(u64, ts_process_cpu_ns(pid), 0), "nobody's");
	cr_expect(eq(u64, ts_process_cpu_ns(0), 0));
}

/* The running hash is the hash of the whole, and stays what it is: it is in shared memory. */

TestSuite(hash);

/* Seed 0 and the default secret; records of an older build must be found under the same key. */
Test(hash, is_xxh3)
{
	struct ts_hash128 hash = ts_hash128("abc", 3);

	cr_expect(eq(u64, ts_hash64("abc", 3), UINT64_C(0x78af5f94892f3950)));
	cr_expect(eq(u64, hash.hi, UINT64_C(0x06b05ab6733a6185)));
	cr_expect(eq(u64, hash.lo, UINT64_C(0x78af5f94892f3950)));
}

Test(hash, pieces_make_no_difference)
{
	static unsigned char data[10000];
	static const size_t steps[] = {1, 7, 64, 255, 256, 257, 1024, 9999, 10000};

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)(i * 31 + i / 256);
	struct ts_hash128 whole = ts_hash128(data, sizeof(data));
	for (size_t s = 0; s < TS_ARRAY_SIZE(steps); s++) {
		struct ts_hasher hasher;
		ts_hasher_init(&hasher);
		for (size_t at = 0; at < sizeof(data); at += steps[s]) {
			size_t left = sizeof(data) - at;
			ts_hasher_add(&hasher, data + at, left < steps[s] ? left : steps[s]);
			/* Looking does not disturb. */
			(void)ts_hasher_digest(&hasher);
		}
		struct ts_hash128 hash = ts_hasher_digest(&hasher);
		cr_expect(eq(u64, hash.lo, whole.lo), "step %zu", steps[s]);
		cr_expect(eq(u64, hash.hi, whole.hi), "step %zu", steps[s]);
	}
}

Test(hash, every_byte_counts)
{
	unsigned char data[300] = {0};
	uint64_t before = ts_hash64(data, sizeof(data));

	for (size_t i = 0; i < sizeof(data); i++) {
		data[i] = 1;
		cr_expect(ne(u64, ts_hash64(data, sizeof(data)), before), "byte %zu", i);
		data[i] = 0;
	}
}

/* Characters of UTF-8: each one of them, and what is none. */

TestSuite(utf8);

/* The sequence of @code, whether it may have one or not: the shortest form, with NUL. */
static unsigned encode(uint32_t code, unsigned char text[5])
{
	unsigned length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	static const uint8_t marks[] = {0, 0, 0xc0, 0xe0, 0xf0};

	memset(text, 0, 5);
	for (unsigned i = length; i-- > 1; code >>= 6)
		text[i] = (unsigned char)(0x80 | (code & 0x3f));
	text[0] = (unsigned char)(marks[length] | code);
	return length;
}

Test(utf8, every_character_has_its_length)
{
	unsigned char text[5];

	for (uint32_t code = 0; code < 0x110000; code++) {
		unsigned length = encode(code, text);
		bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
		cr_assert(eq(u32, ts_utf8_length(text), is_surrogate ? 0 : length), "U+%04X",
			code);
	}
	for (uint32_t code = 0x110000; code < 0x140000; code++) {
		encode(code, text);
		cr_assert(eq(u32, ts_utf8_length(text), 0), "U+%04X", code);
	}
}

Test(utf8, a_sequence_that_is_cut_is_none)
{
	static const uint32_t codes[] = {0x80, 0x7ff, 0x800, 0x20ac, 0xffff, 0x10000, 0x10ffff};
	unsigned char text[5];

	for (size_t i = 0; i < TS_ARRAY_SIZE(codes); i++)
		for (unsigned at = 1, length = encode(codes[i], text); at < length; at++) {
			(void)encode(codes[i], text);
			text[at] = '\0';
			cr_expect(eq(u32, ts_utf8_length(text), 0), "U+%04X", codes[i]);
			text[at] = 'z';
			cr_expect(eq(u32, ts_utf8_length(text), 0), "U+%04X", codes[i]);
			text[at] = 0xc3;
			cr_expect(eq(u32, ts_utf8_length(text), 0), "U+%04X", codes[i]);
		}
}

Test(utf8, longer_forms_and_other_bytes_begin_nothing)
{
	static const char *const none[] = {"\x80", "\xbf\xbf", "\xc0\xaf", "\xc1\xbf",
		"\xe0\x80\xaf", "\xe0\x9f\xbf", "\xf0\x80\x80\xaf", "\xf0\x8f\xbf\xbf",
		"\xf5\x80\x80\x80", "\xf8\x88\x80\x80\x80", "\xfe", "\xff"};

	for (size_t i = 0; i < TS_ARRAY_SIZE(none); i++)
		cr_expect(eq(u32, ts_utf8_length((const unsigned char *)none[i]), 0), "row %zu",
			i);
}

/* Copies past the caches, of all alignments and lengths around a line. */

#define ROOM  10240u
#define GUARD 0xa5

static unsigned char source[ROOM], target[ROOM];

TestSuite(stream);

static void expect_copied(size_t to, size_t from, size_t bytes)
{
	bool right = true;

	memset(target, GUARD, sizeof(target));
	ts_stream_copy(target + to, source + from, bytes);
	for (size_t i = 0; i < ROOM; i++) {
		bool inside = i >= to && i < to + bytes;
		right &= target[i] == (inside ? source[i - to + from] : GUARD);
	}
	cr_expect(right, "%zu bytes from %zu to %zu", bytes, from, to);
}

/* No byte of the source is like the guard, nor like the one a line away. */
static void fill_source(void)
{
	for (size_t i = 0; i < ROOM; i++)
		source[i] = (unsigned char)(i % 163);
}

Test(stream, what_is_asked_for_far_ahead_is_copied_as_well)
{
	fill_source();
	for (size_t bytes = 8100; bytes < 8500; bytes += 7)
		expect_copied(bytes % 64, bytes % 61, bytes);
}

Test(stream, all_bytes_are_copied_and_no_others)
{
	static const size_t lengths[] = {
		0, 1, 2, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 300, 511, 640};

	fill_source();
	for (size_t to = 0; to < 66; to++)
		for (size_t from = 0; from < 66; from += 5)
			for (size_t i = 0; i < TS_ARRAY_SIZE(lengths); i++)
				expect_copied(to, from, lengths[i]);
}

/* Blocks in the place of large frames. */

TestSuite(scratch);

/* More than there are without asking the kernel. */
#define MANY 100

Test(scratch, blocks_lie_apart_however_many)
{
	unsigned char *all[MANY];
	errno = 7;
	for (int i = 0; i < MANY; i++) {
		all[i] = ts_scratch();
		cr_assert_not_null(all[i]);
		cr_expect(eq(int, (int)((uintptr_t)all[i] % 64), 0));
		memset(all[i], i, TS_SCRATCH_BYTES);
	}
	for (int i = 0; i < MANY; i++) {
		cr_expect(eq(int, all[i][0], i));
		cr_expect(eq(int, all[i][TS_SCRATCH_BYTES - 1], i));
		ts_scratch_return(&all[i]);
	}
	cr_expect(eq(int, errno, 7));
}

static void *taken(void)
{
	void *block TS_SCRATCH = ts_scratch();
	return block;
}

Test(scratch, a_block_comes_back_at_the_end_of_its_scope)
{
	void *first = taken(), *none TS_SCRATCH = NULL;
	cr_expect_eq(taken(), first);
	cr_expect_null(none);
}

/* The tables of words: whoever looks for one finds its own row, and no other. */

TestSuite(tables);

Test(tables, each_reason_is_found_by_its_id)
{
	for (int i = 0; i < TS_REASON_COUNT; i++)
		cr_expect(eq(int, (int)ts_reason_find(ts_reasons[i].id), i), "%s",
			ts_reasons[i].id);
	cr_expect(eq(str, (char *)ts_reasons[TS_REASON_ALONE].id, (char *)"alone"));
	cr_expect(eq(str, (char *)ts_reasons[TS_REASON_TORCH_AGAIN].id, (char *)"torch_again"));
}

Test(tables, what_is_no_reason_is_not_found)
{
	static const char *const none[] = {"", "alon", "alone ", "ALONE", "torch_"};

	for (size_t i = 0; i < TS_ARRAY_SIZE(none); i++)
		cr_expect(
			eq(int, (int)ts_reason_find(none[i]), TS_REASON_COUNT), "%s", none[i]);
}

Test(tables, each_kind_has_its_row)
{
	cr_expect(eq(str, (char *)ts_kinds[TS_KIND_PIXELS].id, (char *)"pixels"));
	cr_expect(eq(str, (char *)ts_kinds[TS_KIND_DEVICE].text, (char *)"copies to a GPU"));
}

Test(tables, an_order_that_is_none_has_no_word)
{
	cr_expect(eq(str, (char *)ts_order_word(TS_ORDER_STRICT), (char *)"strict"));
	cr_expect(eq(str, (char *)ts_order_word(TS_ORDER_FREE), (char *)"free"));
	cr_expect(ts_order_word(TS_ORDER_FREE + 1) == NULL, "the list's end");
	cr_expect(ts_order_word(TS_ORDER_FREE + 2) == NULL);
	cr_expect(ts_order_word(UINT64_MAX) == NULL);
}
