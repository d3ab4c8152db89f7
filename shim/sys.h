/* SPDX-License-Identifier: MIT */
/*
 * System calls whose C library names are newer than glibc 2.28, or that other preloads hook.
 *
 * libtsshim.so must load in every process of every container it is preloaded into, so it
 * may only reference symbols up to GLIBC_2.28 (tests/abi).  fstat and friends became real
 * symbols in 2.33, dlsym moved to libc.so.6 in 2.34: those go through here.
 * All return -errno on failure and leave errno alone.
 */
#ifndef TS_SHIM_SYS_H
#define TS_SHIM_SYS_H

#include "shim/base.h"

#include <sys/stat.h>
#include <time.h>

int ts_sys_open(const char *path, int flags, unsigned mode);
int ts_sys_close(int fd);
int ts_sys_fstat(int fd, struct stat *ret_stat);
int ts_sys_stat(const char *path, struct stat *ret_stat);
int ts_sys_stat_at(int directory, const char *path, struct stat *ret_stat);
int ts_sys_lstat(const char *path, struct stat *ret_stat);
int64_t ts_sys_read(int fd, void *buffer, size_t bytes);
int64_t ts_sys_write(int fd, const void *buffer, size_t bytes);
int ts_sys_unlink(const char *path);
int ts_sys_link(const char *from, const char *to, int flags);
int ts_sys_fallocate(int fd, uint64_t offset, uint64_t bytes);
int ts_sys_ftruncate(int fd, uint64_t bytes);
int ts_sys_fcntl(int fd, int command, void *argument);
int ts_sys_kill(int pid, int signal);

int ts_sys_flock(int fd, int operation);
int ts_sys_fchmod(int fd, unsigned mode);
int ts_sys_rename(const char *from, const char *to);
int ts_sys_mkdir(const char *path, unsigned mode);
int ts_sys_rmdir(const char *path);
int ts_sys_dup3(int from, int to, int flags);
int64_t ts_sys_seek(int fd, int64_t offset, int whence);
int64_t ts_sys_pread(int fd, void *buffer, size_t bytes, uint64_t offset);

/** The same, until all is read. Errors: those of pread(2) but -EINTR; -ESTALE @fd is shorter.
 */
int ts_sys_read_all(int fd, void *to, uint64_t bytes, uint64_t offset);

int64_t ts_sys_pwrite(int fd, const void *buffer, size_t bytes, uint64_t offset);

/** Both times of the last use and change of @fd; NULL: now. */
int ts_sys_futimens(int fd, const struct timespec times[2]);

/** Set the times of @path to now, which who watches it by inotify(7) is told of. */
void ts_sys_touch(const char *path);

/** The @wanted (STATX_*) attributes of @fd, as fresh as @sync (AT_STATX_*) asks for. */
int ts_sys_statx(int fd, int sync, unsigned wanted, struct statx *ret_stat);

/**
 * What there is to know of a file that may be ours, as fresh as @sync (AT_STATX_*) asks for.
 * Without the time of its last use: where somebody has read it since, FUSE would have to ask
 * the storage for that.  Errors: those of statx(2).
 */
int ts_sys_look(int fd, int sync, struct stat *ret_stat);

/** Find @name in @directory, without following it or asking for its attributes. */
int ts_sys_find(int directory, const char *name);

/** The effective capabilities of this thread: two words of bits, see capabilities(7). */
int ts_sys_capabilities(uint32_t ret_effective[2]);

/** Path of the working directory, NUL-terminated; returns its length. */
int64_t ts_sys_working_directory(char *buffer, size_t bytes);

/** Target of a symbolic link, NUL-terminated; returns its length. -ENAMETOOLONG: cut. */
int ts_sys_readlink(const char *path, char *buffer, size_t bytes);

/** Entries of the directory @fd as the kernel writes them (getdents64(2)); returns bytes. */
int64_t ts_sys_list(int fd, void *buffer, size_t bytes);

/** Tell the kernel that all of @fd will be read soon; that it is read from front to end. */
void ts_sys_will_need(int fd, uint64_t bytes);
void ts_sys_sequential(int fd);

/** Free bytes of the file system of @fd for us. */
int ts_sys_free_bytes(int fd, uint64_t *ret_bytes);

/** Bytes of memory of the machine; UINT64_MAX where it does not say. */
uint64_t ts_sys_memory(void);

/** Kind of file system that @fd lies on: a number of linux/magic.h; older ones lack FUSE's. */
#define TS_FUSE 0x65735546
int ts_sys_file_system(int fd, uint64_t *ret_type);

/** Whether @fd takes at least some bytes at once: it is not full, and somebody may read it. */
bool ts_sys_takes_bytes(int fd);

/** Sleep while *word == expected, at most @timeout_ns; shared between processes. */
int ts_sys_futex_wait(const volatile void *word, uint32_t expected, uint64_t timeout_ns);
void ts_sys_futex_wake(const volatile void *word);

/** Read a whole small file; NUL-terminated. Returns its length. */
int ts_sys_read_file(const char *path, char *buffer, size_t bytes);

/** Monotonic wall time, and CPU time of this thread, in nanoseconds. */
uint64_t ts_now_ns(void);
uint64_t ts_thread_cpu_ns(void);

/** Nanoseconds since 1970, on the clock that files get their times from. It may be set. */
int64_t ts_real_ns(void);

/** CPU time of all threads of process @pid, of anybody's; 0 where there is none. */
uint64_t ts_process_cpu_ns(int pid);

/**
 * How many times its CPU time this thread was at work for, waiting for a CPU included, in its
 * life so far: 1 where CPUs are free, or the kernel does not say; TS_STRETCH_MAX at most.
 */
#define TS_STRETCH_MAX 100u
uint64_t ts_thread_stretch(void);

#ifdef TS_TEST_BUILD
/**
 * What stands in the place of the machine's clocks and of sleeping where a test sets it, before
 * there is a second thread (tests/unit/clock.h).  The library that is installed has none.
 */
struct ts_test_clock {
	uint64_t (*now_ns)(void);
	int64_t (*real_ns)(void);
	uint64_t (*thread_cpu_ns)(void);
	uint64_t (*process_cpu_ns)(int pid);
	uint64_t (*thread_stretch)(void);
	int (*futex_wait)(const volatile void *word, uint32_t expected, uint64_t timeout_ns);
};
extern const struct ts_test_clock *ts_test_clock;
#endif

#endif
