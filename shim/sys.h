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
int64_t ts_sys_read(int fd, void *buffer, size_t bytes);
int64_t ts_sys_write(int fd, const void *buffer, size_t bytes);
int ts_sys_unlink(const char *path);
int ts_sys_link(const char *from, const char *to);
int ts_sys_fallocate(int fd, uint64_t offset, uint64_t bytes);
int ts_sys_ftruncate(int fd, uint64_t bytes);
int ts_sys_fcntl(int fd, int command, void *argument);
int ts_sys_kill(int pid, int signal);

/** Free bytes of the file system of @fd for us. */
int ts_sys_free_bytes(int fd, uint64_t *ret_bytes);

/** Kind of file system that @fd lies on: a number of linux/magic.h. */
int ts_sys_file_system(int fd, uint64_t *ret_type);

/** Sleep while *word == expected, at most @timeout_ns; shared between processes. */
int ts_sys_futex_wait(const volatile void *word, uint32_t expected, uint64_t timeout_ns);
void ts_sys_futex_wake(const volatile void *word);

/** Read a whole small file; NUL-terminated. Returns its length. */
int ts_sys_read_file(const char *path, char *buffer, size_t bytes);

/** Monotonic wall time, and CPU time of this thread, in nanoseconds. */
uint64_t ts_now_ns(void);
uint64_t ts_thread_cpu_ns(void);

#endif
