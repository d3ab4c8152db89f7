/* SPDX-License-Identifier: MIT */
/*
 * The exported calls that read directories: trampolines, nothing else.  Unless paths are known
 * (hooks/file/known.h) each is two loads and a jump.
 */
#include "hooks/file/conductor.h"
#include "hooks/file/listings.h"
#include "hooks/file/next.h"
#include "shim/atomic.h"

#define NEXT(name) ts_load_relaxed(&ts_file_next.name)

#define HAS_LISTINGS TS_UNLIKELY(ts_load_relaxed(&ts_listings_open))

/* Apart, so that what needs a place on the stack is no part of the jump. */
static TS_NOINLINE void *read_noted(DIR *stream, ts_readdir_call *next)
{
	void *entry;
	return ts_listings_read(stream, &entry) ? entry : next(stream);
}

static TS_NOINLINE long tell_noted(DIR *stream, ts_telldir_call *next)
{
	long place;
	return ts_listings_tell(stream, &place) ? place : next(stream);
}

#define CALL_OPENDIR(symbol, name, parameters, arguments, is_given) \
	TS_EXPORT DIR *ts_file_##name parameters __asm__(#symbol);  \
	DIR *ts_file_##name parameters                              \
	{                                                           \
		if (!ts_file_knows_paths())                         \
			return NEXT(name) arguments;                \
		DIR *stream = NEXT(name) arguments;                 \
		ts_listings_opened(stream, is_given);               \
		return stream;                                      \
	}

#define CALL_opendir(symbol, name)   CALL_OPENDIR(symbol, name, (const char *path), (path), false)
#define CALL_fdopendir(symbol, name) CALL_OPENDIR(symbol, name, (int fd), (fd), true)

#define CALL_readdir(symbol, name)                                    \
	TS_EXPORT void *ts_file_##name(DIR *stream) __asm__(#symbol); \
	void *ts_file_##name(DIR *stream)                             \
	{                                                             \
		if (HAS_LISTINGS)                                     \
			return read_noted(stream, NEXT(name));        \
		return NEXT(name)(stream);                            \
	}

#define CALL_readdir_r(symbol, name)                                                      \
	TS_EXPORT int ts_file_##name(DIR *stream, void *entry, void **ret_entry) __asm__( \
		#symbol);                                                                 \
	int ts_file_##name(DIR *stream, void *entry, void **ret_entry)                    \
	{                                                                                 \
		if (HAS_LISTINGS && ts_listings_read_into(stream, entry, ret_entry))      \
			return 0;                                                         \
		return NEXT(name)(stream, entry, ret_entry);                              \
	}

#define CALL_telldir(symbol, name)                                   \
	TS_EXPORT long ts_file_##name(DIR *stream) __asm__(#symbol); \
	long ts_file_##name(DIR *stream)                             \
	{                                                            \
		if (HAS_LISTINGS)                                    \
			return tell_noted(stream, NEXT(name));       \
		return NEXT(name)(stream);                           \
	}

#define CALL_seekdir(symbol, name)                                               \
	TS_EXPORT void ts_file_##name(DIR *stream, long place) __asm__(#symbol); \
	void ts_file_##name(DIR *stream, long place)                             \
	{                                                                        \
		if (HAS_LISTINGS && ts_listings_seek(stream, place))             \
			return;                                                  \
		NEXT(name)(stream, place);                                       \
	}

#define CALL_rewinddir(symbol, name)                                 \
	TS_EXPORT void ts_file_##name(DIR *stream) __asm__(#symbol); \
	void ts_file_##name(DIR *stream)                             \
	{                                                            \
		if (HAS_LISTINGS)                                    \
			ts_listings_rewind(stream);                  \
		NEXT(name)(stream);                                  \
	}

#define CALL_closedir(symbol, name)                                 \
	TS_EXPORT int ts_file_##name(DIR *stream) __asm__(#symbol); \
	int ts_file_##name(DIR *stream)                             \
	{                                                           \
		if (HAS_LISTINGS)                                   \
			ts_listings_close(stream);                  \
		return NEXT(name)(stream);                          \
	}

#define TS_X(symbol, name, kind) CALL_##kind(symbol, name)
TS_FILE_DIRECTORIES(TS_X)
#undef TS_X
