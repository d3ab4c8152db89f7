/* SPDX-License-Identifier: MIT */
/* System calls made directly, past whatever other preloads have hooked. */
#include "shim/sys.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

static_assert(sizeof(struct stat) == 144 || sizeof(struct stat) == 128,
	"the kernel's struct stat is the C library's on x86_64 and aarch64 only");

/*
 * syscall(2) reports through errno, which belongs to the host's code: put it back and hand
 * the reason out as a value.  A macro, because the calls differ in their number of arguments.
 */
#define call(...)                                                                                 \
	({                                                                                         \
		int saved_ = errno;                                                                \
		long result_ = syscall(__VA_ARGS__);                                               \
		if (result_ < 0)                                                                   \
			result_ = -(long)errno;                                                    \
		errno = saved_;                                                                    \
		result_;                                                                           \
	})

int ts_sys_open(const char *path, int flags, unsigned mode)
{
	return (int)call(SYS_openat, AT_FDCWD, path, flags, mode);
}

int ts_sys_close(int fd)
{
	return (int)call(SYS_close, fd);
}

int ts_sys_fstat(int fd, struct stat *ret_stat)
{
	struct stat st;
	int r = (int)call(SYS_fstat, fd, &st);

	if (r == 0)
		*ret_stat = st;
	return r;
}

int ts_sys_stat(const char *path, struct stat *ret_stat)
{
	struct stat st;
	int r = (int)call(SYS_newfstatat, AT_FDCWD, path, &st, 0);

	if (r == 0)
		*ret_stat = st;
	return r;
}

int64_t ts_sys_read(int fd, void *buffer, size_t bytes)
{
	return call(SYS_read, fd, buffer, bytes);
}

int64_t ts_sys_write(int fd, const void *buffer, size_t bytes)
{
	return call(SYS_write, fd, buffer, bytes);
}

int ts_sys_unlink(const char *path)
{
	return (int)call(SYS_unlinkat, AT_FDCWD, path, 0);
}

int ts_sys_link(const char *from, const char *to)
{
	return (int)call(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int ts_sys_fallocate(int fd, uint64_t offset, uint64_t bytes)
{
	return (int)call(SYS_fallocate, fd, 0, (long)offset, (long)bytes);
}

int ts_sys_ftruncate(int fd, uint64_t bytes)
{
	return (int)call(SYS_ftruncate, fd, (long)bytes);
}

int ts_sys_fcntl(int fd, int command, void *argument)
{
	return (int)call(SYS_fcntl, fd, command, argument);
}

int ts_sys_kill(int pid, int signal)
{
	return (int)call(SYS_kill, pid, signal);
}

int ts_sys_free_bytes(int fd, uint64_t *ret_bytes)
{
	struct statfs fs;
	int r = (int)call(SYS_fstatfs, fd, &fs);

	if (r == 0)
		*ret_bytes = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
	return r;
}

int ts_sys_futex_wait(const volatile void *word, uint32_t expected, uint64_t timeout_ns)
{
	struct timespec timeout = {
		.tv_sec = (time_t)(timeout_ns / 1000000000u),
		.tv_nsec = (long)(timeout_ns % 1000000000u),
	};

	/* Without FUTEX_PRIVATE_FLAG: the sleepers are in other processes. */
	return (int)call(SYS_futex, word, FUTEX_WAIT, expected, &timeout, NULL, 0);
}

void ts_sys_futex_wake(const volatile void *word)
{
	(void)call(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

int ts_sys_read_file(const char *path, char *buffer, size_t bytes)
{
	size_t length = 0;
	int64_t n = 0;
	int fd;

	if (bytes == 0)
		return -EINVAL;
	fd = ts_sys_open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
	if (fd < 0)
		return fd;
	while (length < bytes - 1) {
		n = ts_sys_read(fd, buffer + length, bytes - 1 - length);
		if (n == -EINTR)
			continue;
		if (n <= 0)
			break;
		length += (size_t)n;
	}
	ts_sys_close(fd);
	buffer[length] = '\0';
	return n < 0 ? (int)n : (int)length;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now = {0, 0};
	int saved = errno;

	clock_gettime(clock, &now);
	errno = saved;
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t ts_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t ts_thread_cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}
