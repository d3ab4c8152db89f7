/* SPDX-License-Identifier: MIT */
/*
 * The exported calls of the C library that open files and tell attributes, and what happens
 * around each; exports_fd.c has the others.
 *
 *	open for reading     a known path: its copy.  Else the real call; it is listed,
 *	                     a copy comes in its place, and the path is known
 *	open for writing     the real call; below DIR this job knows no paths any more
 *	stat by path         a known path: its attributes.  Else the real call
 *	stat by descriptor   the real call; a copy answers as its original
 *
 * The questions are inline, and where nothing is on each is one load: an export is two or three
 * loads and a jump.  What a real call does not have to be made for has the answer in errno as
 * well; else errno, cancellation and signals are the real call's.
 *
 * Optional arguments are passed on as they came, garbage where the caller gave none: on the
 * targets we build for they travel in the same register either way, and only the real call
 * knows when to look at one.
 *
 * Each name is defined as it stands: nothing may make open64 of open here, nor define calls
 * that check their arguments first.
 */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE

#include "hooks/file/known.h"
#include "hooks/file/next.h"
#include "hooks/file/staged.h"
#include "leader/inputs/opens.h"
#include "shim/sys.h"

#include <stdarg.h>
#include <string.h>

/* Whether somebody wants to hear of what this thread opens. */
static inline bool is_watched(void)
{
	return TS_UNLIKELY(ts_opens_armed || ts_load_relaxed(&ts_staged_on));
}

/* ---- opening, while it is watched ------------------------------------------------------- */

/* One call on a path, from before it is made. */
struct call {
	int directory, flags;
	const char *path;
	struct ts_known_call known;
};

/* What a sample was made from is the original, also where a known path gave a copy at once. */
static void note(const struct call *call, int fd)
{
	struct ts_opens *opens = ts_opens_armed;
	struct stat original;
	if (!opens) /* any more: a signal handler may have ended it */
		return;
	bool is_staged = ts_staged_is_on() && fd >= 0 && ts_sys_fstat(fd, &original) == 0;
	if (is_staged)
		ts_staged_answer(&original);
	ts_opens_note(opens, call->directory, call->path, call->flags, fd,
		is_staged ? &original : NULL);
}

/* Before an open that a copy cannot take by a name in /proc.  False, with errno: make none. */
static bool may_open(const struct call *call)
{
	const int other = O_ACCMODE | O_TRUNC | O_APPEND | O_DIRECT | O_PATH;
	return TS_LIKELY((call->flags & other) == O_RDONLY) || !ts_staged_is_on() ||
	       ts_staged_before_path(call->directory, call->path, 0);
}

/* Whether *ret_fd is the answer: an error, or a descriptor of the copy of a known path. */
static inline bool before_open(struct call *call, int *ret_fd)
{
	*ret_fd = -1;
	if (!may_open(call))
		return true;
	*ret_fd = ts_known_open(call->directory, call->path, call->flags, &call->known);
	if (*ret_fd < 0)
		return false;
	note(call, *ret_fd);
	return true;
}

/* The call gave @fd, or -1 with errno.  Returns it: the number stays, the file may not. */
static TS_NOINLINE int after_open(const struct call *call, int fd)
{
	struct ts_staged_given given;
	note(call, fd);
	if (fd < 0 || !ts_staged_is_on())
		return fd;
	if ((call->flags & (O_ACCMODE | O_CREAT | O_TRUNC)) != O_RDONLY)
		ts_known_written(&call->known, fd);
	else if (ts_staged_open(fd, call->path, call->flags, &given))
		ts_known_note_copy(&call->known, &given);
	return fd;
}

static inline int watch_open(
	__typeof__(open) *next, const char *path, int flags, unsigned mode)
{
	struct call call = {.directory = AT_FDCWD, .path = path, .flags = flags};
	int fd;
	return before_open(&call, &fd) ? fd : after_open(&call, next(path, flags, mode));
}

static inline int watch_openat(
	__typeof__(openat) *next, int directory, const char *path, int flags, unsigned mode)
{
	struct call call = {.directory = directory, .path = path, .flags = flags};
	int fd;
	return before_open(&call, &fd) ? fd
				       : after_open(&call, next(directory, path, flags, mode));
}

static inline int watch_open_2(__typeof__(__open_2) *next, const char *path, int flags)
{
	struct call call = {.directory = AT_FDCWD, .path = path, .flags = flags};
	int fd;
	return before_open(&call, &fd) ? fd : after_open(&call, next(path, flags));
}

static inline int watch_openat_2(
	__typeof__(__openat_2) *next, int directory, const char *path, int flags)
{
	struct call call = {.directory = directory, .path = path, .flags = flags};
	int fd;
	return before_open(&call, &fd) ? fd : after_open(&call, next(directory, path, flags));
}

static inline int watch_creat(__typeof__(creat) *next, const char *path, mode_t mode)
{
	struct call call = {.directory = AT_FDCWD, .path = path, .flags = O_WRONLY | O_CREAT};
	int fd;
	return before_open(&call, &fd) ? fd : after_open(&call, next(path, mode));
}

/* The parameter of an open that makes a file. */
#define TAKE_MODE(flags)                        \
	va_list list;                           \
	va_start(list, flags);                  \
	unsigned mode = va_arg(list, unsigned); \
	va_end(list)

TS_EXPORT int open(const char *path, int flags, ...)
{
	TAKE_MODE(flags);
	return is_watched() ? watch_open(TS_NEXT(open), path, flags, mode)
			    : TS_NEXT(open)(path, flags, mode);
}

TS_EXPORT int open64(const char *path, int flags, ...)
{
	TAKE_MODE(flags);
	return is_watched() ? watch_open(TS_NEXT(open64), path, flags, mode)
			    : TS_NEXT(open64)(path, flags, mode);
}

TS_EXPORT int openat(int directory, const char *path, int flags, ...)
{
	TAKE_MODE(flags);
	return is_watched() ? watch_openat(TS_NEXT(openat), directory, path, flags, mode)
			    : TS_NEXT(openat)(directory, path, flags, mode);
}

TS_EXPORT int openat64(int directory, const char *path, int flags, ...)
{
	TAKE_MODE(flags);
	return is_watched() ? watch_openat(TS_NEXT(openat64), directory, path, flags, mode)
			    : TS_NEXT(openat64)(directory, path, flags, mode);
}

TS_EXPORT int __open_2(const char *path, int flags)
{
	return is_watched() ? watch_open_2(TS_NEXT(__open_2), path, flags)
			    : TS_NEXT(__open_2)(path, flags);
}

TS_EXPORT int __open64_2(const char *path, int flags)
{
	return is_watched() ? watch_open_2(TS_NEXT(__open64_2), path, flags)
			    : TS_NEXT(__open64_2)(path, flags);
}

TS_EXPORT int __openat_2(int directory, const char *path, int flags)
{
	return is_watched() ? watch_openat_2(TS_NEXT(__openat_2), directory, path, flags)
			    : TS_NEXT(__openat_2)(directory, path, flags);
}

TS_EXPORT int __openat64_2(int directory, const char *path, int flags)
{
	return is_watched() ? watch_openat_2(TS_NEXT(__openat64_2), directory, path, flags)
			    : TS_NEXT(__openat64_2)(directory, path, flags);
}

TS_EXPORT int creat(const char *path, mode_t mode)
{
	return is_watched() ? watch_creat(TS_NEXT_LATE(creat), path, mode)
			    : TS_NEXT_LATE(creat)(path, mode);
}

TS_EXPORT int creat64(const char *path, mode_t mode)
{
	return is_watched() ? watch_creat(TS_NEXT_LATE(creat64), path, mode)
			    : TS_NEXT_LATE(creat64)(path, mode);
}

/* ---- streams ---------------------------------------------------------------------------- */

/* What fopen's mode asks for: only "r", with letters that do not matter here, is reading. */
static int flags_of(const char *mode)
{
	if (mode[0] != 'r')
		return O_WRONLY | O_CREAT;
	return strchr(mode, '+') ? O_RDWR : O_RDONLY;
}

/* Whether *ret_stream is the answer: NULL with errno, or a stream of a known path's copy. */
static TS_NOINLINE bool before_fopen(struct call *call, const char *mode, FILE **ret_stream)
{
	int cloexec = strchr(mode, 'e') ? O_CLOEXEC : 0;
	*ret_stream = NULL;
	if (!may_open(call))
		return true;
	/* With a character set behind a comma only the real call knows what to do. */
	if (strchr(mode, ',')) {
		ts_known_look(AT_FDCWD, call->path, &call->known);
		return false;
	}
	int fd = ts_known_open(AT_FDCWD, call->path, call->flags | cloexec, &call->known);
	if (fd < 0)
		return false;
	*ret_stream = fdopen(fd, mode);
	if (*ret_stream)
		note(call, fd);
	else
		ts_sys_close(fd);
	return *ret_stream != NULL;
}

/* Before freopen(3), which no copy can answer.  False, with errno: it must not be made. */
static TS_NOINLINE bool before_freopen(struct call *call, FILE *stream)
{
	/* Without a path it is the file that is open, with another mode. */
	if (call->path ? !may_open(call) : stream && !ts_staged_give_back(fileno(stream)))
		return false;
	ts_known_look(AT_FDCWD, call->path, &call->known);
	return true;
}

/* Nothing was read from the stream yet, so its descriptor may become another file's. */
static FILE *after_fopen(const struct call *call, FILE *stream)
{
	(void)after_open(call, stream ? fileno(stream) : -1);
	return stream;
}

static TS_NOINLINE FILE *watch_fopen(
	__typeof__(fopen) *next, const char *path, const char *mode)
{
	struct call call = {.directory = AT_FDCWD, .path = path, .flags = flags_of(mode)};
	FILE *stream;
	return before_fopen(&call, mode, &stream) ? stream
						  : after_fopen(&call, next(path, mode));
}

static TS_NOINLINE FILE *watch_freopen(
	__typeof__(freopen) *next, const char *path, const char *mode, FILE *stream)
{
	struct call call = {.directory = AT_FDCWD, .path = path, .flags = flags_of(mode)};
	return before_freopen(&call, stream) ? after_fopen(&call, next(path, mode, stream))
					     : NULL;
}

TS_EXPORT FILE *fopen(const char *path, const char *mode)
{
	return is_watched() ? watch_fopen(TS_NEXT_LATE(fopen), path, mode)
			    : TS_NEXT_LATE(fopen)(path, mode);
}

TS_EXPORT FILE *fopen64(const char *path, const char *mode)
{
	return is_watched() ? watch_fopen(TS_NEXT_LATE(fopen64), path, mode)
			    : TS_NEXT_LATE(fopen64)(path, mode);
}

TS_EXPORT FILE *freopen(const char *path, const char *mode, FILE *stream)
{
	return is_watched() ? watch_freopen(TS_NEXT_LATE(freopen), path, mode, stream)
			    : TS_NEXT_LATE(freopen)(path, mode, stream);
}

TS_EXPORT FILE *freopen64(const char *path, const char *mode, FILE *stream)
{
	return is_watched() ? watch_freopen(TS_NEXT_LATE(freopen64), path, mode, stream)
			    : TS_NEXT_LATE(freopen64)(path, mode, stream);
}

/* ---- attributes ------------------------------------------------------------------------- */

/* Both are one type, but for the name. */
static struct stat *of_64(struct stat64 *stat)
{
	_Static_assert(
		sizeof(struct stat) == sizeof(struct stat64) &&
			offsetof(struct stat, st_ctim) == offsetof(struct stat64, st_ctim),
		"files have 64-bit sizes");
	return (struct stat *)stat;
}

/* A call by path gave @r, and @stat where that is 0.  Returns it. */
static int after_stat(const struct ts_known_call *call, int r, const struct stat *stat)
{
	if (r == 0)
		ts_known_note_stat(call, stat);
	return r;
}

/* The same of a call by descriptor. */
static inline int after_fstat(int r, struct stat *stat)
{
	if (ts_staged_is_on() && r == 0)
		ts_staged_answer(stat);
	return r;
}

static TS_NOINLINE int look_up_stat(
	__typeof__(stat) *next, const char *path, struct stat *ret_stat, bool is_link)
{
	struct ts_known_call call;
	if (ts_known_stat(AT_FDCWD, path, is_link, ret_stat, &call))
		return 0;
	return after_stat(&call, next(path, ret_stat), ret_stat);
}

static TS_NOINLINE int look_up_xstat(__typeof__(__xstat) *next, int version, const char *path,
	struct stat *ret_stat, bool is_link)
{
	struct ts_known_call call;
	if (ts_known_stat(AT_FDCWD, path, is_link, ret_stat, &call))
		return 0;
	return after_stat(&call, next(version, path, ret_stat), ret_stat);
}

/* Whether a call with @flags is by a path that may be known. */
static inline bool is_by_path(int flags)
{
	return ts_known_is_on() && (flags & ~AT_SYMLINK_NOFOLLOW) == 0;
}

static inline int around_fstatat(__typeof__(fstatat) *next, int directory, const char *path,
	struct stat *ret_stat, int flags)
{
	struct ts_known_call call;
	if (!is_by_path(flags)) {
		int r = next(directory, path, ret_stat, flags);
		return (flags & AT_EMPTY_PATH) != 0 ? after_fstat(r, ret_stat) : r;
	}
	if (ts_known_stat(directory, path, flags != 0, ret_stat, &call))
		return 0;
	return after_stat(&call, next(directory, path, ret_stat, flags), ret_stat);
}

static inline int around_fxstatat(__typeof__(__fxstatat) *next, int version, int directory,
	const char *path, struct stat *ret_stat, int flags)
{
	struct ts_known_call call;
	if (!is_by_path(flags)) {
		int r = next(version, directory, path, ret_stat, flags);
		return (flags & AT_EMPTY_PATH) != 0 ? after_fstat(r, ret_stat) : r;
	}
	if (ts_known_stat(directory, path, flags != 0, ret_stat, &call))
		return 0;
	return after_stat(&call, next(version, directory, path, ret_stat, flags), ret_stat);
}

TS_EXPORT int stat(const char *path, struct stat *ret_stat)
{
	return ts_known_is_on() ? look_up_stat(TS_NEXT(stat), path, ret_stat, false)
				: TS_NEXT(stat)(path, ret_stat);
}

TS_EXPORT int stat64(const char *path, struct stat64 *ret_stat)
{
	return ts_known_is_on() ? look_up_stat(TS_NEXT(stat64), path, of_64(ret_stat), false)
				: TS_NEXT(stat64)(path, of_64(ret_stat));
}

TS_EXPORT int lstat(const char *path, struct stat *ret_stat)
{
	return ts_known_is_on() ? look_up_stat(TS_NEXT(lstat), path, ret_stat, true)
				: TS_NEXT(lstat)(path, ret_stat);
}

TS_EXPORT int lstat64(const char *path, struct stat64 *ret_stat)
{
	return ts_known_is_on() ? look_up_stat(TS_NEXT(lstat64), path, of_64(ret_stat), true)
				: TS_NEXT(lstat64)(path, of_64(ret_stat));
}

TS_EXPORT int __xstat(int version, const char *path, struct stat *ret_stat)
{
	return ts_known_is_on()
		       ? look_up_xstat(TS_NEXT(__xstat), version, path, ret_stat, false)
		       : TS_NEXT(__xstat)(version, path, ret_stat);
}

TS_EXPORT int __xstat64(int version, const char *path, struct stat64 *ret_stat)
{
	return ts_known_is_on() ? look_up_xstat(TS_NEXT(__xstat64), version, path,
					  of_64(ret_stat), false)
				: TS_NEXT(__xstat64)(version, path, of_64(ret_stat));
}

TS_EXPORT int __lxstat(int version, const char *path, struct stat *ret_stat)
{
	return ts_known_is_on()
		       ? look_up_xstat(TS_NEXT(__lxstat), version, path, ret_stat, true)
		       : TS_NEXT(__lxstat)(version, path, ret_stat);
}

TS_EXPORT int __lxstat64(int version, const char *path, struct stat64 *ret_stat)
{
	return ts_known_is_on() ? look_up_xstat(TS_NEXT(__lxstat64), version, path,
					  of_64(ret_stat), true)
				: TS_NEXT(__lxstat64)(version, path, of_64(ret_stat));
}

TS_EXPORT int fstat(int fd, struct stat *ret_stat)
{
	return after_fstat(TS_NEXT(fstat)(fd, ret_stat), ret_stat);
}

TS_EXPORT int fstat64(int fd, struct stat64 *ret_stat)
{
	return after_fstat(TS_NEXT(fstat64)(fd, of_64(ret_stat)), of_64(ret_stat));
}

TS_EXPORT int __fxstat(int version, int fd, struct stat *ret_stat)
{
	return after_fstat(TS_NEXT(__fxstat)(version, fd, ret_stat), ret_stat);
}

TS_EXPORT int __fxstat64(int version, int fd, struct stat64 *ret_stat)
{
	return after_fstat(TS_NEXT(__fxstat64)(version, fd, of_64(ret_stat)), of_64(ret_stat));
}

TS_EXPORT int fstatat(int directory, const char *path, struct stat *ret_stat, int flags)
{
	return around_fstatat(TS_NEXT(fstatat), directory, path, ret_stat, flags);
}

TS_EXPORT int fstatat64(int directory, const char *path, struct stat64 *ret_stat, int flags)
{
	return around_fstatat(TS_NEXT(fstatat64), directory, path, of_64(ret_stat), flags);
}

TS_EXPORT int __fxstatat(
	int version, int directory, const char *path, struct stat *ret_stat, int flags)
{
	return around_fxstatat(TS_NEXT(__fxstatat), version, directory, path, ret_stat, flags);
}

TS_EXPORT int __fxstatat64(
	int version, int directory, const char *path, struct stat64 *ret_stat, int flags)
{
	return around_fxstatat(
		TS_NEXT(__fxstatat64), version, directory, path, of_64(ret_stat), flags);
}
