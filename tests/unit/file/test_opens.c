/* SPDX-License-Identifier: MIT */
/* The list itself: what makes an item unfit, and when its files have settled. */
#include "fixture.h"

#include "../clock.h"
#include "../valgrind.h"
#include "leader/inputs/age.h"
#include "shim/sys.h"

#include <pthread.h>
#include <sys/wait.h>

TestSuite(opens, .init = folder_make, .fini = folder_remove, .timeout = 60);

static struct ts_opens opens; /* of the test's item */

/* ---- what is listed ---------------------------------------------------------------------- */

Test(opens, nothing_opened)
{
	memset(&opens, 0x55, sizeof(opens));
	ts_opens_begin(&opens);
	cr_expect(eq(int, ts_opens_end(&opens), 0));
	cr_expect(eq(int, ts_opens_end(&opens), 0), "a second end");
	cr_expect(eq(u32, opens.count, 0));
	cr_expect(eq(int, ts_opens_settled(&opens), 0));
	close(open("/", O_RDONLY));
	cr_expect(eq(int, opens.why, 0), "not listed any more");
}

Test(opens, one_entry_for_each_path)
{
	file_write("a", "text");
	cr_assert(symlink("a", "link") == 0);
	ts_opens_begin(&opens);
	close(open(in_folder("a"), O_RDONLY));
	close(open(in_folder("a"), O_RDONLY | O_CLOEXEC));
	close(open("a", O_RDONLY));
	close(open("link", O_RDONLY));
	cr_expect(eq(int, open("absent", O_RDONLY), -1));
	cr_expect(eq(int, open("absent", O_RDONLY), -1));
	cr_expect(eq(int, ts_opens_end(&opens), 0));
	cr_assert(eq(u32, opens.count, 4));
	cr_expect(eq(u64, opens.files[2].identity.inode, opens.files[0].identity.inode));
	cr_expect(eq(u16, opens.files[3].absent, 1));
}

Test(opens, what_is_opened_in_a_pause_is_not_listed)
{
	NOT_EMULATED("files of /proc/self are its own, elsewhere");
	file_write("a", "text");
	file_write("b", "text");
	cr_expect(eq(ptr, ts_opens_pause(), NULL), "nothing to pause");
	ts_opens_resume(NULL);
	ts_opens_begin(&opens);
	close(open(in_folder("a"), O_RDONLY));
	struct ts_opens *paused = ts_opens_pause();
	close(open("/proc/self/maps", O_RDONLY));
	close(open(in_folder("written"), O_WRONLY | O_CREAT, 0600));
	close(open("a", O_RDONLY));
	ts_opens_resume(paused);
	cr_expect(not(ts_opens_saw_relative()));
	close(open(in_folder("b"), O_RDONLY));
	cr_expect(eq(int, ts_opens_end(&opens), 0));
	cr_expect(eq(u32, opens.count, 2));
	ts_opens_begin(&opens);
	ts_opens_resume(ts_opens_pause());
	close(open("/proc/self/maps", O_RDONLY));
	cr_expect(eq(int, ts_opens_end(&opens), -ENODEV), "it goes on");
}

Test(opens, relative_names_are_remembered)
{
	file_write("a", "text");
	close(open("a", O_RDONLY));
	cr_expect(not(ts_opens_saw_relative()), "not listed");
	ts_opens_begin(&opens);
	close(open(in_folder("a"), O_RDONLY));
	cr_expect(eq(int, open("code.py", O_RDONLY), -1));
	cr_expect(not(ts_opens_saw_relative()));
	cr_expect(eq(int, open("absent", O_RDONLY), -1));
	cr_expect(ts_opens_saw_relative(), "what is not there is remembered, too");
	(void)ts_opens_end(&opens);
	cr_expect(ts_opens_saw_relative());
}

Test(opens, a_file_replaced_meanwhile)
{
	file_write("a", "text");
	file_write("b", "text");
	ts_opens_begin(&opens);
	close(open("a", O_RDONLY));
	cr_assert(rename("b", "a") == 0);
	close(open("a", O_RDONLY));
	cr_expect(eq(int, ts_opens_end(&opens), -ESTALE));
	cr_expect(eq(int, ts_opens_settled(&opens), -ESTALE));
	cr_expect(eq(long, ts_opens_encode(&opens, &(char){0}, 1), -ESTALE));
}

Test(opens, a_file_made_meanwhile)
{
	ts_opens_begin(&opens);
	cr_expect(eq(int, open("a", O_RDONLY), -1));
	close(ts_sys_open("a", O_CREAT | O_RDWR, 0600));
	close(open("a", O_RDONLY));
	cr_expect(eq(int, ts_opens_end(&opens), -ESTALE));
}

Test(opens, too_many_files)
{
	ts_opens_begin(&opens);
	for (unsigned i = 0; i <= TS_OPENS_FILES; i++) {
		char name[16];
		cr_expect(eq(int, opens.why, 0));
		snprintf(name, sizeof(name), "f%u", i);
		cr_expect(eq(int, open(name, O_RDONLY), -1));
	}
	cr_expect(eq(int, ts_opens_end(&opens), -E2BIG));
	cr_expect(eq(u32, opens.count, TS_OPENS_FILES));
}

/* A path of @bytes bytes to the file "a", by going through "." again and again. */
static const char *long_path(size_t bytes)
{
	static char path[TS_OPENS_TEXT + 1];
	size_t at = 0;
	for (; at + 3 <= bytes; at += 2)
		memcpy(path + at, "./", 2);
	strcpy(path + at, bytes - at == 2 ? "/a" : "a");
	return path;
}

/* Open the file "a" by names that leave @left bytes of text. */
static void fill_text(uint32_t left)
{
	for (size_t bytes = 2047; TS_OPENS_TEXT - opens.text_used > 2 * 2048; bytes -= 2)
		close(open(long_path(bytes), O_RDONLY));
	close(open(long_path(TS_OPENS_TEXT - opens.text_used - 1 - left), O_RDONLY));
}

Test(opens, too_much_text)
{
	file_write("a", "text");
	ts_opens_begin(&opens);
	fill_text(2);
	cr_expect(eq(u32, opens.text_used, TS_OPENS_TEXT - 2));
	close(open("a", O_RDONLY));
	cr_expect(eq(u32, opens.text_used, TS_OPENS_TEXT));
	cr_expect(eq(int, opens.why, 0));
	close(open(".", O_RDONLY | O_CLOEXEC)); /* no regular file comes first */
	cr_expect(eq(int, ts_opens_end(&opens), -ENODEV));
	ts_opens_begin(&opens);
	fill_text(2);
	uint32_t count = opens.count;
	close(open("./a", O_RDONLY));
	cr_expect(eq(int, ts_opens_end(&opens), -E2BIG));
	cr_expect(eq(u32, opens.count, count));
}

/* ---- what makes an item unfit ------------------------------------------------------------ */

Test(opens, unfit_by_file_and_flags)
{
	NOT_EMULATED("files of /proc/self are its own, elsewhere");
	static const struct {
		char path[32];
		int flags, why;
	} table[] = {
		{"a", O_RDONLY, 0},
		{"a", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOATIME, 0},
		{"a", O_WRONLY, -EROFS},
		{"a", O_RDWR, -EROFS},
		{"a", O_RDONLY | O_TRUNC, -EROFS},
		{"a", O_RDONLY | O_CREAT, -EROFS},
		{"a", O_RDONLY | O_APPEND, -EROFS},
		{".", O_RDWR | O_TMPFILE, -EROFS},
		{"absent", O_WRONLY, -EROFS},
		{"a", O_PATH, -ENODEV},
		{"a", O_NOFOLLOW, -ENODEV},
		{".", O_RDONLY, -ENODEV},
		{".", O_RDONLY | O_DIRECTORY, -ENODEV},
		{"fifo", O_RDONLY | O_NONBLOCK, -ENODEV},
		{"/dev/null", O_RDONLY, -ENODEV},
		{"/dev/urandom", O_RDONLY, -ENODEV},
		{"/proc/self/stat", O_RDONLY, -ENODEV},
		{"/proc/cpuinfo", O_RDONLY, -ENODEV},
		{"/sys/kernel/mm/ksm/run", O_RDONLY, -ENODEV},
		{"a/b", O_RDONLY, -EIO}, /* ENOTDIR */
		{"loop", O_RDONLY, -EIO},
		{"", O_RDONLY, -ENODEV},
	};
	file_write("a", "text");
	cr_assert(mkfifo("fifo", 0600) == 0 && symlink("loop", "loop") == 0);
	for (size_t i = 0; i < TS_ARRAY_SIZE(table); i++) {
		if (strncmp(table[i].path, "/sys", 4) == 0 && access(table[i].path, R_OK) != 0)
			continue; /* a container without it: /proc has shown the rule */
		ts_opens_begin(&opens);
		int fd = open(table[i].path, table[i].flags, 0600);
		cr_expect(eq(int, ts_opens_end(&opens), table[i].why), "%s with 0%o",
			table[i].path, table[i].flags);
		char told[64];
		ts_opens_tell(&opens, told, sizeof(told));
		size_t length = table[i].why ? strlen(table[i].path) : 0;
		cr_expect(strncmp(told, table[i].path, length) == 0 &&
				  (told[length] == (table[i].why ? ',' : '\0') || length == 0),
			"%s: %s", table[i].path, told);
		if (fd >= 0)
			close(fd);
	}
}

Test(opens, relative_to_a_directory)
{
	int directory = open("/", O_RDONLY | O_DIRECTORY);
	file_write("a", "text");
	ts_opens_begin(&opens);
	close(openat(directory, in_folder("a"), O_RDONLY));
	cr_expect(eq(int, ts_opens_end(&opens), 0), "an absolute path is one anywhere");
	ts_opens_begin(&opens);
	close(openat(directory, in_folder("a") + 1, O_RDONLY));
	cr_expect(eq(int, ts_opens_end(&opens), -EXDEV));
	close(directory);
}

Test(opens, the_first_reason_stays)
{
	file_write("a", "text");
	ts_opens_begin(&opens);
	close(open("/dev/null", O_RDONLY));
	close(open("a", O_RDWR));
	close(open("a", O_RDONLY));
	cr_expect(eq(int, ts_opens_end(&opens), -ENODEV));
	cr_expect(eq(int, item_reads(&opens, "a"), 0), "and goes with the next item");
}

Test(opens, nested)
{
	struct ts_opens outer, inner;
	file_write("a", "text");
	ts_opens_begin(&outer);
	cr_expect(eq(int, item_reads(&inner, "a"), -EALREADY));
	cr_expect(eq(int, ts_opens_end(&outer), 0));
	cr_expect(eq(u32, outer.count, 1));
	ts_opens_begin(&outer);
	ts_opens_begin(&outer); /* the same one anew */
	cr_expect(eq(int, ts_opens_end(&outer), 0));
}

static void *end_it(void *item)
{
	return (void *)(intptr_t)ts_opens_end(item);
}

Test(opens, ended_by_another_thread)
{
	pthread_t thread;
	void *result;
	ts_opens_begin(&opens);
	pthread_create(&thread, NULL, end_it, &opens);
	pthread_join(thread, &result);
	cr_expect(eq(int, (int)(intptr_t)result, -EINVAL));
	close(open("/", O_RDONLY));
	cr_expect(ts_opens_armed == NULL, "disarmed by the next open at the latest");
}

Test(opens, opened_by_a_signal_handler_meanwhile)
{
	file_write("a", "text");
	ts_opens_begin(&opens);
	opens.busy = 1; /* what a handler would find */
	close(open("a", O_RDONLY));
	cr_expect(eq(int, ts_opens_end(&opens), -EBUSY));
}

/* ---- children ---------------------------------------------------------------------------- */

Test(opens, fork_child_opens)
{
	int status;
	file_write("a", "text");
	ts_opens_begin(&opens);
	pid_t child = fork();
	if (child == 0) {
		struct ts_opens own;
		bool fresh = item_reads(&own, "a") == 0;
		close(open("a", O_RDONLY));
		_exit(fresh && opens.why == 0 ? 0 : 1);
	}
	cr_assert(waitpid(child, &status, 0) == child);
	cr_expect(eq(int, status, 0), "a child may make items of its own");
	child = fork();
	if (child == 0) {
		close(open("a", O_RDONLY));
		_exit(opens.why == -ECHILD && !ts_opens_armed ? 0 : 1);
	}
	cr_assert(waitpid(child, &status, 0) == child);
	cr_expect(eq(int, status, 0), "the child's copy is unfit");
	cr_expect(eq(int, ts_opens_end(&opens), 0), "the parent's is not");
}

Test(opens, vfork_child_opens)
{
	NOT_EMULATED("vfork is a fork");
	static const char *path;
	int status;
	NOT_UNDER_VALGRIND("vfork is fork there");
	file_write("a", "text");
	path = in_folder("a");
	ts_opens_begin(&opens);
	pid_t child = vfork();
	if (child == 0) {
		int fd = open(path, O_RDONLY);
		_exit(fd >= 0 ? 0 : 1);
	}
	cr_assert(waitpid(child, &status, 0) == child);
	cr_expect(eq(int, status, 0));
	cr_expect(eq(int, ts_opens_end(&opens), -ECHILD));
	cr_expect(eq(int, item_reads(&opens, "a"), 0), "the next item is as usual");
}

/* ---- settled ----------------------------------------------------------------------------- */

/* The clock stands @ns behind the last change of "a", whose times are to the nanosecond. */
static void change_was(int64_t ns)
{
	struct stat stat;
	do {
		file_write("a", "text");
		cr_assert(ts_sys_stat("a", &stat) == 0);
	} while (stat.st_ctim.tv_nsec == 0);
	clock_begin();
	clock_set(ts_age_ns(stat.st_ctim) + ns);
}

/* What a near file has to be old, or any other where the test's folder lies on such. */
static int64_t age_wanted(void)
{
	return (opens.files[0].is_near ? 2 : 60) * INT64_C(1000000000);
}

Test(opens, files_settle_when_their_last_change_is_old)
{
	change_was(0);
	cr_expect(eq(int, item_reads(&opens, "a"), 0));
	int64_t age = age_wanted();
	for (int64_t off = -1; off <= 1; off++) {
		change_was(age + off);
		cr_expect(eq(int, item_reads(&opens, "a"), 0));
		cr_expect(eq(int, ts_opens_settled(&opens), off < 0 ? -EAGAIN : 0), "%d",
			(int)off);
	}
}

Test(opens, time_that_passes_while_an_item_is_made_is_no_age)
{
	change_was(1);
	ts_opens_begin(&opens);
	close(open("a", O_RDONLY));
	clock_pass(UINT64_C(3600000000000));
	cr_expect(eq(int, ts_opens_end(&opens), 0));
	cr_expect(eq(int, ts_opens_settled(&opens), -EAGAIN));
	cr_expect(eq(int, item_reads(&opens, "a"), 0));
	cr_expect(eq(int, ts_opens_settled(&opens), 0), "the next item may have it");
}

/* On most kernels the second write gives the file the times that it has already. */
Test(opens, a_file_written_again_within_the_tick_has_not_settled)
{
	for (unsigned turn = 0; turn < 50; turn++) {
		change_was(1);
		cr_expect(eq(int, item_reads(&opens, "a"), 0));
		file_write("a", "else");
		clock_pass(UINT64_C(3600000000000));
		cr_expect(lt(int, ts_opens_settled(&opens), 0));
	}
}

Test(opens, what_counts_is_the_change_of_the_inode)
{
	const time_t seconds[] = {1000000000, 4000000000, 1LL << 33};
	for (size_t i = 0; i < TS_ARRAY_SIZE(seconds); i++) {
		const struct timespec times[2] = {{seconds[i], 5}, {seconds[i], 5}};
		clock_end();
		file_write("a", "text");
		cr_assert(utimensat(AT_FDCWD, "a", times, 0) == 0);
		clock_begin();
		cr_expect(eq(int, item_reads(&opens, "a"), 0));
		cr_expect(eq(int, ts_opens_settled(&opens), -EAGAIN), "by ctime");
		clock_pass(UINT64_C(61000000000));
		cr_expect(eq(int, item_reads(&opens, "a"), 0));
		/* Elsewhere a time of the future is no age. */
		bool is_old = opens.files[0].is_near || i == 0;
		cr_expect(eq(int, ts_opens_settled(&opens), is_old ? 0 : -EAGAIN));
	}
}

Test(opens, a_clock_that_was_set_back_makes_files_young)
{
	change_was(-INT64_C(3600000000000));
	cr_expect(eq(int, item_reads(&opens, "a"), 0));
	cr_expect(eq(int, ts_opens_settled(&opens), -EAGAIN), "of the future");
	clock_pass(UINT64_C(3661000000000));
	cr_expect(eq(int, item_reads(&opens, "a"), 0));
	cr_expect(eq(int, ts_opens_settled(&opens), 0));
}

enum change { REPLACE, APPEND, TOUCH, CHMOD, REMOVE, DIRECTORY, CHANGE_COUNT };

static void change_file(enum change change)
{
	const struct timespec now[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
	file_clock_ticks();
	switch (change) {
	case REPLACE:
		file_write("b", "text");
		cr_assert(rename("b", "a") == 0);
		break;
	case APPEND:
		file_write("a", "longer text");
		break;
	case TOUCH:
		cr_assert(utimensat(AT_FDCWD, "a", now, 0) == 0);
		break;
	case CHMOD:
		cr_assert(chmod("a", 0640) == 0);
		break;
	case DIRECTORY:
		cr_assert(unlink("a") == 0 && mkdir("a", 0700) == 0);
		break;
	default:
		cr_assert(unlink("a") == 0);
	}
}

Test(opens, changed_files_have_not_settled)
{
	for (enum change change = 0; change < CHANGE_COUNT; change++) {
		change_was(INT64_C(3600000000000));
		cr_expect(eq(int, item_reads(&opens, "a"), 0));
		cr_expect(eq(int, ts_opens_settled(&opens), 0));
		change_file(change);
		cr_expect(eq(int, ts_opens_settled(&opens), -ESTALE), "change %d", change);
	}
}

Test(opens, a_path_that_the_kernel_could_not_read_is_not_read)
{
	char told[64];
	ts_opens_begin(&opens);
	errno = EFAULT;
	ts_opens_note(&opens, AT_FDCWD, (const char *)(uintptr_t)1, O_RDONLY, -1, NULL);
	cr_expect(eq(int, errno, EFAULT));
	cr_expect(eq(int, ts_opens_end(&opens), -EIO));
	ts_opens_tell(&opens, told, sizeof(told));
	cr_expect(eq(str, told, (char *)"could not be opened"));
}

Test(opens, what_was_absent_is_to_be_absent)
{
	cr_expect(eq(int, item_reads(&opens, "a"), 0));
	cr_expect(eq(int, ts_opens_settled(&opens), 0));
	file_write("a", "text");
	cr_expect(eq(int, ts_opens_settled(&opens), -ESTALE));
}
