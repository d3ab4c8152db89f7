/* SPDX-License-Identifier: MIT */
/* System calls, past the C library's newer names and other preloads' hooks. */
#include "shim/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

/* syscall(3) reports through errno, which the host must not see change. */
#define CALL(...)                                   \
	({                                          \
		int saved_errno = errno;            \
		long result = syscall(__VA_ARGS__); \
		if (result < 0)                     \
			result = -errno;            \
		errno = saved_errno;                \
		result;                             \
	})

int ts_sys_open(const char *path, int flags, unsigned mode)
{
	return (int)CALL(SYS_openat, AT_FDCWD, path, flags, mode);
}

int ts_sys_close(int fd)
{
	return (int)CALL(SYS_close, fd);
}

int ts_sys_fstat(int fd, struct stat *ret_stat)
{
	/* The kernel's structure is glibc's on the targets we build for. */
	return (int)CALL(SYS_newfstatat, fd, "", ret_stat, AT_EMPTY_PATH);
}

int ts_sys_stat(const char *path, struct stat *ret_stat)
{
	return (int)CALL(SYS_newfstatat, AT_FDCWD, path, ret_stat, 0);
}

int ts_sys_lstat(const char *path, struct stat *ret_stat)
{
	return (int)CALL(SYS_newfstatat, AT_FDCWD, path, ret_stat, AT_SYMLINK_NOFOLLOW);
}

int ts_sys_stat_at(int directory, const char *path, struct stat *ret_stat)
{
	return (int)CALL(SYS_newfstatat, directory, path, ret_stat, 0);
}

int64_t ts_sys_read(int fd, void *buffer, size_t bytes)
{
	return CALL(SYS_read, fd, buffer, bytes);
}

int64_t ts_sys_write(int fd, const void *buffer, size_t bytes)
{
	return CALL(SYS_write, fd, buffer, bytes);
}

int ts_sys_unlink(const char *path)
{
	return (int)CALL(SYS_unlinkat, AT_FDCWD, path, 0);
}

int ts_sys_link(const char *from, const char *to, int flags)
{
	return (int)CALL(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, flags);
}

int ts_sys_fallocate(int fd, uint64_t offset, uint64_t bytes)
{
	return (int)CALL(SYS_fallocate, fd, 0, (off_t)offset, (off_t)bytes);
}

int ts_sys_ftruncate(int fd, uint64_t bytes)
{
	return (int)CALL(SYS_ftruncate, fd, (off_t)bytes);
}

int ts_sys_fcntl(int fd, int command, void *argument)
{
	return (int)CALL(SYS_fcntl, fd, command, argument);
}

int ts_sys_kill(int pid, int signal)
{
	return (int)CALL(SYS_kill, pid, signal);
}

int ts_sys_flock(int fd, int operation)
{
	return (int)CALL(SYS_flock, fd, operation);
}

int ts_sys_fchmod(int fd, unsigned mode)
{
	return (int)CALL(SYS_fchmod, fd, mode);
}

int ts_sys_rename(const char *from, const char *to)
{
	return (int)CALL(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int ts_sys_mkdir(const char *path, unsigned mode)
{
	return (int)CALL(SYS_mkdirat, AT_FDCWD, path, mode);
}

int ts_sys_rmdir(const char *path)
{
	return (int)CALL(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

int ts_sys_dup3(int from, int to, int flags)
{
	return (int)CALL(SYS_dup3, from, to, flags);
}

int64_t ts_sys_seek(int fd, int64_t offset, int whence)
{
	return CALL(SYS_lseek, fd, offset, whence);
}

int64_t ts_sys_pread(int fd, void *buffer, size_t bytes, uint64_t offset)
{
	return CALL(SYS_pread64, fd, buffer, bytes, (off_t)offset);
}

int ts_sys_read_all(int fd, void *to, uint64_t bytes, uint64_t offset)
{
	for (uint64_t done = 0; done < bytes;) {
		int64_t n = ts_sys_pread(fd, (char *)to + done, bytes - done, offset + done);
		if (n == 0)
			return -ESTALE;
		if (n < 0 && n != -EINTR)
			return (int)n;
		done += n > 0 ? (uint64_t)n : 0;
	}
	return 0;
}

int64_t ts_sys_pwrite(int fd, const void *buffer, size_t bytes, uint64_t offset)
{
	return CALL(SYS_pwrite64, fd, buffer, bytes, (off_t)offset);
}

int ts_sys_futimens(int fd, const struct timespec times[2])
{
	return (int)CALL(SYS_utimensat, fd, NULL, times, 0);
}

void ts_sys_touch(const char *path)
{
	(void)CALL(SYS_utimensat, AT_FDCWD, path, NULL, 0);
}

int ts_sys_statx(int fd, int sync, unsigned wanted, struct statx *ret_stat)
{
	return (int)CALL(SYS_statx, fd, "", sync | AT_EMPTY_PATH, wanted, ret_stat);
}

int ts_sys_look(int fd, int sync, struct stat *ret_stat)
{
	const unsigned wanted =
		STATX_TYPE | STATX_MODE | STATX_INO | STATX_SIZE | STATX_MTIME | STATX_CTIME;
	struct statx found;
	int r = ts_sys_statx(fd, sync, wanted, &found);
	if (r < 0)
		return r;
	*ret_stat = (struct stat){
		.st_dev = makedev(found.stx_dev_major, found.stx_dev_minor),
		.st_ino = found.stx_ino,
		.st_mode = found.stx_mode,
		.st_size = (off_t)found.stx_size,
		.st_mtim = {found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec},
		.st_ctim = {found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec},
	};
	return 0;
}

int ts_sys_find(int directory, const char *name)
{
	struct statx unused;
	const int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;

	return (int)CALL(SYS_statx, directory, name, flags, 0, &unused);
}

int ts_sys_capabilities(uint32_t ret_effective[2])
{
	/* The structures of linux/capability.h, which userspace has to declare by itself. */
	struct {
		uint32_t version;
		int pid;
	} header = {0x20080522, 0}; /* _LINUX_CAPABILITY_VERSION_3 */
	struct {
		uint32_t effective, permitted, inheritable;
	} data[2] = {{0}};
	int r = (int)CALL(SYS_capget, &header, data);

	if (r < 0)
		return r;
	ret_effective[0] = data[0].effective;
	ret_effective[1] = data[1].effective;
	return 0;
}

int64_t ts_sys_working_directory(char *buffer, size_t bytes)
{
	long length = CALL(SYS_getcwd, buffer, bytes);
	return length > 0 ? length - 1 : length;
}

int ts_sys_readlink(const char *path, char *buffer, size_t bytes)
{
	long length = CALL(SYS_readlinkat, AT_FDCWD, path, buffer, bytes);
	if (length < 0)
		return (int)length;
	if ((size_t)length >= bytes)
		return -ENAMETOOLONG;
	buffer[length] = '\0';
	return (int)length;
}

int64_t ts_sys_list(int fd, void *buffer, size_t bytes)
{
	return CALL(SYS_getdents64, fd, buffer, bytes);
}

void ts_sys_will_need(int fd, uint64_t bytes)
{
	(void)CALL(SYS_fadvise64, fd, (off_t)0, (off_t)bytes, POSIX_FADV_WILLNEED);
}

void ts_sys_sequential(int fd)
{
	(void)CALL(SYS_fadvise64, fd, (off_t)0, (off_t)0, POSIX_FADV_SEQUENTIAL);
}

int ts_sys_free_bytes(int fd, uint64_t *ret_bytes)
{
	struct statfs fs;
	long r = CALL(SYS_fstatfs, fd, &fs);
	if (r < 0)
		return (int)r;
	*ret_bytes = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
	return 0;
}

uint64_t ts_sys_memory(void)
{
	struct sysinfo info;

	return CALL(SYS_sysinfo, &info) < 0 ? UINT64_MAX
					    : (uint64_t)info.totalram * info.mem_unit;
}

int ts_sys_file_system(int fd, uint64_t *ret_type)
{
	struct statfs fs;
	long r = CALL(SYS_fstatfs, fd, &fs);
	if (r < 0)
		return (int)r;
	*ret_type = (uint32_t)fs.f_type;
	return 0;
}

#ifdef TS_TEST_BUILD
const struct ts_test_clock *ts_test_clock;
#endif

bool ts_sys_takes_bytes(int fd)
{
	struct pollfd poll = {.fd = fd, .events = POLLOUT};
	struct timespec wait = {0};
	return CALL(SYS_ppoll, &poll, 1, &wait, NULL, 0) == 1 && poll.revents == POLLOUT;
}

int ts_sys_futex_wait(const volatile void *word, uint32_t expected, uint64_t timeout_ns)
{
#ifdef TS_TEST_BUILD
	if (ts_test_clock)
		return ts_test_clock->futex_wait(word, expected, timeout_ns);
#endif
	struct timespec timeout = {
		.tv_sec = (time_t)(timeout_ns / 1000000000u),
		.tv_nsec = (long)(timeout_ns % 1000000000u),
	};
	return (int)CALL(SYS_futex, word, FUTEX_WAIT, expected, &timeout, NULL, 0);
}

void ts_sys_futex_wake(const volatile void *word)
{
	(void)CALL(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

int ts_sys_read_file(const char *path, char *buffer, size_t bytes)
{
	size_t length = 0;
	int fd = ts_sys_open(path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	while (length + 1 < bytes) {
		int64_t n = ts_sys_read(fd, buffer + length, bytes - 1 - length);
		if (n == -EINTR)
			continue;
		if (n <= 0)
			break;
		length += (size_t)n;
	}
	ts_sys_close(fd);
	buffer[length] = '\0';
	return (int)length;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;
	/* Cannot fail for these clocks; through the vDSO where there is one. */
	(void)clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t ts_now_ns(void)
{
#ifdef TS_TEST_BUILD
	if (ts_test_clock)
		return ts_test_clock->now_ns();
#endif
	return clock_ns(CLOCK_MONOTONIC);
}

int64_t ts_real_ns(void)
{
#ifdef TS_TEST_BUILD
	if (ts_test_clock)
		return ts_test_clock->real_ns();
#endif
	return (int64_t)clock_ns(CLOCK_REALTIME);
}

uint64_t ts_thread_cpu_ns(void)
{
#ifdef TS_TEST_BUILD
	if (ts_test_clock)
		return ts_test_clock->thread_cpu_ns();
#endif
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t ts_thread_stretch(void)
{
	char text[64], *at = text;
	uint64_t ns[2] = {0}; /* it ran, it waited: proc_pid_schedstat(5) */

#ifdef TS_TEST_BUILD
	if (ts_test_clock)
		return ts_test_clock->thread_stretch();
#endif
	if (ts_sys_read_file("/proc/thread-self/schedstat", text, sizeof(text)) < 0)
		return 1;
	for (size_t i = 0; i < TS_ARRAY_SIZE(ns); i++, at += *at != '\0')
		for (; *at >= '0' && *at <= '9'; at++)
			ns[i] = ns[i] * 10 + (uint64_t)(*at - '0');
	return ts_min_u64(1 + ns[1] / ts_max_u64(ns[0], 1), TS_STRETCH_MAX);
}

uint64_t ts_process_cpu_ns(int pid)
{
	clockid_t clock;
	struct timespec used;

#ifdef TS_TEST_BUILD
	if (ts_test_clock)
		return ts_test_clock->process_cpu_ns(pid);
#endif
	if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 ||
		clock_gettime(clock, &used) != 0)
		return 0;
	return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}
