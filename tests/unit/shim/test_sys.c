/* SPDX-License-Identifier: MIT */
/* System calls report through their result and leave errno to the host. */
#include "tests/unit/valgrind.h"
#include "fixture.h"

#include "shim/sys.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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
