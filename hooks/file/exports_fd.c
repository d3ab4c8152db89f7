/* SPDX-License-Identifier: MIT */
/*
 * The exported calls that only an original can answer, or must not reach a copy: trampolines,
 * nothing else.  Unless files are staged each is two loads and a jump.
 *
 * Optional arguments are named parameters here and passed on as they came; see exports.c.
 */
#include "hooks/file/conductor.h"
#include "hooks/file/next.h"
#include "shim/atomic.h"
#include "shim/sys.h"

#include <fcntl.h>

#define NEXT(name) ts_load_relaxed(&ts_file_next.name)

/* A call that goes to the original, or nowhere. */
#define CALL_IN_PLACE(type, symbol, name, parameters, arguments)   \
	TS_EXPORT type ts_file_##name parameters __asm__(#symbol); \
	type ts_file_##name parameters                             \
	{                                                          \
		if (!ts_before_deed(fd))                           \
			return -1;                                 \
		return NEXT(name) arguments;                       \
	}

/* One after which what is known of the file's paths is wrong. */
#define CALL_CHANGING(symbol, name, parameters, arguments)        \
	TS_EXPORT int ts_file_##name parameters __asm__(#symbol); \
	int ts_file_##name parameters                             \
	{                                                         \
		if (!ts_before_deed(fd))                          \
			return -1;                                \
		return ts_after_deed(NEXT(name) arguments, fd);   \
	}

#define CALL_flock(symbol, name) \
	CALL_IN_PLACE(int, symbol, name, (int fd, int operation), (fd, operation))
#define CALL_fchmod(symbol, name) \
	CALL_CHANGING(symbol, name, (int fd, unsigned mode), (fd, mode))
#define CALL_fchown(symbol, name) \
	CALL_CHANGING(symbol, name, (int fd, unsigned user, unsigned group), (fd, user, group))
#define CALL_futimens(symbol, name) \
	CALL_CHANGING(symbol, name, (int fd, const void *times), (fd, times))
#define CALL_fsetxattr(symbol, name)                                                         \
	CALL_CHANGING(symbol, name,                                                          \
		(int fd, const char *attribute, const void *value, size_t bytes, int flags), \
		(fd, attribute, value, bytes, flags))
#define CALL_fremovexattr(symbol, name) \
	CALL_CHANGING(symbol, name, (int fd, const char *attribute), (fd, attribute))
#define CALL_fexecve(symbol, name)                                                        \
	CALL_IN_PLACE(int, symbol, name, (int fd, char *const argv[], char *const env[]), \
		(fd, argv, env))

/* By a descriptor where the path is empty, or by one of its names in /proc. */
#define CALL_execveat(symbol, name)                                                       \
	TS_EXPORT int ts_file_##name(int directory, const char *path, char *const argv[], \
		char *const env[], int flags) __asm__(#symbol);                           \
	int ts_file_##name(int directory, const char *path, char *const argv[],           \
		char *const env[], int flags)                                             \
	{                                                                                 \
		if (!ts_before_path(directory, path, flags))                              \
			return -1;                                                        \
		return NEXT(name)(directory, path, argv, env, flags);                     \
	}

/* With flags some file systems read otherwise, or not at all. */
#define CALL_preadv2(symbol, name)                                                      \
	TS_EXPORT ssize_t ts_file_##name(int fd, const struct iovec *pieces, int count, \
		off_t at, int flags) __asm__(#symbol);                                  \
	ssize_t ts_file_##name(                                                         \
		int fd, const struct iovec *pieces, int count, off_t at, int flags)     \
	{                                                                               \
		if (flags != 0 && !ts_before_deed(fd))                                  \
			return -1;                                                      \
		return NEXT(name)(fd, pieces, count, at, flags);                        \
	}

/* The bytes do not come by the program. */
#define CALL_copy_file_range(symbol, name)                                                    \
	TS_EXPORT ssize_t ts_file_##name(int from, off_t *from_at, int to, off_t *to_at,      \
		size_t bytes, unsigned flags) __asm__(#symbol);                               \
	ssize_t ts_file_##name(                                                               \
		int from, off_t *from_at, int to, off_t *to_at, size_t bytes, unsigned flags) \
	{                                                                                     \
		ts_before_clone(from, to);                                                    \
		return NEXT(name)(from, from_at, to, to_at, bytes, flags);                    \
	}

/* A call that is asked of the original while the program goes on with the copy: @asking. */
#define CALL_ASKED_BY(type, symbol, name, asking, fd, parameters, arguments) \
	TS_EXPORT type ts_file_##name parameters __asm__(#symbol);           \
	type ts_file_##name parameters                                       \
	{                                                                    \
		int original = asking;                                       \
		if (original >= 0)                                           \
			fd = original;                                       \
		type r = NEXT(name) arguments;                               \
		if (original >= 0)                                           \
			ts_sys_close(original);                              \
		return r;                                                    \
	}

#define CALL_ASKED(type, symbol, name, parameters, arguments) \
	CALL_ASKED_BY(type, symbol, name, ts_before_asking(fd), fd, parameters, arguments)

#define CALL_fsync(symbol, name) CALL_ASKED(int, symbol, name, (int fd), (fd))
#define CALL_sync_file_range(symbol, name)                                             \
	CALL_ASKED(int, symbol, name, (int fd, off_t at, off_t bytes, unsigned flags), \
		(fd, at, bytes, flags))
#define CALL_fpathconf(symbol, name) \
	CALL_ASKED(long, symbol, name, (int fd, int what), (fd, what))
#define CALL_open_by_handle_at(symbol, name) \
	CALL_ASKED(int, symbol, name, (int fd, void *handle, int flags), (fd, handle, flags))

/* By a descriptor only where there is no path. */
#define CALL_ASKED_AT(symbol, name, parameters, arguments)                            \
	CALL_ASKED_BY(int, symbol, name, ts_before_asking_at(directory, path, flags), \
		directory, parameters, arguments)
#define CALL_faccessat(symbol, name)                                                        \
	CALL_ASKED_AT(symbol, name, (int directory, const char *path, int mode, int flags), \
		(directory, path, mode, flags))
#define CALL_name_to_handle_at(symbol, name)                                            \
	CALL_ASKED_AT(symbol, name,                                                     \
		(int directory, const char *path, void *handle, int *mount, int flags), \
		(directory, path, handle, mount, flags))
#define CALL_fanotify_mark(symbol, name)                                                     \
	CALL_ASKED_BY(int, symbol, name, path ? -1 : ts_before_asking(directory), directory, \
		(int group, unsigned flags, uint64_t mask, int directory, const char *path), \
		(group, flags, mask, directory, path))

/* Holes are the original's; the position stays the copy's. */
#define CALL_lseek(symbol, name)                                                           \
	TS_EXPORT off_t ts_file_##name(int fd, off_t offset, int whence) __asm__(#symbol); \
	off_t ts_file_##name(int fd, off_t offset, int whence)                             \
	{                                                                                  \
		int original = TS_LIKELY(whence <= SEEK_END) ? -1 : ts_before_asking(fd);  \
		if (TS_LIKELY(original < 0))                                               \
			return NEXT(name)(fd, offset, whence);                             \
		off_t found = NEXT(name)(original, offset, whence);                        \
		ts_sys_close(original);                                                    \
		return found < 0 ? found : NEXT(name)(fd, found, SEEK_SET);                \
	}

#define CALL_fgetxattr(symbol, name)                                        \
	CALL_ASKED(ssize_t, symbol, name,                                   \
		(int fd, const char *attribute, void *value, size_t bytes), \
		(fd, attribute, value, bytes))
#define CALL_flistxattr(symbol, name) \
	CALL_ASKED(ssize_t, symbol, name, (int fd, char *list, size_t bytes), (fd, list, bytes))
#define CALL_fstatfs(symbol, name) \
	CALL_ASKED(int, symbol, name, (int fd, void *ret_stat), (fd, ret_stat))

/* Calls of which some are harmless. */
#define CALL_ioctl(symbol, name)                                                             \
	TS_EXPORT int ts_file_##name(int fd, unsigned long request, void *argument) __asm__( \
		#symbol);                                                                    \
	int ts_file_##name(int fd, unsigned long request, void *argument)                    \
	{                                                                                    \
		if (!ts_before_ioctl(fd, request, argument))                                 \
			return -1;                                                           \
		return NEXT(name)(fd, request, argument);                                    \
	}

#define CALL_fcntl(symbol, name)                                                            \
	TS_EXPORT int ts_file_##name(int fd, int command, void *argument) __asm__(#symbol); \
	int ts_file_##name(int fd, int command, void *argument)                             \
	{                                                                                   \
		if (!ts_before_fcntl(fd, command, argument))                                \
			return -1;                                                          \
		return NEXT(name)(fd, command, argument);                                   \
	}

#define CALL_lockf(symbol, name)                                                         \
	TS_EXPORT int ts_file_##name(int fd, int command, off_t bytes) __asm__(#symbol); \
	int ts_file_##name(int fd, int command, off_t bytes)                             \
	{                                                                                \
		if (!ts_before_lockf(fd))                                                \
			return -1;                                                       \
		return NEXT(name)(fd, command, bytes);                                   \
	}

/* Names of open files in /proc. */
#define CALL_NAMED(symbol, name, directory, parameters, arguments)           \
	TS_EXPORT ssize_t ts_file_##name parameters __asm__(#symbol);        \
	ssize_t ts_file_##name parameters                                    \
	{                                                                    \
		ssize_t r = NEXT(name) arguments;                            \
		return ts_after_readlink(directory, path, buffer, bytes, r); \
	}

#define CALL_readlink(symbol, name)                                                        \
	CALL_NAMED(symbol, name, AT_FDCWD, (const char *path, char *buffer, size_t bytes), \
		(path, buffer, bytes))
#define CALL_readlinkat(symbol, name)                                          \
	CALL_NAMED(symbol, name, directory,                                    \
		(int directory, const char *path, char *buffer, size_t bytes), \
		(directory, path, buffer, bytes))
#define CALL_readlink_chk(symbol, name)                                      \
	CALL_NAMED(symbol, name, AT_FDCWD,                                   \
		(const char *path, char *buffer, size_t bytes, size_t room), \
		(path, buffer, bytes, room))
#define CALL_readlinkat_chk(symbol, name)                                                   \
	CALL_NAMED(symbol, name, directory,                                                 \
		(int directory, const char *path, char *buffer, size_t bytes, size_t room), \
		(directory, path, buffer, bytes, room))

#define TS_X(symbol, name, kind) CALL_##kind(symbol, name)
TS_FILE_DEEDS(TS_X)
#undef TS_X
