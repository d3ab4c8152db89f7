/* SPDX-License-Identifier: MIT */
/* The next definitions of the open family behind ours. */
#include "hooks/file/next.h"

#include "shim/atomic.h"
#include "shim/elf.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of what is more than a system call, and nothing that runs so early needs. */
static long no_such_call(void)
{
	errno = ENOSYS;
	return -1;
}

/*
 * What stands in for a call before the constructor: a memory allocator may open files while it
 * holds its locks, so nothing is searched for here, and system calls report through errno as
 * these calls do.
 */
#define FIRST(type, name, parameters, call) \
	static type first_##name parameters \
	{                                   \
		return (type)(call);        \
	}

/* The same where a last argument may follow: it is passed on whatever it is. */
#define FIRST_WITH_MORE(name, parameters, last, more_type, call) \
	static int first_##name parameters                       \
	{                                                        \
		va_list list;                                    \
		va_start(list, last);                            \
		more_type more = va_arg(list, more_type);        \
		va_end(list);                                    \
		return (int)(call);                              \
	}

/* Only the C library knows what is in a stream, of a file or a directory.  It needs memory
 * anyway: nothing that calls these may hold the loader's lock. */
#define FIRST_OF_STREAM(type, name, none, parameters, arguments)               \
	static type first_##name parameters                                    \
	{                                                                      \
		ts_file_next_find();                                           \
		ts_##name##_call *found = ts_load_relaxed(&ts_file_next.name); \
		if (found != first_##name)                                     \
			return (type)found arguments;                          \
		errno = ENOSYS;                                                \
		return none;                                                   \
	}

/* ---- opening ---------------------------------------------------------------------------- */

FIRST_WITH_MORE(open, (const char *path, int flags, ...), flags, unsigned,
	syscall(SYS_openat, AT_FDCWD, path, flags, more))
FIRST_WITH_MORE(openat, (int directory, const char *path, int flags, ...), flags, unsigned,
	syscall(SYS_openat, directory, path, flags, more))
FIRST(int, open_2, (const char *path, int flags), syscall(SYS_openat, AT_FDCWD, path, flags, 0))
FIRST(int, openat_2, (int directory, const char *path, int flags),
	syscall(SYS_openat, directory, path, flags, 0))
FIRST(int, creat, (const char *path, unsigned mode),
	syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode))
FIRST_OF_STREAM(FILE *, fopen, NULL, (const char *path, const char *mode), (path, mode))
FIRST_OF_STREAM(FILE *, freopen, NULL, (const char *path, const char *mode, FILE *stream),
	(path, mode, stream))

/* ---- attributes ------------------------------------------------------------------------- */

FIRST(int, fstat, (int fd, struct stat *ret_stat),
	syscall(SYS_newfstatat, fd, "", ret_stat, AT_EMPTY_PATH))
FIRST(int, fxstat, (int version, int fd, struct stat *ret_stat), first_fstat(fd, ret_stat))
FIRST(int, fstatat, (int directory, const char *path, struct stat *ret_stat, int flags),
	syscall(SYS_newfstatat, directory, path, ret_stat, flags))
FIRST(int, fxstatat,
	(int version, int directory, const char *path, struct stat *ret_stat, int flags),
	first_fstatat(directory, path, ret_stat, flags))
FIRST(int, statx,
	(int directory, const char *path, int flags, unsigned mask, struct statx *ret_stat),
	syscall(SYS_statx, directory, path, flags, mask, ret_stat))
FIRST(int, stat, (const char *path, struct stat *ret_stat),
	first_fstatat(AT_FDCWD, path, ret_stat, 0))
FIRST(int, lstat, (const char *path, struct stat *ret_stat),
	first_fstatat(AT_FDCWD, path, ret_stat, AT_SYMLINK_NOFOLLOW))
FIRST(int, xstat, (int version, const char *path, struct stat *ret_stat),
	first_stat(path, ret_stat))
FIRST(int, lxstat, (int version, const char *path, struct stat *ret_stat),
	first_lstat(path, ret_stat))

/* ---- deeds ------------------------------------------------------------------------------ */

FIRST(int, flock, (int fd, int operation), syscall(SYS_flock, fd, operation))
FIRST(int, fchmod, (int fd, unsigned mode), syscall(SYS_fchmod, fd, mode))
FIRST(int, fchown, (int fd, unsigned user, unsigned group),
	syscall(SYS_fchown, fd, user, group))
FIRST(int, futimens, (int fd, const void *times), syscall(SYS_utimensat, fd, NULL, times, 0))
FIRST(int, futimes, (int fd, const void *times), no_such_call())
FIRST(int, fsetxattr, (int fd, const char *name, const void *value, size_t bytes, int flags),
	syscall(SYS_fsetxattr, fd, name, value, bytes, flags))
FIRST(int, fremovexattr, (int fd, const char *name), syscall(SYS_fremovexattr, fd, name))
FIRST(ssize_t, fgetxattr, (int fd, const char *name, void *value, size_t bytes),
	syscall(SYS_fgetxattr, fd, name, value, bytes))
FIRST(ssize_t, flistxattr, (int fd, char *list, size_t bytes),
	syscall(SYS_flistxattr, fd, list, bytes))
FIRST_WITH_MORE(ioctl, (int fd, unsigned long request, ...), request, void *,
	syscall(SYS_ioctl, fd, request, more))
FIRST_WITH_MORE(fcntl, (int fd, int command, ...), command, void *,
	syscall(SYS_fcntl, fd, command, more))
FIRST(int, lockf, (int fd, int command, off_t bytes), no_such_call())
FIRST(int, fstatfs, (int fd, void *ret_stat), syscall(SYS_fstatfs, fd, ret_stat))
FIRST(int, fstatvfs, (int fd, void *ret_stat), no_such_call())
FIRST(int, fexecve, (int fd, char *const argv[], char *const env[]), no_such_call())
FIRST(int, execveat,
	(int directory, const char *path, char *const argv[], char *const env[], int flags),
	syscall(SYS_execveat, directory, path, argv, env, flags))
FIRST(int, fsync, (int fd), syscall(SYS_fsync, fd))
FIRST(int, fdatasync, (int fd), syscall(SYS_fdatasync, fd))
FIRST(int, syncfs, (int fd), syscall(SYS_syncfs, fd))
FIRST(int, sync_file_range, (int fd, off_t at, off_t bytes, unsigned flags),
	syscall(SYS_sync_file_range, fd, at, bytes, flags))
FIRST(ssize_t, copy_file_range,
	(int from, off_t *from_at, int to, off_t *to_at, size_t bytes, unsigned flags),
	syscall(SYS_copy_file_range, from, from_at, to, to_at, bytes, flags))
FIRST(off_t, lseek, (int fd, off_t offset, int whence), syscall(SYS_lseek, fd, offset, whence))
/* The system call has a place for the upper half of the offset, too. */
FIRST(ssize_t, preadv2, (int fd, const struct iovec *pieces, int count, off_t at, int flags),
	syscall(SYS_preadv2, fd, pieces, count, at, 0, flags))
FIRST(long, fpathconf, (int fd, int name), no_such_call())
FIRST(int, faccessat, (int directory, const char *path, int mode, int flags),
	flags ? no_such_call() : syscall(SYS_faccessat, directory, path, mode))
FIRST(int, name_to_handle_at,
	(int directory, const char *path, void *handle, int *mount, int flags),
	syscall(SYS_name_to_handle_at, directory, path, handle, mount, flags))
FIRST(int, open_by_handle_at, (int mount, void *handle, int flags),
	syscall(SYS_open_by_handle_at, mount, handle, flags))
FIRST(int, fanotify_mark,
	(int group, unsigned flags, uint64_t mask, int directory, const char *path),
	syscall(SYS_fanotify_mark, group, flags, mask, directory, path))
FIRST(ssize_t, readlink, (const char *path, char *buffer, size_t bytes),
	syscall(SYS_readlinkat, AT_FDCWD, path, buffer, bytes))
FIRST(ssize_t, readlinkat, (int directory, const char *path, char *buffer, size_t bytes),
	syscall(SYS_readlinkat, directory, path, buffer, bytes))
FIRST(ssize_t, readlink_chk, (const char *path, char *buffer, size_t bytes, size_t room),
	first_readlink(path, buffer, bytes))
FIRST(ssize_t, readlinkat_chk,
	(int directory, const char *path, char *buffer, size_t bytes, size_t room),
	first_readlinkat(directory, path, buffer, bytes))

#define first_lseek64    first_lseek
#define first_preadv64v2 first_preadv2
#define first_fcntl64    first_fcntl
#define first_lockf64    first_lockf
#define first_fstatfs64  first_fstatfs
#define first_fstatvfs64 first_fstatvfs

/* ---- directories ------------------------------------------------------------------------ */

FIRST_OF_STREAM(DIR *, opendir, NULL, (const char *path), (path))
FIRST_OF_STREAM(DIR *, fdopendir, NULL, (int fd), (fd))
FIRST_OF_STREAM(void *, readdir, NULL, (DIR * stream), (stream))
FIRST_OF_STREAM(int, readdir_r, ENOSYS, (DIR * stream, void *entry, void **ret_entry),
	(stream, entry, ret_entry))
FIRST_OF_STREAM(long, telldir, -1, (DIR * stream), (stream))
FIRST_OF_STREAM(int, closedir, -1, (DIR * stream), (stream))

static void first_seekdir(DIR *stream, long place)
{
	ts_file_next_find();
	ts_seekdir_call *found = ts_load_relaxed(&ts_file_next.seekdir);
	if (found != first_seekdir)
		found(stream, place);
}

static void first_rewinddir(DIR *stream)
{
	ts_file_next_find();
	ts_rewinddir_call *found = ts_load_relaxed(&ts_file_next.rewinddir);
	if (found != first_rewinddir)
		found(stream);
}

/* ---- the table -------------------------------------------------------------------------- */

struct ts_file_next ts_file_next = {
#define TS_X(symbol, name, kind) .name = first_##kind,
	TS_FILE_OPENS(TS_X) TS_FILE_STATS(TS_X) TS_FILE_DIRECTORIES(TS_X)
#undef TS_X
#define TS_X(symbol, name, kind) .name = first_##name,
		TS_FILE_DEEDS(TS_X)
#undef TS_X
};

struct found {
#define TS_X(symbol, name, kind) uintptr_t name;
	TS_FILE_CALLS(TS_X)
#undef TS_X
};

static bool look_in(const struct ts_elf_object *object, void *data)
{
	struct found *found = data;
	bool missing = false;

#define TS_X(symbol, name, kind)                                \
	if (!found->name)                                       \
		found->name = ts_elf_function(object, #symbol); \
	missing |= !found->name;
	TS_FILE_CALLS(TS_X)
#undef TS_X
	return !missing;
}

static void find(void *data)
{
	(void)ts_elf_each_next(look_in, data);
}

void ts_file_next_find(void)
{
	struct found found = {0};
	ts_elf_locked(find, &found);
#define TS_X(symbol, name, kind) \
	if (found.name)          \
		ts_write_relaxed(&ts_file_next.name, (ts_##kind##_call *)found.name);
	TS_FILE_CALLS(TS_X)
#undef TS_X
}

/* Also where sharing is switched off: the calls come through here all the same. */
__attribute__((constructor)) static void find_at_start(void)
{
	ts_file_next_find();
}
