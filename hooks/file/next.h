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

/* A call and its twin. */
#define TS_BOTH(X, name) X(name, name) X(name##64, name)

/*
 * Every call we stand in front of, and the function whose type it has (those with 64 have the
 * types of the others here).  A fortified program calls those that end in _2 or _chk; programs
 * built before glibc 2.33 call those with xstat, and a C library older than that has no others.
 *
 * A memory allocator may make the early ones before our constructor has run, with its locks
 * held.
 */
#define TS_FILE_EARLY(X)                  \
	TS_BOTH(X, open)                  \
	TS_BOTH(X, openat)                \
	X(__open_2, __open_2)             \
	X(__open64_2, __open_2)           \
	X(__openat_2, __openat_2)         \
	X(__openat64_2, __openat_2)       \
	TS_BOTH(X, fstat)                 \
	TS_BOTH(X, __fxstat)              \
	TS_BOTH(X, fstatat)               \
	TS_BOTH(X, __fxstatat)            \
	TS_BOTH(X, stat)                  \
	TS_BOTH(X, lstat)                 \
	TS_BOTH(X, __xstat)               \
	TS_BOTH(X, __lxstat)              \
	TS_BOTH(X, lseek)                 \
	TS_BOTH(X, fcntl)                 \
	X(ioctl, ioctl)                   \
	X(readlink, readlink)             \
	X(readlinkat, readlinkat)         \
	X(__readlink_chk, __readlink_chk) \
	X(__readlinkat_chk, __readlinkat_chk)

#define TS_FILE_LATE(X)                         \
	TS_BOTH(X, creat)                       \
	TS_BOTH(X, fopen)                       \
	TS_BOTH(X, freopen)                     \
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
	TS_BOTH(X, lockf)                       \
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
	TS_BOTH(X, readdir)                     \
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
