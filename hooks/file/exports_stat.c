/* SPDX-License-Identifier: MIT */
/*
 * The exported calls that ask about an open file: trampolines, nothing else.  Unless files are
 * staged each is two loads and a jump.
 */
#include "hooks/file/next.h"
#include "hooks/file/staged.h"
#include "shim/atomic.h"

#include <fcntl.h>

#define NEXT(name) ts_load_relaxed(&ts_file_next.name)

#define IS_STAGING TS_UNLIKELY(ts_load_relaxed(&ts_staged_on))

#define CALL_fstat(symbol, name)                                                      \
	TS_EXPORT int ts_file_##name(int fd, struct stat *ret_stat) __asm__(#symbol); \
	int ts_file_##name(int fd, struct stat *ret_stat)                             \
	{                                                                             \
		int r = NEXT(name)(fd, ret_stat);                                     \
		if (IS_STAGING && r == 0)                                             \
			ts_staged_answer(ret_stat);                                   \
		return r;                                                             \
	}

#define CALL_fxstat(symbol, name)                                                         \
	TS_EXPORT int ts_file_##name(int version, int fd, struct stat *ret_stat) __asm__( \
		#symbol);                                                                 \
	int ts_file_##name(int version, int fd, struct stat *ret_stat)                    \
	{                                                                                 \
		int r = NEXT(name)(version, fd, ret_stat);                                \
		if (IS_STAGING && r == 0)                                                 \
			ts_staged_answer(ret_stat);                                       \
		return r;                                                                 \
	}

#define CALL_fstatat(symbol, name)                                                            \
	TS_EXPORT int ts_file_##name(int directory, const char *path, struct stat *ret_stat,  \
		int flags) __asm__(#symbol);                                                  \
	int ts_file_##name(int directory, const char *path, struct stat *ret_stat, int flags) \
	{                                                                                     \
		int r = NEXT(name)(directory, path, ret_stat, flags);                         \
		if (IS_STAGING && r == 0 && (flags & AT_EMPTY_PATH) != 0)                     \
			ts_staged_answer(ret_stat);                                           \
		return r;                                                                     \
	}

#define CALL_fxstatat(symbol, name)                                                \
	TS_EXPORT int ts_file_##name(int version, int directory, const char *path, \
		struct stat *ret_stat, int flags) __asm__(#symbol);                \
	int ts_file_##name(int version, int directory, const char *path,           \
		struct stat *ret_stat, int flags)                                  \
	{                                                                          \
		int r = NEXT(name)(version, directory, path, ret_stat, flags);     \
		if (IS_STAGING && r == 0 && (flags & AT_EMPTY_PATH) != 0)          \
			ts_staged_answer(ret_stat);                                \
		return r;                                                          \
	}

#define CALL_statx(symbol, name)                                                      \
	TS_EXPORT int ts_file_##name(int directory, const char *path, int flags,      \
		unsigned mask, struct statx *ret_stat) __asm__(#symbol);              \
	int ts_file_##name(int directory, const char *path, int flags, unsigned mask, \
		struct statx *ret_stat)                                               \
	{                                                                             \
		int r = NEXT(name)(directory, path, flags, mask, ret_stat);           \
		if (IS_STAGING && r == 0 && (flags & AT_EMPTY_PATH) != 0)             \
			ts_staged_answer_x(directory, path, ret_stat);                \
		return r;                                                             \
	}

#define TS_X(symbol, name, kind) CALL_##kind(symbol, name)
TS_FILE_STATS(TS_X)
#undef TS_X
