/* SPDX-License-Identifier: MIT */
/*
 * The open family as it would be without us: for each call the next definition in load
 * order behind ours (another preload's, else the C library's), as RTLD_NEXT would find it.
 * dlsym is not in a glibc 2.28 libc.so.6, so the loaded objects are read (shim/elf.h).
 */
#ifndef TS_HOOKS_FILE_NEXT_H
#define TS_HOOKS_FILE_NEXT_H

#include "shim/base.h"

#include <stdio.h>
#include <sys/stat.h>

typedef int ts_open_call(const char *path, int flags, ...);
typedef int ts_openat_call(int directory, const char *path, int flags, ...);
typedef int ts_open_2_call(const char *path, int flags);
typedef int ts_openat_2_call(int directory, const char *path, int flags);
typedef int ts_creat_call(const char *path, unsigned mode);
typedef FILE *ts_fopen_call(const char *path, const char *mode);
typedef FILE *ts_freopen_call(const char *path, const char *mode, FILE *stream);
typedef int ts_fstat_call(int fd, struct stat *ret_stat);
typedef int ts_fxstat_call(int version, int fd, struct stat *ret_stat);
typedef int ts_fstatat_call(int directory, const char *path, struct stat *ret_stat, int flags);
typedef int ts_fxstatat_call(
	int version, int directory, const char *path, struct stat *ret_stat, int flags);
typedef int ts_statx_call(
	int directory, const char *path, int flags, unsigned mask, struct statx *ret_stat);

/*
 * Every call we stand in front of: the symbol, our name for it, and its kind.  What is called
 * _2 is what a fortified program calls where it gives no mode.
 */
#define TS_FILE_OPENS(X)                      \
	X(open, open, open)                   \
	X(open64, open64, open)               \
	X(openat, openat, openat)             \
	X(openat64, openat64, openat)         \
	X(__open_2, open_2, open_2)           \
	X(__open64_2, open64_2, open_2)       \
	X(__openat_2, openat_2, openat_2)     \
	X(__openat64_2, openat64_2, openat_2) \
	X(creat, creat, creat)                \
	X(creat64, creat64, creat)            \
	X(fopen, fopen, fopen)                \
	X(fopen64, fopen64, fopen)            \
	X(freopen, freopen, freopen)          \
	X(freopen64, freopen64, freopen)

/* What asks about a descriptor.  Programs built before glibc 2.33 call those that begin with
 * __, and a C library older than that has no others. */
#define TS_FILE_STATS(X)                      \
	X(fstat, fstat, fstat)                \
	X(fstat64, fstat64, fstat)            \
	X(__fxstat, fxstat, fxstat)           \
	X(__fxstat64, fxstat64, fxstat)       \
	X(fstatat, fstatat, fstatat)          \
	X(fstatat64, fstatat64, fstatat)      \
	X(__fxstatat, fxstatat, fxstatat)     \
	X(__fxstatat64, fxstatat64, fxstatat) \
	X(statx, statx, statx)

#define TS_FILE_CALLS(X) \
	TS_FILE_OPENS(X) \
	TS_FILE_STATS(X)

/**
 * The next definitions.  Until our constructor has run, other libraries' constructors may call
 * already; then these are the bare system calls, and for streams a search at the first call.
 * Threads: loads and stores relaxed; a call that raced with the constructor takes either.
 */
struct ts_file_next {
#define TS_X(symbol, name, kind) ts_##kind##_call *_Atomic name;
	TS_FILE_CALLS(TS_X)
#undef TS_X
};

extern struct ts_file_next ts_file_next;

/** Find the definitions. Takes the loader's lock for a moment; may be called again. */
void ts_file_next_find(void);

#endif
