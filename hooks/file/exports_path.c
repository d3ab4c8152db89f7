/* SPDX-License-Identifier: MIT */
/*
 * The exported calls that change where a path leads or what is there: trampolines, nothing
 * else.  Unless paths are known (hooks/file/known.h) each is two loads and a jump.
 */
#include "hooks/file/conductor.h"
#include "hooks/file/next.h"
#include "shim/atomic.h"

#include <fcntl.h>

#define NEXT(name) ts_load_relaxed(&ts_file_next.name)

#define CALL_PATH(symbol, name, parameters, arguments, directory) \
	TS_EXPORT int ts_file_##name parameters __asm__(#symbol); \
	int ts_file_##name parameters                             \
	{                                                         \
		int r = NEXT(name) arguments;                     \
		ts_after_change(r, directory, path);              \
		return r;                                         \
	}

/* The same of what a name of an open file leads to as well; @how has AT_EMPTY_PATH or not. */
#define CALL_FILE(symbol, name, parameters, arguments, directory, how) \
	TS_EXPORT int ts_file_##name parameters __asm__(#symbol);      \
	int ts_file_##name parameters                                  \
	{                                                              \
		if (!ts_before_path(directory, path, how))             \
			return -1;                                     \
		int r = NEXT(name) arguments;                          \
		ts_after_change(r, directory, path);                   \
		return r;                                              \
	}

#define CALL_TWO_PATHS(symbol, name, parameters, arguments, from_directory, directory) \
	TS_EXPORT int ts_file_##name parameters __asm__(#symbol);                      \
	int ts_file_##name parameters                                                  \
	{                                                                              \
		int r = NEXT(name) arguments;                                          \
		ts_after_change(r, from_directory, from);                              \
		ts_after_change(r, directory, path);                                   \
		return r;                                                              \
	}

/* Behind it paths lead elsewhere. */
#define CALL_ROOT(symbol, name, parameters, arguments)            \
	TS_EXPORT int ts_file_##name parameters __asm__(#symbol); \
	int ts_file_##name parameters                             \
	{                                                         \
		ts_before_root();                                 \
		return NEXT(name) arguments;                      \
	}

#define CALL_unlink(symbol, name) CALL_PATH(symbol, name, (const char *path), (path), AT_FDCWD)
#define CALL_unlinkat(symbol, name)                                           \
	CALL_PATH(symbol, name, (int directory, const char *path, int flags), \
		(directory, path, flags), directory)
#define CALL_rename(symbol, name)                                                        \
	CALL_TWO_PATHS(symbol, name, (const char *from, const char *path), (from, path), \
		AT_FDCWD, AT_FDCWD)
#define CALL_renameat(symbol, name)                                                      \
	CALL_TWO_PATHS(symbol, name,                                                     \
		(int from_directory, const char *from, int directory, const char *path), \
		(from_directory, from, directory, path), from_directory, directory)
#define CALL_renameat2(symbol, name)                                                    \
	CALL_TWO_PATHS(symbol, name,                                                    \
		(int from_directory, const char *from, int directory, const char *path, \
			unsigned flags),                                                \
		(from_directory, from, directory, path, flags), from_directory, directory)
#define CALL_linkat(symbol, name)                                                         \
	TS_EXPORT int ts_file_##name(int from_directory, const char *from, int directory, \
		const char *path, int flags) __asm__(#symbol);                            \
	int ts_file_##name(int from_directory, const char *from, int directory,           \
		const char *path, int flags)                                              \
	{                                                                                 \
		if (!ts_before_path(from_directory, from, flags))                         \
			return -1;                                                        \
		int r = NEXT(name)(from_directory, from, directory, path, flags);         \
		ts_after_change(r, from_directory, from);                                 \
		ts_after_change(r, directory, path);                                      \
		return r;                                                                 \
	}
#define CALL_truncate(symbol, name) \
	CALL_FILE(symbol, name, (const char *path, off_t bytes), (path, bytes), AT_FDCWD, 0)
#define CALL_chmod(symbol, name) \
	CALL_FILE(symbol, name, (const char *path, unsigned mode), (path, mode), AT_FDCWD, 0)
#define CALL_fchmodat(symbol, name)                                                          \
	CALL_FILE(symbol, name, (int directory, const char *path, unsigned mode, int flags), \
		(directory, path, mode, flags), directory, flags)
#define CALL_chown(symbol, name)                                                   \
	CALL_FILE(symbol, name, (const char *path, unsigned user, unsigned group), \
		(path, user, group), AT_FDCWD, 0)
#define CALL_fchownat(symbol, name)                                                          \
	CALL_FILE(symbol, name,                                                              \
		(int directory, const char *path, unsigned user, unsigned group, int flags), \
		(directory, path, user, group, flags), directory, flags)
#define CALL_utimes(symbol, name)                                                     \
	CALL_FILE(symbol, name, (const char *path, const void *times), (path, times), \
		AT_FDCWD, 0)
#define CALL_utimensat(symbol, name)                                             \
	CALL_FILE(symbol, name,                                                  \
		(int directory, const char *path, const void *times, int flags), \
		(directory, path, times, flags), directory, flags)
#define CALL_futimesat(symbol, name)                                                  \
	CALL_FILE(symbol, name, (int directory, const char *path, const void *times), \
		(directory, path, times), directory, path ? 0 : AT_EMPTY_PATH)
/* Of a symbolic link the first text is none that leads anywhere yet. */
#define CALL_symlink(symbol, name)                                                      \
	CALL_PATH(symbol, name, (const char *target, const char *path), (target, path), \
		AT_FDCWD)
#define CALL_mkdir(symbol, name) \
	CALL_PATH(symbol, name, (const char *path, unsigned mode), (path, mode), AT_FDCWD)
#define CALL_mkdirat(symbol, name)                                                \
	CALL_PATH(symbol, name, (int directory, const char *path, unsigned mode), \
		(directory, path, mode), directory)
#define CALL_mknod(symbol, name)                                                 \
	CALL_PATH(symbol, name, (const char *path, unsigned mode, dev_t device), \
		(path, mode, device), AT_FDCWD)
#define CALL_mknodat(symbol, name)                                              \
	CALL_PATH(symbol, name,                                                 \
		(int directory, const char *path, unsigned mode, dev_t device), \
		(directory, path, mode, device), directory)
#define CALL_symlinkat(symbol, name)                                                   \
	CALL_PATH(symbol, name, (const char *target, int directory, const char *path), \
		(target, directory, path), directory)
#define CALL_setxattr(symbol, name)                                                        \
	CALL_FILE(symbol, name,                                                            \
		(const char *path, const char *attribute, const void *value, size_t bytes, \
			int flags),                                                        \
		(path, attribute, value, bytes, flags), AT_FDCWD, 0)
#define CALL_removexattr(symbol, name)                                                        \
	CALL_FILE(symbol, name, (const char *path, const char *attribute), (path, attribute), \
		AT_FDCWD, 0)
#define CALL_chroot(symbol, name)  CALL_ROOT(symbol, name, (const char *path), (path))
#define CALL_unshare(symbol, name) CALL_ROOT(symbol, name, (int flags), (flags))
#define CALL_setns(symbol, name)   CALL_ROOT(symbol, name, (int fd, int kind), (fd, kind))

#define TS_X(symbol, name, kind) CALL_##kind(symbol, name)
TS_FILE_CHANGES(TS_X)
#undef TS_X
