/* SPDX-License-Identifier: MIT */
/* Each call of the open family, as this program finds it: ours, linked into it. */
#include "fixture.h"
#include "hooks/file/next.h"
#include "shim/atomic.h"
#include "shim/elf.h"
#include "leader/inputs/age.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

TestSuite(calls, .init = folder_make, .fini = folder_remove, .timeout = 60);

/* Of the test's item; not on a stack, as a cancelled one looks damaged to AddressSanitizer. */
static struct ts_opens opens;

/* The open family, and the names of its calls here. */
#define OPENS(X)                    \
	X(open, open)               \
	X(open64, open64)           \
	X(openat, openat)           \
	X(openat64, openat64)       \
	X(__open_2, open_2)         \
	X(__open64_2, open64_2)     \
	X(__openat_2, openat_2)     \
	X(__openat64_2, openat64_2) \
	X(creat, creat)             \
	X(creat64, creat64)         \
	X(fopen, fopen)             \
	X(fopen64, fopen64)         \
	X(freopen, freopen)         \
	X(freopen64, freopen64)

/* Every call as open(path, flags, mode), by its place in the list. */
enum call {
#define TS_X(symbol, name) CALL_##name,
	OPENS(TS_X)
#undef TS_X
		CALL_COUNT
};

static const char *const names[] = {
#define TS_X(symbol, name) #symbol,
	OPENS(TS_X)
#undef TS_X
};

static int stream_fd(FILE *stream)
{
	int fd = stream ? dup(fileno(stream)) : -1;
	if (stream)
		fclose(stream);
	return fd;
}

/* A failing freopen closes its stream, but nothing may free it: kept for the leak checker. */
static FILE *some_stream(void)
{
	static FILE *kept[16];
	static unsigned count;
	cr_assert(lt(u32, count, 16));
	return kept[count++] = fdopen(dup(STDERR_FILENO), "w");
}

static int call(enum call which, const char *path, int flags, mode_t mode)
{
	const char *letters = flags & O_CREAT ? "w" : "rb";
	switch (which) {
	case CALL_open:
		return open(path, flags, mode);
	case CALL_open64:
		return open64(path, flags, mode);
	case CALL_openat:
		return openat(AT_FDCWD, path, flags, mode);
	case CALL_openat64:
		return openat64(AT_FDCWD, path, flags, mode);
	case CALL_open_2:
		return __open_2(path, flags);
	case CALL_open64_2:
		return __open64_2(path, flags);
	case CALL_openat_2:
		return __openat_2(AT_FDCWD, path, flags);
	case CALL_openat64_2:
		return __openat64_2(AT_FDCWD, path, flags);
	case CALL_creat:
		return creat(path, mode);
	case CALL_creat64:
		return creat64(path, mode);
	case CALL_fopen:
		return stream_fd(fopen(path, letters));
	case CALL_fopen64:
		return stream_fd(fopen64(path, letters));
	case CALL_freopen:
		return stream_fd(freopen(path, letters, some_stream()));
	case CALL_freopen64:
		return stream_fd(freopen64(path, letters, some_stream()));
	default:
		return -1;
	}
}

static bool only_writes(enum call which)
{
	return which == CALL_creat || which == CALL_creat64;
}

/* Its real counterpart aborts when it is to make a file without a mode. */
static bool only_reads(enum call which)
{
	return which >= CALL_open_2 && which <= CALL_openat64_2;
}

Test(calls, listed_by_every_name)
{
	file_write("a", "text");
	for (enum call which = 0; which < CALL_COUNT; which++) {
		char letter = 0;
		if (only_writes(which))
			continue;
		ts_opens_begin(&opens);
		int fd = call(which, in_folder("a"), O_RDONLY, 0);
		cr_expect(eq(int, ts_opens_end(&opens), 0), "%s", names[which]);
		cr_expect(eq(long, read(fd, &letter, 1), 1), "%s", names[which]);
		cr_expect(eq(chr, letter, 't'), "%s", names[which]);
		close(fd);
		cr_assert(eq(u32, opens.count, 1), "%s", names[which]);
		cr_expect(eq(str, opens.text, (char *)in_folder("a")), "%s", names[which]);
		cr_expect(eq(u64, opens.files[0].identity.bytes, 4), "%s", names[which]);
	}
}

Test(calls, writing_by_every_name)
{
	umask(0);
	for (enum call which = 0; which < CALL_COUNT; which++) {
		struct stat stat;
		mode_t mode = names[which][0] == 'f' ? 0666 : 0642;
		if (only_reads(which))
			continue;
		for (int listed = 0; listed < 2; listed++) {
			if (listed)
				ts_opens_begin(&opens);
			int fd = call(which, in_folder("w"), O_CREAT | O_RDWR, 0642);
			if (listed)
				cr_expect(eq(int, ts_opens_end(&opens), -EROFS), "%s",
					names[which]);
			cr_expect(eq(int, fstat(fd, &stat), 0), "%s", names[which]);
			cr_expect(eq(u32, stat.st_mode & 0777, mode), "%s", names[which]);
			close(fd);
			unlink("w");
		}
	}
}

Test(calls, mode_of_a_nameless_file)
{
	struct stat stat;
	umask(0);
	int fd = open(in_folder("."), O_TMPFILE | O_RDWR, 0604);
	if (fd < 0 && errno == EOPNOTSUPP)
		return; /* the file system's business; the flag is passed on as others are */
	cr_assert(eq(int, fstat(fd, &stat), 0));
	cr_expect(eq(u32, stat.st_mode & 0777, 0604));
	close(fd);
}

Test(calls, failures_are_the_real_ones)
{
	for (enum call which = 0; which < CALL_COUNT; which++) {
		for (int listed = 0; listed < 2; listed++) {
			if (listed)
				ts_opens_begin(&opens);
			errno = 0;
			int fd = call(which, in_folder("no/such"), O_RDONLY, 0);
			cr_expect(eq(int, errno, ENOENT), "%s", names[which]);
			cr_expect(eq(int, fd, -1), "%s", names[which]);
			if (listed)
				ts_opens_end(&opens);
		}
	}
}

Test(calls, errno_of_others_stays)
{
	file_write("a", "text");
	ts_opens_begin(&opens);
	errno = EXFULL;
	int fd = open(in_folder("a"), O_RDONLY);
	cr_expect(eq(int, errno, EXFULL));
	cr_expect(eq(int, ts_opens_end(&opens), 0));
	close(fd);
}

Test(calls, streams_by_their_mode)
{
	static const struct {
		char mode[16];
		int why;
	} table[] = {{"r", 0}, {"rb", 0}, {"rme", 0}, {"r+", -EROFS}, {"rb+", -EROFS},
		{"a", -EROFS}, {"a+", -EROFS}, {"w", -EROFS}, {"wx", -EROFS}, {"?", -EROFS}};
	for (size_t i = 0; i < TS_ARRAY_SIZE(table); i++) {
		file_write("a", "text");
		ts_opens_begin(&opens);
		FILE *file = fopen(in_folder("a"), table[i].mode);
		cr_expect(eq(int, ts_opens_end(&opens), table[i].why), "%s", table[i].mode);
		if (file)
			fclose(file);
	}
}

static void *open_there(void *path)
{
	int fd = open(path, O_RDONLY);
	close(fd);
	return NULL;
}

Test(calls, other_threads_are_not_listed)
{
	pthread_t thread;
	file_write("a", "text");
	ts_opens_begin(&opens);
	pthread_create(&thread, NULL, open_there, (void *)in_folder("a"));
	pthread_join(thread, NULL);
	cr_expect(eq(int, ts_opens_end(&opens), 0));
	cr_expect(eq(u32, opens.count, 0));
}

static _Atomic int opener;

/* Whether the thread that is about to open a FIFO waits there; proc(5), the state in stat. */
static bool opener_sleeps(void)
{
	char path[64], state = 'R';
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", ts_load_acquire(&opener));
	FILE *file = ts_load_acquire(&opener) ? fopen(path, "r") : NULL;
	if (file) {
		(void)!fscanf(file, "%*[^)]) %c", &state);
		fclose(file);
	}
	return state == 'S';
}

static void *open_until_cancelled(void *fifo)
{
	ts_opens_begin(&opens);
	ts_write_release(&opener, (int)syscall(SYS_gettid));
	int fd = open(fifo, O_RDONLY); /* nobody ever writes */
	ts_opens_end(&opens);
	return fd < 0 ? NULL : fifo;
}

Test(calls, can_be_cancelled)
{
	pthread_t thread;
	void *result = NULL;
	cr_assert(mkfifo("fifo", 0600) == 0);
	pthread_create(&thread, NULL, open_until_cancelled, (void *)in_folder("fifo"));
	while (!opener_sleeps())
		usleep(1000);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	cr_expect(result == PTHREAD_CANCELED);
}

static bool is_in_this_program(const void *address)
{
	struct ts_elf_object here, there;
	cr_assert(ts_elf_containing((uintptr_t)&is_in_this_program, &here));
	cr_assert(ts_elf_containing((uintptr_t)address, &there));
	return here.dynamic == there.dynamic;
}

Test(calls, next_definition_is_another_object)
{
#define TS_X(symbol, name)                                                \
	cr_expect(is_in_this_program((const void *)symbol), "%s", #name); \
	cr_expect(is_in_this_program((const void *)ts_file_next.symbol) == false, "%s", #name);
	OPENS(TS_X)
#undef TS_X
}

/* How old a file has to be, by where its times come from and what they are. */

#define S   INT64_C(1000000000)
#define NOW (1700000000 * S + 123456789)

Test(age, where_times_come_from)
{
	static const struct {
		uint64_t type;
		bool is_near;
	} table[] = {
		{0xef53, true},      /* ext4 */
		{0x58465342, true},  /* XFS */
		{0x9123683e, true},  /* Btrfs */
		{0x01021994, true},  /* tmpfs */
		{0x794c7630, true},  /* overlayfs */
		{0x6969, false},     /* NFS */
		{0x65735546, false}, /* FUSE */
		{0x01021997, false}, /* 9p */
		{0xff534d42, false}, /* CIFS */
		{0x0bd00bd0, false}, /* Lustre */
		{0x4d44, false},     /* FAT: two seconds */
		{0x2fc12fc1, false}, /* ZFS */
		{0, false},
		{UINT64_MAX, false},
	};
	for (size_t i = 0; i < TS_ARRAY_SIZE(table); i++)
		cr_expect(eq(int, ts_age_is_near(table[i].type), table[i].is_near), "%zu", i);
}

Test(age, when_a_file_is_young)
{
	static const struct {
		const char *what;
		bool is_near;
		int64_t modified_ns, changed_ns;
		bool is_young;
	} table[] = {
		{"just written", true, NOW, NOW, true},
		{"within two seconds", true, NOW - 2 * S + 1, NOW - 2 * S + 1, true},
		{"two seconds ago", true, NOW - 2 * S, NOW - 2 * S, false},
		{"written and set back", true, 0, NOW - S, true},
		{"written then, of the future", true, NOW + 9 * S, NOW - 3 * S, false},
		{"the clock was set back", true, NOW + S, NOW + S, true},
		{"times of no year", true, INT64_MAX, INT64_MAX, true},
		{"whole seconds, 59 ago", true, NOW / S * S - 59 * S, NOW / S * S - 59 * S,
			true},
		{"whole seconds, 60 ago", true, NOW / S * S - 60 * S, NOW / S * S - 60 * S,
			false},
		{"whole seconds, of the future", true, NOW + 9 * S, NOW / S * S - 90 * S, true},
		{"far, within a minute", false, NOW - 60 * S + 1, NOW - 60 * S + 1, true},
		{"far, a minute ago", false, NOW - 60 * S, NOW - 60 * S, false},
		{"far, without times of change", false, NOW - S, 1, true},
		{"far, set back", false, 1, NOW - S, true},
		{"far, of the future", false, NOW + 9 * S, NOW - 90 * S, true},
	};
	for (size_t i = 0; i < TS_ARRAY_SIZE(table); i++)
		cr_expect(eq(int,
				  ts_age_is_young(table[i].is_near, table[i].modified_ns,
					  table[i].changed_ns, NOW),
				  table[i].is_young),
			"%s", table[i].what);
}

Test(age, times_saturate)
{
	cr_expect(eq(long, ts_age_ns((struct timespec){1, 2}), S + 2));
	cr_expect(eq(long, ts_age_ns((struct timespec){-1, 2}), 2 - S));
	cr_expect(eq(long, ts_age_ns((struct timespec){1LL << 40, 0}), INT64_MAX));
	cr_expect(eq(long, ts_age_ns((struct timespec){-(1LL << 40), 0}), INT64_MIN));
}

/* The list as bytes of a record, and what a reader makes of them. */

TestSuite(check, .init = folder_make, .fini = folder_remove, .timeout = 60);

static unsigned char record[TS_OPENS_ENCODED_MAX];

/* What a producer that opens @path writes into its record; the number of bytes. */
static size_t produce(const char *path)
{
	cr_assert(eq(int, item_reads(&opens, path), 0));
	int64_t size = ts_opens_encode(&opens, record, sizeof(record));
	cr_assert(gt(long, size, 0));
	return (size_t)size;
}

Test(check, same_files)
{
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
	ts_opens_begin(&opens);
	cr_assert(eq(int, ts_opens_end(&opens), 0));
	cr_assert(eq(long, ts_opens_encode(&opens, record, sizeof(record)), 8));
	cr_expect(eq(int, ts_opens_check(record, 8), 0));
}

Test(check, largest_list)
{
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
