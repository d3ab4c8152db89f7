/* SPDX-License-Identifier: MIT */
/*
 * The open family as it would be without us: for each call the next definition in load
 * order behind ours (another preload's, else the C library's), as RTLD_NEXT would find it.
 * dlsym is not in a glibc 2.28 libc.so.6, so the loaded objects are read (shim/elf.h).
 */
#ifndef TS_HOOKS_FILE_NEXT_H
#define TS_HOOKS_FILE_NEXT_H

#include "shim/base.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

typedef int ts_open_call(const char *path, int flags, ...);
typedef int ts_openat_call(int directory, const char *path, int flags, ...);
typedef int ts_open_2_call(const char *path, int flags);
typedef int ts_openat_2_call(int directory, const char *path, int flags);
typedef int ts_creat_call(const char *path, unsigned mode);
typedef FILE *ts_fopen_call(const char *path, const char *mode);
typedef FILE *ts_freopen_call(const char *path, const char *mode, FILE *stream);
typedef int ts_fstat_call(int fd, struct stat *ret_stat);
typedef int ts_fxstat_call(int version, int fd, struct stat *ret_stat);
typedef int ts_fstatat_call(int directory, const char *path, struct stat *ret_stat, int flags);
typedef int ts_fxstatat_call(
	int version, int directory, const char *path, struct stat *ret_stat, int flags);
typedef int ts_stat_call(const char *path, struct stat *ret_stat);
typedef int ts_xstat_call(int version, const char *path, struct stat *ret_stat);
typedef ts_stat_call ts_lstat_call;
typedef ts_xstat_call ts_lxstat_call;
typedef int ts_statx_call(
	int directory, const char *path, int flags, unsigned mask, struct statx *ret_stat);
typedef int ts_flock_call(int fd, int operation);
typedef int ts_fchmod_call(int fd, unsigned mode);
typedef int ts_fchown_call(int fd, unsigned user, unsigned group);
typedef int ts_futimens_call(int fd, const void *times);
typedef int ts_fsetxattr_call(
	int fd, const char *name, const void *value, size_t bytes, int flags);
typedef int ts_fremovexattr_call(int fd, const char *name);
typedef ssize_t ts_fgetxattr_call(int fd, const char *name, void *value, size_t bytes);
typedef ssize_t ts_flistxattr_call(int fd, char *list, size_t bytes);
typedef int ts_ioctl_call(int fd, unsigned long request, ...);
typedef int ts_fcntl_call(int fd, int command, ...);
typedef int ts_lockf_call(int fd, int command, off_t bytes);
typedef int ts_fstatfs_call(int fd, void *ret_stat);
typedef int ts_fexecve_call(int fd, char *const argv[], char *const env[]);
typedef int ts_fsync_call(int fd);
typedef int ts_sync_file_range_call(int fd, off_t at, off_t bytes, unsigned flags);
typedef ssize_t ts_copy_file_range_call(
	int from, off_t *from_at, int to, off_t *to_at, size_t bytes, unsigned flags);
typedef off_t ts_lseek_call(int fd, off_t offset, int whence);
typedef ssize_t ts_preadv2_call(
	int fd, const struct iovec *pieces, int count, off_t at, int flags);
typedef long ts_fpathconf_call(int fd, int name);
typedef int ts_faccessat_call(int directory, const char *path, int mode, int flags);
typedef int ts_execveat_call(
	int directory, const char *path, char *const argv[], char *const env[], int flags);
typedef int ts_name_to_handle_at_call(
	int directory, const char *path, void *handle, int *mount, int flags);
typedef int ts_open_by_handle_at_call(int mount, void *handle, int flags);
typedef int ts_fanotify_mark_call(
	int group, unsigned flags, uint64_t mask, int directory, const char *path);
typedef DIR *ts_opendir_call(const char *path);
typedef DIR *ts_fdopendir_call(int fd);
typedef void *ts_readdir_call(DIR *stream);
typedef int ts_readdir_r_call(DIR *stream, void *entry, void **ret_entry);
typedef long ts_telldir_call(DIR *stream);
typedef void ts_seekdir_call(DIR *stream, long place);
typedef void ts_rewinddir_call(DIR *stream);
typedef int ts_closedir_call(DIR *stream);
typedef ssize_t ts_readlink_call(const char *path, char *buffer, size_t bytes);
typedef ssize_t ts_readlinkat_call(int directory, const char *path, char *buffer, size_t bytes);
typedef ssize_t ts_readlink_chk_call(const char *path, char *buffer, size_t bytes, size_t room);
typedef ssize_t ts_readlinkat_chk_call(
	int directory, const char *path, char *buffer, size_t bytes, size_t room);

/*
 * Every call we stand in front of: the symbol, our name for it, and its kind.  What is called
 * _2 is what a fortified program calls where it gives no mode.
 */
#define TS_FILE_OPENS(X)                      \
	X(open, open, open)                   \
	X(open64, open64, open)               \
	X(openat, openat, openat)             \
	X(openat64, openat64, openat)         \
	X(__open_2, open_2, open_2)           \
	X(__open64_2, open64_2, open_2)       \
	X(__openat_2, openat_2, openat_2)     \
	X(__openat64_2, openat64_2, openat_2) \
	X(creat, creat, creat)                \
	X(creat64, creat64, creat)            \
	X(fopen, fopen, fopen)                \
	X(fopen64, fopen64, fopen)            \
	X(freopen, freopen, freopen)          \
	X(freopen64, freopen64, freopen)

/* What asks about a descriptor.  Programs built before glibc 2.33 call those that begin with
 * __, and a C library older than that has no others. */
#define TS_FILE_STATS(X)                      \
	X(fstat, fstat, fstat)                \
	X(fstat64, fstat64, fstat)            \
	X(__fxstat, fxstat, fxstat)           \
	X(__fxstat64, fxstat64, fxstat)       \
	X(fstatat, fstatat, fstatat)          \
	X(fstatat64, fstatat64, fstatat)      \
	X(__fxstatat, fxstatat, fxstatat)     \
	X(__fxstatat64, fxstatat64, fxstatat) \
	X(statx, statx, statx)                \
	X(stat, stat, stat)                   \
	X(stat64, stat64, stat)               \
	X(lstat, lstat, lstat)                \
	X(lstat64, lstat64, lstat)            \
	X(__xstat, xstat, xstat)              \
	X(__xstat64, xstat64, xstat)          \
	X(__lxstat, lxstat, lxstat)           \
	X(__lxstat64, lxstat64, lxstat)

/* What a copy of a file cannot do, or not answer as its original would. */
#define TS_FILE_DEEDS(X)                                           \
	X(flock, flock, flock)                                     \
	X(fchmod, fchmod, fchmod)                                  \
	X(fchown, fchown, fchown)                                  \
	X(futimens, futimens, futimens)                            \
	X(futimes, futimes, futimens)                              \
	X(fsetxattr, fsetxattr, fsetxattr)                         \
	X(fremovexattr, fremovexattr, fremovexattr)                \
	X(fgetxattr, fgetxattr, fgetxattr)                         \
	X(flistxattr, flistxattr, flistxattr)                      \
	X(ioctl, ioctl, ioctl)                                     \
	X(fcntl, fcntl, fcntl)                                     \
	X(fcntl64, fcntl64, fcntl)                                 \
	X(lockf, lockf, lockf)                                     \
	X(lockf64, lockf64, lockf)                                 \
	X(fstatfs, fstatfs, fstatfs)                               \
	X(fstatfs64, fstatfs64, fstatfs)                           \
	X(fstatvfs, fstatvfs, fstatfs)                             \
	X(fstatvfs64, fstatvfs64, fstatfs)                         \
	X(fexecve, fexecve, fexecve)                               \
	X(execveat, execveat, execveat)                            \
	X(fsync, fsync, fsync)                                     \
	X(fdatasync, fdatasync, fsync)                             \
	X(syncfs, syncfs, fsync)                                   \
	X(sync_file_range, sync_file_range, sync_file_range)       \
	X(copy_file_range, copy_file_range, copy_file_range)       \
	X(lseek, lseek, lseek)                                     \
	X(lseek64, lseek64, lseek)                                 \
	X(preadv2, preadv2, preadv2)                               \
	X(preadv64v2, preadv64v2, preadv2)                         \
	X(fpathconf, fpathconf, fpathconf)                         \
	X(faccessat, faccessat, faccessat)                         \
	X(name_to_handle_at, name_to_handle_at, name_to_handle_at) \
	X(open_by_handle_at, open_by_handle_at, open_by_handle_at) \
	X(fanotify_mark, fanotify_mark, fanotify_mark)             \
	X(readlink, readlink, readlink)                            \
	X(readlinkat, readlinkat, readlinkat)                      \
	X(__readlink_chk, readlink_chk, readlink_chk)              \
	X(__readlinkat_chk, readlinkat_chk, readlinkat_chk)

/* What reads a directory; where inode numbers have 64 bits, both names of a call are one. */
#define TS_FILE_DIRECTORIES(X)                 \
	X(opendir, opendir, opendir)           \
	X(fdopendir, fdopendir, fdopendir)     \
	X(readdir, readdir, readdir)           \
	X(readdir64, readdir64, readdir)       \
	X(readdir_r, readdir_r, readdir_r)     \
	X(readdir64_r, readdir64_r, readdir_r) \
	X(telldir, telldir, telldir)           \
	X(seekdir, seekdir, seekdir)           \
	X(rewinddir, rewinddir, rewinddir)     \
	X(closedir, closedir, closedir)

#define TS_FILE_CALLS(X) \
	TS_FILE_OPENS(X) \
	TS_FILE_STATS(X) \
	TS_FILE_DEEDS(X) \
	TS_FILE_DIRECTORIES(X)

/**
 * The next definitions.  Until our constructor has run, other libraries' constructors may call
 * already; then these are the bare system calls, and for streams a search at the first call.
 * Threads: loads and stores relaxed; a call that raced with the constructor takes either.
 */
struct ts_file_next {
#define TS_X(symbol, name, kind) ts_##kind##_call *_Atomic name;
	TS_FILE_CALLS(TS_X)
#undef TS_X
};

extern struct ts_file_next ts_file_next;

/** Find the definitions. Takes the loader's lock for a moment; may be called again. */
void ts_file_next_find(void);

#endif
