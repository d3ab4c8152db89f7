/* SPDX-License-Identifier: MIT */
/*
 * The exported calls that ask about a file, open or by its path: trampolines, nothing else.
 * Unless files are staged each is two loads and a jump.
 */
#include "hooks/file/conductor.h"
#include "hooks/file/next.h"
#include "shim/atomic.h"
#include "shim/sys.h"

#include <fcntl.h>

#define NEXT(name) ts_load_relaxed(&ts_file_next.name)

#define CALL_fstat(symbol, name)                                                      \
	TS_EXPORT int ts_file_##name(int fd, struct stat *ret_stat) __asm__(#symbol); \
	int ts_file_##name(int fd, struct stat *ret_stat)                             \
	{                                                                             \
		return ts_after_fstat(NEXT(name)(fd, ret_stat), ret_stat);            \
	}

#define CALL_fxstat(symbol, name)                                                         \
	TS_EXPORT int ts_file_##name(int version, int fd, struct stat *ret_stat) __asm__( \
		#symbol);                                                                 \
	int ts_file_##name(int version, int fd, struct stat *ret_stat)                    \
	{                                                                                 \
		return ts_after_fstat(NEXT(name)(version, fd, ret_stat), ret_stat);       \
	}

/* With @asked the call by path, which goes to the storage unless the path is known. */
#define BY_PATH(directory, path, is_link, asked)                               \
	do {                                                                   \
		struct ts_file_call call;                                      \
		if (!ts_file_knows_paths())                                    \
			return asked;                                          \
		if (ts_before_stat(&call, directory, path, is_link, ret_stat)) \
			return 0;                                              \
		return ts_after_stat(&call, asked, ret_stat);                  \
	} while (0)

/* Of the directory itself, or by a path relative to it. */
#define AT_DIRECTORY(asked)                                                                  \
	do {                                                                                 \
		if (ts_file_knows_paths() && (flags & ~AT_SYMLINK_NOFOLLOW) == 0)            \
			BY_PATH(directory, path, (flags & AT_SYMLINK_NOFOLLOW) != 0, asked); \
		return ts_after_fstatat(asked, flags, ret_stat);                             \
	} while (0)

#define CALL_fstatat(symbol, name)                                                            \
	TS_EXPORT int ts_file_##name(int directory, const char *path, struct stat *ret_stat,  \
		int flags) __asm__(#symbol);                                                  \
	int ts_file_##name(int directory, const char *path, struct stat *ret_stat, int flags) \
	{                                                                                     \
		AT_DIRECTORY(NEXT(name)(directory, path, ret_stat, flags));                   \
	}

#define CALL_fxstatat(symbol, name)                                                  \
	TS_EXPORT int ts_file_##name(int version, int directory, const char *path,   \
		struct stat *ret_stat, int flags) __asm__(#symbol);                  \
	int ts_file_##name(int version, int directory, const char *path,             \
		struct stat *ret_stat, int flags)                                    \
	{                                                                            \
		AT_DIRECTORY(NEXT(name)(version, directory, path, ret_stat, flags)); \
	}

#define CALL_BY_PATH(symbol, name, is_link)                                            \
	TS_EXPORT int ts_file_##name(const char *path, struct stat *ret_stat) __asm__( \
		#symbol);                                                              \
	int ts_file_##name(const char *path, struct stat *ret_stat)                    \
	{                                                                              \
		BY_PATH(AT_FDCWD, path, is_link, NEXT(name)(path, ret_stat));          \
	}

#define CALL_X_BY_PATH(symbol, name, is_link)                                           \
	TS_EXPORT int ts_file_##name(                                                   \
		int version, const char *path, struct stat *ret_stat) __asm__(#symbol); \
	int ts_file_##name(int version, const char *path, struct stat *ret_stat)        \
	{                                                                               \
		BY_PATH(AT_FDCWD, path, is_link, NEXT(name)(version, path, ret_stat));  \
	}

#define CALL_stat(symbol, name)   CALL_BY_PATH(symbol, name, false)
#define CALL_lstat(symbol, name)  CALL_BY_PATH(symbol, name, true)
#define CALL_xstat(symbol, name)  CALL_X_BY_PATH(symbol, name, false)
#define CALL_lxstat(symbol, name) CALL_X_BY_PATH(symbol, name, true)

#define CALL_statx(symbol, name)                                                      \
	TS_EXPORT int ts_file_##name(int directory, const char *path, int flags,      \
		unsigned mask, struct statx *ret_stat) __asm__(#symbol);              \
	int ts_file_##name(int directory, const char *path, int flags, unsigned mask, \
		struct statx *ret_stat)                                               \
	{                                                                             \
		int original = ts_before_statx(directory, path, flags, mask);         \
		int asked = original < 0 ? directory : original;                      \
		int r = NEXT(name)(asked, path, flags, mask, ret_stat);               \
		if (TS_LIKELY(original < 0))                                          \
			return ts_after_statx(r, directory, path, flags, ret_stat);   \
		ts_sys_close(original);                                               \
		return r;                                                             \
	}

#define TS_X(symbol, name, kind) CALL_##kind(symbol, name)
TS_FILE_STATS(TS_X)
#undef TS_X
