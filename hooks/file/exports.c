/* SPDX-License-Identifier: MIT */
/*
 * The exported open family: trampolines, nothing else.  Unless this thread makes a sample
 * (hooks/file/opens.h) or files are staged (hooks/file/staged.h) each is three loads and a
 * jump: errno, cancellation and signals are the real call's.
 *
 * The mode is a named parameter here, and passed on as it came, garbage where the caller gave
 * none: on the targets we build for it travels in the same register either way, and only the
 * real call knows when to look at it.
 */
#include "hooks/file/conductor.h"
#include "hooks/file/next.h"
#include "shim/atomic.h"

#include <fcntl.h>

#define NEXT(name) ts_load_relaxed(&ts_file_next.name)

/* Where the path is known, the storage need not be asked. */
#define AROUND_OPEN(directory, path, flags, asked)                         \
	do {                                                               \
		struct ts_file_call call;                                  \
		if (TS_LIKELY(!ts_file_is_watched()))                      \
			return asked;                                      \
		if (!ts_before_opening(directory, path, flags))            \
			return -1;                                         \
		int known = ts_before_open(&call, directory, path, flags); \
		return known >= 0 ? known : ts_after_open(&call, asked);   \
	} while (0)

#define CALL_open(symbol, name)                                                           \
	TS_EXPORT int ts_file_##name(const char *path, int flags, unsigned mode) __asm__( \
		#symbol);                                                                 \
	int ts_file_##name(const char *path, int flags, unsigned mode)                    \
	{                                                                                 \
		AROUND_OPEN(AT_FDCWD, path, flags, NEXT(name)(path, flags, mode));        \
	}

#define CALL_openat(symbol, name)                                                              \
	TS_EXPORT int ts_file_##name(                                                          \
		int directory, const char *path, int flags, unsigned mode) __asm__(#symbol);   \
	int ts_file_##name(int directory, const char *path, int flags, unsigned mode)          \
	{                                                                                      \
		AROUND_OPEN(directory, path, flags, NEXT(name)(directory, path, flags, mode)); \
	}

#define CALL_open_2(symbol, name)                                                   \
	TS_EXPORT int ts_file_##name(const char *path, int flags) __asm__(#symbol); \
	int ts_file_##name(const char *path, int flags)                             \
	{                                                                           \
		AROUND_OPEN(AT_FDCWD, path, flags, NEXT(name)(path, flags));        \
	}

#define CALL_openat_2(symbol, name)                                                       \
	TS_EXPORT int ts_file_##name(int directory, const char *path, int flags) __asm__( \
		#symbol);                                                                 \
	int ts_file_##name(int directory, const char *path, int flags)                    \
	{                                                                                 \
		AROUND_OPEN(directory, path, flags, NEXT(name)(directory, path, flags));  \
	}

#define CALL_creat(symbol, name)                                                         \
	TS_EXPORT int ts_file_##name(const char *path, unsigned mode) __asm__(#symbol);  \
	int ts_file_##name(const char *path, unsigned mode)                              \
	{                                                                                \
		AROUND_OPEN(AT_FDCWD, path, O_WRONLY | O_CREAT, NEXT(name)(path, mode)); \
	}

#define CALL_fopen(symbol, name)                                                             \
	TS_EXPORT FILE *ts_file_##name(const char *path, const char *mode) __asm__(#symbol); \
	FILE *ts_file_##name(const char *path, const char *mode)                             \
	{                                                                                    \
		struct ts_file_call call;                                                    \
		if (TS_LIKELY(!ts_file_is_watched()))                                        \
			return NEXT(name)(path, mode);                                       \
		if (!ts_before_fopening(path, mode))                                         \
			return NULL;                                                         \
		FILE *known = ts_before_fopen(&call, path, mode);                            \
		return known ? known : ts_after_fopen(&call, NEXT(name)(path, mode));        \
	}

#define CALL_freopen(symbol, name)                                                  \
	TS_EXPORT FILE *ts_file_##name(                                             \
		const char *path, const char *mode, FILE *stream) __asm__(#symbol); \
	FILE *ts_file_##name(const char *path, const char *mode, FILE *stream)      \
	{                                                                           \
		struct ts_file_call call;                                           \
		if (TS_LIKELY(!ts_file_is_watched()))                               \
			return NEXT(name)(path, mode, stream);                      \
		if (!ts_before_freopen(&call, path, mode, stream))                  \
			return NULL;                                                \
		return ts_after_fopen(&call, NEXT(name)(path, mode, stream));       \
	}

#define TS_X(symbol, name, kind) CALL_##kind(symbol, name)
TS_FILE_OPENS(TS_X)
#undef TS_X
