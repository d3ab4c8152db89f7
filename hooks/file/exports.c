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
#include "hooks/file/next.h"
#include "hooks/file/opens.h"
#include "hooks/file/staged.h"
#include "hooks/file/staged_restore.h"
#include "shim/atomic.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <string.h>

#define NEXT(name) ts_load_relaxed(&ts_file_next.name)

static bool is_watched(void)
{
	return ts_opens_armed || ts_load_relaxed(&ts_staged_on);
}

/* Listed first: what a sample was made from is the original. */
static int noted(int directory, const char *path, int flags, int fd)
{
	struct ts_opens *opens = ts_opens_armed;
	if (opens) /* still: a signal handler may have ended it */
		ts_opens_note(opens, directory, path, flags, fd);
	return fd;
}

static int watched(
	int directory, const char *path, int flags, int fd, const struct ts_known_call *call)
{
	(void)noted(directory, path, flags, fd);
	if (fd >= 0 && ts_load_relaxed(&ts_staged_on))
		ts_staged_open(fd, path, flags, call);
	return fd;
}

/* What fopen's mode asks for: only "r", with letters that do not matter here, is reading. */
static int flags_of(const char *mode)
{
	if (mode[0] != 'r')
		return O_WRONLY | O_CREAT;
	return strchr(mode, '+') ? O_RDWR : O_RDONLY;
}

/* Nothing was read from the stream yet, so its descriptor may become another file's. */
static FILE *watched_stream(
	const char *path, const char *mode, FILE *stream, const struct ts_known_call *call)
{
	(void)watched(AT_FDCWD, path, flags_of(mode), stream ? fileno(stream) : -1, call);
	return stream;
}

/* A stream of the copy, where the path is known. */
static FILE *known_stream(const char *path, const char *mode, struct ts_known_call *call)
{
	int flags = flags_of(mode) | (strchr(mode, 'e') ? O_CLOEXEC : 0);
	/* With a character set behind a comma only the real call knows what to do. */
	if (strchr(mode, ',')) {
		ts_known_look(AT_FDCWD, path, call);
		return NULL;
	}
	int fd = ts_known_open(AT_FDCWD, path, flags, call);
	if (fd < 0)
		return NULL;
	FILE *stream = fdopen(fd, mode);
	if (!stream)
		ts_sys_close(fd);
	else
		(void)noted(AT_FDCWD, path, flags, fd);
	return stream;
}

/* Where the path is known, the storage need not be asked. */
#define OPEN_KNOWN(directory, path, flags)                        \
	struct ts_known_call call;                                \
	int known = ts_known_open(directory, path, flags, &call); \
	if (known >= 0)                                           \
	return noted(directory, path, flags, known)

#define CALL_open(symbol, name)                                                              \
	TS_EXPORT int ts_file_##name(const char *path, int flags, unsigned mode) __asm__(    \
		#symbol);                                                                    \
	int ts_file_##name(const char *path, int flags, unsigned mode)                       \
	{                                                                                    \
		if (TS_LIKELY(!is_watched()))                                                \
			return NEXT(name)(path, flags, mode);                                \
		OPEN_KNOWN(AT_FDCWD, path, flags);                                           \
		return watched(AT_FDCWD, path, flags, NEXT(name)(path, flags, mode), &call); \
	}

#define CALL_openat(symbol, name)                                                            \
	TS_EXPORT int ts_file_##name(                                                        \
		int directory, const char *path, int flags, unsigned mode) __asm__(#symbol); \
	int ts_file_##name(int directory, const char *path, int flags, unsigned mode)        \
	{                                                                                    \
		if (TS_LIKELY(!is_watched()))                                                \
			return NEXT(name)(directory, path, flags, mode);                     \
		OPEN_KNOWN(directory, path, flags);                                          \
		return watched(directory, path, flags,                                       \
			NEXT(name)(directory, path, flags, mode), &call);                    \
	}

#define CALL_open_2(symbol, name)                                                      \
	TS_EXPORT int ts_file_##name(const char *path, int flags) __asm__(#symbol);    \
	int ts_file_##name(const char *path, int flags)                                \
	{                                                                              \
		if (TS_LIKELY(!is_watched()))                                          \
			return NEXT(name)(path, flags);                                \
		OPEN_KNOWN(AT_FDCWD, path, flags);                                     \
		return watched(AT_FDCWD, path, flags, NEXT(name)(path, flags), &call); \
	}

#define CALL_openat_2(symbol, name)                                                         \
	TS_EXPORT int ts_file_##name(int directory, const char *path, int flags) __asm__(   \
		#symbol);                                                                   \
	int ts_file_##name(int directory, const char *path, int flags)                      \
	{                                                                                   \
		if (TS_LIKELY(!is_watched()))                                               \
			return NEXT(name)(directory, path, flags);                          \
		OPEN_KNOWN(directory, path, flags);                                         \
		return watched(                                                             \
			directory, path, flags, NEXT(name)(directory, path, flags), &call); \
	}

#define CALL_creat(symbol, name)                                                            \
	TS_EXPORT int ts_file_##name(const char *path, unsigned mode) __asm__(#symbol);     \
	int ts_file_##name(const char *path, unsigned mode)                                 \
	{                                                                                   \
		if (TS_LIKELY(!is_watched()))                                               \
			return NEXT(name)(path, mode);                                      \
		OPEN_KNOWN(AT_FDCWD, path, O_WRONLY | O_CREAT);                             \
		return watched(                                                             \
			AT_FDCWD, path, O_WRONLY | O_CREAT, NEXT(name)(path, mode), &call); \
	}

#define CALL_fopen(symbol, name)                                                             \
	TS_EXPORT FILE *ts_file_##name(const char *path, const char *mode) __asm__(#symbol); \
	FILE *ts_file_##name(const char *path, const char *mode)                             \
	{                                                                                    \
		if (TS_LIKELY(!is_watched()))                                                \
			return NEXT(name)(path, mode);                                       \
		struct ts_known_call call;                                                   \
		FILE *known = known_stream(path, mode, &call);                               \
		if (known)                                                                   \
			return known;                                                        \
		return watched_stream(path, mode, NEXT(name)(path, mode), &call);            \
	}

#define CALL_freopen(symbol, name)                                                        \
	TS_EXPORT FILE *ts_file_##name(                                                   \
		const char *path, const char *mode, FILE *stream) __asm__(#symbol);       \
	FILE *ts_file_##name(const char *path, const char *mode, FILE *stream)            \
	{                                                                                 \
		if (TS_LIKELY(!is_watched()))                                             \
			return NEXT(name)(path, mode, stream);                            \
		/* Without a path it is the file that is open, with another mode. */      \
		if (!path && stream && !ts_staged_give_back(fileno(stream)))              \
			return NULL;                                                      \
		struct ts_known_call call;                                                \
		ts_known_look(AT_FDCWD, path, &call);                                     \
		return watched_stream(path, mode, NEXT(name)(path, mode, stream), &call); \
	}

#define TS_X(symbol, name, kind) CALL_##kind(symbol, name)
TS_FILE_OPENS(TS_X)
#undef TS_X
