/* SPDX-License-Identifier: MIT */
/*
 * The open family as it would be without us: for each call the next definition in load
 * order behind ours (another preload's, else the C library's), as RTLD_NEXT would find it.
 * dlsym is not in a glibc 2.28 libc.so.6, so the loaded objects are read (shim/elf.h).
 */
#ifndef TS_HOOKS_FILE_NEXT_H
#define TS_HOOKS_FILE_NEXT_H

#include "shim/atomic.h"
#include "shim/base.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/fanotify.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

/* What no header declares, or not each C library's. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int directory, const char *path, int flags);
int __openat64_2(int directory, const char *path, int flags);
int __fxstat(int version, int fd, struct stat *ret_stat);
int __fxstat64(int version, int fd, struct stat64 *ret_stat);
int __fxstatat(int version, int directory, const char *path, struct stat *ret_stat, int flags);
int __fxstatat64(
	int version, int directory, const char *path, struct stat64 *ret_stat, int flags);
int __xstat(int version, const char *path, struct stat *ret_stat);
int __xstat64(int version, const char *path, struct stat64 *ret_stat);
int __lxstat(int version, const char *path, struct stat *ret_stat);
int __lxstat64(int version, const char *path, struct stat64 *ret_stat);
ssize_t __readlink_chk(const char *path, char *buffer, size_t bytes, size_t room);
ssize_t __readlinkat_chk(
	int directory, const char *path, char *buffer, size_t bytes, size_t room);
int execveat(
	int directory, const char *path, char *const words[], char *const env[], int flags);
int fcntl64(int fd, int command, ...);
/* Only for its type: the real one is deprecated. */
int ts_like_readdir_r(DIR *stream, void *entry, void **ret_entry);

/*
 * Every call we stand in front of, and the function whose type it has (those with 64 have the
 * types of the others here).  A fortified program calls those that end in _2 or _chk; programs
 * built before glibc 2.33 call those with xstat, and a C library older than that has no others.
 *
 * A memory allocator may make the early ones before our constructor has run, with its locks
 * held.
 */
#define TS_FILE_EARLY(X)                  \
	X(open, open)                     \
	X(open64, open)                   \
	X(openat, openat)                 \
	X(openat64, openat)               \
	X(__open_2, __open_2)             \
	X(__open64_2, __open_2)           \
	X(__openat_2, __openat_2)         \
	X(__openat64_2, __openat_2)       \
	X(fstat, fstat)                   \
	X(fstat64, fstat)                 \
	X(__fxstat, __fxstat)             \
	X(__fxstat64, __fxstat)           \
	X(fstatat, fstatat)               \
	X(fstatat64, fstatat)             \
	X(__fxstatat, __fxstatat)         \
	X(__fxstatat64, __fxstatat)       \
	X(stat, stat)                     \
	X(stat64, stat)                   \
	X(lstat, lstat)                   \
	X(lstat64, lstat)                 \
	X(__xstat, __xstat)               \
	X(__xstat64, __xstat)             \
	X(__lxstat, __lxstat)             \
	X(__lxstat64, __lxstat)           \
	X(lseek, lseek)                   \
	X(lseek64, lseek)                 \
	X(fcntl, fcntl)                   \
	X(fcntl64, fcntl)                 \
	X(ioctl, ioctl)                   \
	X(readlink, readlink)             \
	X(readlinkat, readlinkat)         \
	X(__readlink_chk, __readlink_chk) \
	X(__readlinkat_chk, __readlinkat_chk)

#define TS_FILE_LATE(X)                         \
	X(creat, creat)                         \
	X(creat64, creat)                       \
	X(fopen, fopen)                         \
	X(fopen64, fopen)                       \
	X(freopen, freopen)                     \
	X(freopen64, freopen)                   \
	X(statx, statx)                         \
	X(flock, flock)                         \
	X(fchmod, fchmod)                       \
	X(fchown, fchown)                       \
	X(futimens, futimens)                   \
	X(futimes, futimes)                     \
	X(fsetxattr, fsetxattr)                 \
	X(fremovexattr, fremovexattr)           \
	X(fgetxattr, fgetxattr)                 \
	X(flistxattr, flistxattr)               \
	X(lockf, lockf)                         \
	X(lockf64, lockf)                       \
	X(fstatfs, fstatfs)                     \
	X(fstatfs64, fstatfs64)                 \
	X(fstatvfs, fstatvfs)                   \
	X(fstatvfs64, fstatvfs64)               \
	X(fexecve, fexecve)                     \
	X(execveat, execveat)                   \
	X(fsync, fsync)                         \
	X(fdatasync, fsync)                     \
	X(syncfs, fsync)                        \
	X(sync_file_range, sync_file_range)     \
	X(copy_file_range, copy_file_range)     \
	X(preadv2, preadv2)                     \
	X(preadv64v2, preadv2)                  \
	X(fpathconf, fpathconf)                 \
	X(faccessat, faccessat)                 \
	X(name_to_handle_at, name_to_handle_at) \
	X(open_by_handle_at, open_by_handle_at) \
	X(fanotify_mark, fanotify_mark)         \
	X(opendir, opendir)                     \
	X(fdopendir, fdopendir)                 \
	X(readdir, readdir)                     \
	X(readdir64, readdir)                   \
	X(readdir_r, ts_like_readdir_r)         \
	X(readdir64_r, ts_like_readdir_r)       \
	X(telldir, telldir)                     \
	X(seekdir, seekdir)                     \
	X(rewinddir, rewinddir)                 \
	X(closedir, closedir)

#define TS_FILE_CALLS(X) TS_FILE_EARLY(X) TS_FILE_LATE(X)

/**
 * The next definitions.  Until our constructor has run, other libraries' constructors may call
 * already; then the early ones are the bare system calls, and the late ones NULL.
 * Threads: loads and stores relaxed; a call that raced with the constructor takes either.
 */
struct ts_file_next {
#define TS_X(symbol, like) __typeof__(like) *_Atomic symbol;
	TS_FILE_CALLS(TS_X)
#undef TS_X
};

extern struct ts_file_next ts_file_next;

/** Find the definitions. Takes the loader's lock for a moment; may be called again. */
void ts_file_next_find(void);

/** The next definition of an early call, and of a late one. */
#define TS_NEXT(symbol) ts_load_relaxed(&ts_file_next.symbol)
#define TS_NEXT_LATE(symbol)                                                    \
	(TS_UNLIKELY(!TS_NEXT(symbol)) ? (ts_file_next_find(), TS_NEXT(symbol)) \
				       : TS_NEXT(symbol))

#endif
