/* SPDX-License-Identifier: MIT */
/* The next definitions of the open family behind ours. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE

#include "hooks/file/next.h"

#include "shim/elf.h"

#include <stdarg.h>
#include <sys/syscall.h>

/* For what this process's C library does not have.  Each has streams and directories. */
static long no_such_call(void)
{
	errno = ENOSYS;
	return -1;
}

/*
 * What stands in for an early call before the constructor: nothing is searched for here, and
 * system calls report through errno as these calls do.
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

FIRST_WITH_MORE(open, (const char *path, int flags, ...), flags, unsigned,
	syscall(SYS_openat, AT_FDCWD, path, flags, more))
FIRST_WITH_MORE(openat, (int directory, const char *path, int flags, ...), flags, unsigned,
	syscall(SYS_openat, directory, path, flags, more))
FIRST(int, __open_2, (const char *path, int flags),
	syscall(SYS_openat, AT_FDCWD, path, flags, 0))
FIRST(int, __openat_2, (int directory, const char *path, int flags),
	syscall(SYS_openat, directory, path, flags, 0))
FIRST(int, fstat, (int fd, struct stat *ret_stat),
	syscall(SYS_newfstatat, fd, "", ret_stat, AT_EMPTY_PATH))
FIRST(int, __fxstat, (int version, int fd, struct stat *ret_stat), first_fstat(fd, ret_stat))
FIRST(int, fstatat, (int directory, const char *path, struct stat *ret_stat, int flags),
	syscall(SYS_newfstatat, directory, path, ret_stat, flags))
FIRST(int, __fxstatat,
	(int version, int directory, const char *path, struct stat *ret_stat, int flags),
	first_fstatat(directory, path, ret_stat, flags))
FIRST(int, stat, (const char *path, struct stat *ret_stat),
	first_fstatat(AT_FDCWD, path, ret_stat, 0))
FIRST(int, lstat, (const char *path, struct stat *ret_stat),
	first_fstatat(AT_FDCWD, path, ret_stat, AT_SYMLINK_NOFOLLOW))
FIRST(int, __xstat, (int version, const char *path, struct stat *ret_stat),
	first_stat(path, ret_stat))
FIRST(int, __lxstat, (int version, const char *path, struct stat *ret_stat),
	first_lstat(path, ret_stat))
FIRST_WITH_MORE(ioctl, (int fd, unsigned long request, ...), request, void *,
	syscall(SYS_ioctl, fd, request, more))
FIRST_WITH_MORE(fcntl, (int fd, int command, ...), command, void *,
	syscall(SYS_fcntl, fd, command, more))
FIRST(off_t, lseek, (int fd, off_t offset, int whence), syscall(SYS_lseek, fd, offset, whence))
FIRST(ssize_t, readlink, (const char *path, char *buffer, size_t bytes),
	syscall(SYS_readlinkat, AT_FDCWD, path, buffer, bytes))
FIRST(ssize_t, readlinkat, (int directory, const char *path, char *buffer, size_t bytes),
	syscall(SYS_readlinkat, directory, path, buffer, bytes))
FIRST(ssize_t, __readlink_chk, (const char *path, char *buffer, size_t bytes, size_t room),
	first_readlink(path, buffer, bytes))
FIRST(ssize_t, __readlinkat_chk,
	(int directory, const char *path, char *buffer, size_t bytes, size_t room),
	first_readlinkat(directory, path, buffer, bytes))

struct ts_file_next ts_file_next = {
#define TS_X(symbol, like) .symbol = first_##like,
	TS_FILE_EARLY(TS_X)
#undef TS_X
};

struct found {
#define TS_X(symbol, like) uintptr_t symbol;
	TS_FILE_CALLS(TS_X)
#undef TS_X
};

static bool look_in(const struct ts_elf_object *object, void *data)
{
	struct found *found = data;
	bool missing = false;

#define TS_X(symbol, like)                                        \
	if (!found->symbol)                                       \
		found->symbol = ts_elf_function(object, #symbol); \
	missing |= !found->symbol;
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
#define TS_X(symbol, like) \
	if (found.symbol)  \
		ts_write_relaxed(&ts_file_next.symbol, (__typeof__(like) *)found.symbol);
	TS_FILE_EARLY(TS_X)
#undef TS_X
#define TS_X(symbol, like)                     \
	ts_write_relaxed(&ts_file_next.symbol, \
		(__typeof__(like) *)(found.symbol ? found.symbol : (uintptr_t)no_such_call));
	TS_FILE_LATE(TS_X)
#undef TS_X
}

/* Also where sharing is switched off: the calls come through here all the same. */
__attribute__((constructor)) static void find_at_start(void)
{
	ts_file_next_find();
}
