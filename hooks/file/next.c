/* SPDX-License-Identifier: MIT */
/* The next definitions of the open family behind ours. */
#include "hooks/file/next_private.h"

#include "shim/atomic.h"
#include "shim/elf_next.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Before the constructor: a memory allocator may open files while it holds its locks, so
 * nothing is searched for here, and system calls report through errno as these calls do.
 */
static int first_open(const char *path, int flags, ...)
{
	va_list more;
	va_start(more, flags);
	unsigned mode = va_arg(more, unsigned); /* whatever it is where there is none */
	va_end(more);
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static int first_openat(int directory, const char *path, int flags, ...)
{
	va_list more;
	va_start(more, flags);
	unsigned mode = va_arg(more, unsigned);
	va_end(more);
	return (int)syscall(SYS_openat, directory, path, flags, mode);
}

static int first_open_2(const char *path, int flags)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
}

static int first_openat_2(int directory, const char *path, int flags)
{
	return (int)syscall(SYS_openat, directory, path, flags, 0);
}

static int first_creat(const char *path, unsigned mode)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

/* A stream needs memory anyway: nothing that calls these may hold the loader's lock. */
static FILE *first_fopen(const char *path, const char *mode)
{
	ts_file_next_find();
	ts_fopen_call *found = ts_load_relaxed(&ts_file_next.fopen);
	if (found != first_fopen)
		return found(path, mode);
	errno = ENOSYS;
	return NULL;
}

static FILE *first_freopen(const char *path, const char *mode, FILE *stream)
{
	ts_file_next_find();
	ts_freopen_call *found = ts_load_relaxed(&ts_file_next.freopen);
	if (found != first_freopen)
		return found(path, mode, stream);
	errno = ENOSYS;
	return NULL;
}

static int first_fstat(int fd, struct stat *ret_stat)
{
	return (int)syscall(SYS_newfstatat, fd, "", ret_stat, AT_EMPTY_PATH);
}

static int first_fxstat(int version, int fd, struct stat *ret_stat)
{
	return first_fstat(fd, ret_stat);
}

static int first_fstatat(int directory, const char *path, struct stat *ret_stat, int flags)
{
	return (int)syscall(SYS_newfstatat, directory, path, ret_stat, flags);
}

static int first_fxstatat(
	int version, int directory, const char *path, struct stat *ret_stat, int flags)
{
	return first_fstatat(directory, path, ret_stat, flags);
}

static int first_statx(
	int directory, const char *path, int flags, unsigned mask, struct statx *ret_stat)
{
	return (int)syscall(SYS_statx, directory, path, flags, mask, ret_stat);
}

static int first_stat(const char *path, struct stat *ret_stat)
{
	return first_fstatat(AT_FDCWD, path, ret_stat, 0);
}

static int first_lstat(const char *path, struct stat *ret_stat)
{
	return first_fstatat(AT_FDCWD, path, ret_stat, AT_SYMLINK_NOFOLLOW);
}

static int first_xstat(int version, const char *path, struct stat *ret_stat)
{
	return first_stat(path, ret_stat);
}

static int first_lxstat(int version, const char *path, struct stat *ret_stat)
{
	return first_lstat(path, ret_stat);
}

/* What is more than a system call, and nothing that runs so early needs. */
static int first_other(void)
{
	errno = ENOSYS;
	return -1;
}

static int first_flock(int fd, int operation)
{
	return (int)syscall(SYS_flock, fd, operation);
}

static int first_fchmod(int fd, unsigned mode)
{
	return (int)syscall(SYS_fchmod, fd, mode);
}

static int first_fchown(int fd, unsigned user, unsigned group)
{
	return (int)syscall(SYS_fchown, fd, user, group);
}

static int first_futimens(int fd, const void *times)
{
	return (int)syscall(SYS_utimensat, fd, NULL, times, 0);
}

static int first_futimes(int fd, const void *times)
{
	return first_other();
}

static int first_fsetxattr(int fd, const char *name, const void *value, size_t bytes, int flags)
{
	return (int)syscall(SYS_fsetxattr, fd, name, value, bytes, flags);
}

static int first_fremovexattr(int fd, const char *name)
{
	return (int)syscall(SYS_fremovexattr, fd, name);
}

static ssize_t first_fgetxattr(int fd, const char *name, void *value, size_t bytes)
{
	return syscall(SYS_fgetxattr, fd, name, value, bytes);
}

static ssize_t first_flistxattr(int fd, char *list, size_t bytes)
{
	return syscall(SYS_flistxattr, fd, list, bytes);
}

static int first_ioctl(int fd, unsigned long request, ...)
{
	va_list more;
	va_start(more, request);
	void *argument = va_arg(more, void *);
	va_end(more);
	return (int)syscall(SYS_ioctl, fd, request, argument);
}

static int first_fcntl(int fd, int command, ...)
{
	va_list more;
	va_start(more, command);
	void *argument = va_arg(more, void *);
	va_end(more);
	return (int)syscall(SYS_fcntl, fd, command, argument);
}

static int first_lockf(int fd, int command, off_t bytes)
{
	return first_other();
}

static int first_fstatfs(int fd, void *ret_stat)
{
	return (int)syscall(SYS_fstatfs, fd, ret_stat);
}

static int first_fstatvfs(int fd, void *ret_stat)
{
	return first_other();
}

static int first_fexecve(int fd, char *const argv[], char *const env[])
{
	return first_other();
}

static ssize_t first_readlink(const char *path, char *buffer, size_t bytes)
{
	return syscall(SYS_readlinkat, AT_FDCWD, path, buffer, bytes);
}

static ssize_t first_readlinkat(int directory, const char *path, char *buffer, size_t bytes)
{
	return syscall(SYS_readlinkat, directory, path, buffer, bytes);
}

static ssize_t first_readlink_chk(const char *path, char *buffer, size_t bytes, size_t room)
{
	return first_readlink(path, buffer, bytes);
}

static ssize_t first_readlinkat_chk(
	int directory, const char *path, char *buffer, size_t bytes, size_t room)
{
	return first_readlinkat(directory, path, buffer, bytes);
}

/* Of a directory's stream only the C library knows what is in it, as of a file's. */
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

#define first_fcntl64    first_fcntl
#define first_lockf64    first_lockf
#define first_fstatfs64  first_fstatfs
#define first_fstatvfs64 first_fstatvfs

struct ts_file_next ts_file_next = {
#define TS_X(symbol, name, kind) .name = first_##kind,
	TS_FILE_OPENS(TS_X) TS_FILE_STATS(TS_X) TS_FILE_DIRECTORIES(TS_X)
#undef TS_X
#define TS_X(symbol, name, kind) .name = first_##name,
		TS_FILE_DEEDS(TS_X)
#undef TS_X
#define TS_X(symbol, name, kind) .name = ts_first_##name,
			TS_FILE_CHANGES(TS_X)
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
