/* SPDX-License-Identifier: MIT */
/*
 * The exported calls of the C library on what is open, and what happens around each:
 *
 *	asked of the original    it is opened for the call; the program keeps the copy
 *	deed                     the original takes the copy's place, then the real call
 *	name in /proc            the real call; a copy has its original's name
 *	directory                entries of a listing that the group has, or the real call
 *
 * As in exports.c each is two loads and a jump where nothing is on, passes optional arguments
 * on as they came, and is defined as it stands.
 */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE

#include "hooks/file/known.h"
#include "hooks/file/listings.h"
#include "hooks/file/next.h"
#include "hooks/file/staged.h"
#include "shim/sys.h"

#include <stdarg.h>

/* The last parameter of a call that has it at times, a pointer or a number; @last is the one
 * before. */
#define TAKE_ARGUMENT(last)                    \
	va_list list;                          \
	va_start(list, last);                  \
	void *argument = va_arg(list, void *); \
	va_end(list)

/* ---- calls that are asked of the original ----------------------------------------------- */

/* The original to ask in the place of @fd, while the program keeps the copy; or @fd itself. */
static inline int begin_asking(int fd)
{
	int original = ts_staged_is_on() ? ts_staged_ask_original(fd) : -1;
	return original < 0 ? fd : original;
}

/* The same where a call is about @fd only with AT_EMPTY_PATH in @flags and no @path. */
static inline int begin_asking_at(int fd, const char *path, int flags)
{
	return ts_staged_is_on() && ts_staged_is_itself(path, flags) ? begin_asking(fd) : fd;
}

/* @asked has said @r; it was asked in the place of @fd.  Returns @r. */
static inline long end_asking(int asked, int fd, long r)
{
	if (TS_UNLIKELY(asked != fd))
		ts_sys_close(asked);
	return r;
}

/* The index of copies knows what stat(2) tells, and no more of what statx(2) can be asked. */
TS_EXPORT int statx(
	int directory, const char *path, int flags, unsigned mask, struct statx *ret_stat)
{
	bool is_more = (mask & ~(STATX_BASIC_STATS | STATX_BTIME)) != 0;
	int asked = is_more ? begin_asking_at(directory, path, flags) : directory;
	int r = TS_NEXT_LATE(statx)(asked, path, flags, mask, ret_stat);
	if (ts_staged_is_on() && r == 0 && asked == directory && (flags & AT_EMPTY_PATH) != 0)
		ts_staged_answer_x(directory, path, ret_stat);
	return (int)end_asking(asked, directory, r);
}

TS_EXPORT int fsync(int fd)
{
	int asked = begin_asking(fd);
	return (int)end_asking(asked, fd, TS_NEXT_LATE(fsync)(asked));
}

TS_EXPORT int fdatasync(int fd)
{
	int asked = begin_asking(fd);
	return (int)end_asking(asked, fd, TS_NEXT_LATE(fdatasync)(asked));
}

TS_EXPORT int syncfs(int fd)
{
	int asked = begin_asking(fd);
	return (int)end_asking(asked, fd, TS_NEXT_LATE(syncfs)(asked));
}

TS_EXPORT int sync_file_range(int fd, off64_t at, off64_t bytes, unsigned flags)
{
	int asked = begin_asking(fd);
	return (int)end_asking(
		asked, fd, TS_NEXT_LATE(sync_file_range)(asked, at, bytes, flags));
}

TS_EXPORT long fpathconf(int fd, int name)
{
	int asked = begin_asking(fd);
	return end_asking(asked, fd, TS_NEXT_LATE(fpathconf)(asked, name));
}

TS_EXPORT ssize_t fgetxattr(int fd, const char *name, void *value, size_t bytes)
{
	int asked = begin_asking(fd);
	return end_asking(asked, fd, TS_NEXT_LATE(fgetxattr)(asked, name, value, bytes));
}

TS_EXPORT ssize_t flistxattr(int fd, char *list, size_t bytes)
{
	int asked = begin_asking(fd);
	return end_asking(asked, fd, TS_NEXT_LATE(flistxattr)(asked, list, bytes));
}

TS_EXPORT int fstatfs(int fd, struct statfs *ret_stat)
{
	int asked = begin_asking(fd);
	return (int)end_asking(asked, fd, TS_NEXT_LATE(fstatfs)(asked, ret_stat));
}

TS_EXPORT int fstatfs64(int fd, struct statfs64 *ret_stat)
{
	int asked = begin_asking(fd);
	return (int)end_asking(asked, fd, TS_NEXT_LATE(fstatfs64)(asked, ret_stat));
}

TS_EXPORT int fstatvfs(int fd, struct statvfs *ret_stat)
{
	int asked = begin_asking(fd);
	return (int)end_asking(asked, fd, TS_NEXT_LATE(fstatvfs)(asked, ret_stat));
}

TS_EXPORT int fstatvfs64(int fd, struct statvfs64 *ret_stat)
{
	int asked = begin_asking(fd);
	return (int)end_asking(asked, fd, TS_NEXT_LATE(fstatvfs64)(asked, ret_stat));
}

TS_EXPORT int faccessat(int directory, const char *path, int mode, int flags)
{
	int asked = begin_asking_at(directory, path, flags);
	return (int)end_asking(
		asked, directory, TS_NEXT_LATE(faccessat)(asked, path, mode, flags));
}

TS_EXPORT int name_to_handle_at(
	int directory, const char *path, struct file_handle *handle, int *mount, int flags)
{
	int asked = begin_asking_at(directory, path, flags);
	int r = TS_NEXT_LATE(name_to_handle_at)(asked, path, handle, mount, flags);
	return (int)end_asking(asked, directory, r);
}

TS_EXPORT int open_by_handle_at(int mount, struct file_handle *handle, int flags)
{
	int asked = begin_asking(mount);
	return (int)end_asking(
		asked, mount, TS_NEXT_LATE(open_by_handle_at)(asked, handle, flags));
}

TS_EXPORT int fanotify_mark(
	int group, unsigned flags, uint64_t mask, int directory, const char *path)
{
	int asked = path ? directory : begin_asking(directory);
	int r = TS_NEXT_LATE(fanotify_mark)(group, flags, mask, asked, path);
	return (int)end_asking(asked, directory, r);
}

/* Holes are the original's; the position stays the copy's. */
static TS_NOINLINE off_t seek_hole(__typeof__(lseek) *next, int fd, off_t offset, int whence)
{
	int asked = begin_asking(fd);
	off_t found = end_asking(asked, fd, next(asked, offset, whence));
	return asked == fd || found < 0 ? found : next(fd, found, SEEK_SET);
}

TS_EXPORT off_t lseek(int fd, off_t offset, int whence)
{
	return TS_LIKELY(whence <= SEEK_END) ? TS_NEXT(lseek)(fd, offset, whence)
					     : seek_hole(TS_NEXT(lseek), fd, offset, whence);
}

TS_EXPORT off64_t lseek64(int fd, off64_t offset, int whence)
{
	return TS_LIKELY(whence <= SEEK_END) ? TS_NEXT(lseek64)(fd, offset, whence)
					     : seek_hole(TS_NEXT(lseek64), fd, offset, whence);
}

/* ---- deeds: calls that go to the original, or nowhere ------------------------------------ */

/* Before a call on @fd that must not reach a copy.  False, with errno: it must not be made. */
static inline bool before_deed(int fd)
{
	return !ts_staged_is_on() || ts_staged_give_back(fd);
}

TS_EXPORT int flock(int fd, int operation)
{
	return before_deed(fd) ? TS_NEXT_LATE(flock)(fd, operation) : -1;
}

TS_EXPORT int fchmod(int fd, mode_t mode)
{
	return before_deed(fd) ? TS_NEXT_LATE(fchmod)(fd, mode) : -1;
}

TS_EXPORT int fchown(int fd, uid_t user, gid_t group)
{
	return before_deed(fd) ? TS_NEXT_LATE(fchown)(fd, user, group) : -1;
}

TS_EXPORT int futimens(int fd, const struct timespec times[2])
{
	return before_deed(fd) ? TS_NEXT_LATE(futimens)(fd, times) : -1;
}

TS_EXPORT int futimes(int fd, const struct timeval times[2])
{
	return before_deed(fd) ? TS_NEXT_LATE(futimes)(fd, times) : -1;
}

TS_EXPORT int fsetxattr(int fd, const char *name, const void *value, size_t bytes, int flags)
{
	return before_deed(fd) ? TS_NEXT_LATE(fsetxattr)(fd, name, value, bytes, flags) : -1;
}

TS_EXPORT int fremovexattr(int fd, const char *name)
{
	return before_deed(fd) ? TS_NEXT_LATE(fremovexattr)(fd, name) : -1;
}

TS_EXPORT int fexecve(int fd, char *const words[], char *const env[])
{
	return before_deed(fd) ? TS_NEXT_LATE(fexecve)(fd, words, env) : -1;
}

/* By a descriptor where the path is empty, or by one of its names in /proc. */
TS_EXPORT int execveat(
	int directory, const char *path, char *const words[], char *const env[], int flags)
{
	if (ts_staged_is_on() && !ts_staged_before_path(directory, path, flags))
		return -1;
	return TS_NEXT_LATE(execveat)(directory, path, words, env, flags);
}

/* With flags some file systems read otherwise, or not at all. */
TS_EXPORT ssize_t preadv2(int fd, const struct iovec *pieces, int count, off_t at, int flags)
{
	return flags == 0 || before_deed(fd)
		       ? TS_NEXT_LATE(preadv2)(fd, pieces, count, at, flags)
		       : -1;
}

TS_EXPORT ssize_t preadv64v2(
	int fd, const struct iovec *pieces, int count, off64_t at, int flags)
{
	return flags == 0 || before_deed(fd)
		       ? TS_NEXT_LATE(preadv64v2)(fd, pieces, count, at, flags)
		       : -1;
}

/* The bytes do not come by the program. */
TS_EXPORT ssize_t copy_file_range(
	int from, off64_t *from_at, int to, off64_t *to_at, size_t bytes, unsigned flags)
{
	if (ts_staged_is_on())
		ts_staged_before_clone(from, to);
	return TS_NEXT_LATE(copy_file_range)(from, from_at, to, to_at, bytes, flags);
}

/* Of these some are harmless. */
TS_EXPORT int ioctl(int fd, unsigned long request, ...)
{
	TAKE_ARGUMENT(request);
	if (ts_staged_is_on() && !ts_staged_before_ioctl(fd, request, argument))
		return -1;
	return TS_NEXT(ioctl)(fd, request, argument);
}

TS_EXPORT int fcntl(int fd, int command, ...)
{
	TAKE_ARGUMENT(command);
	if (ts_staged_is_on() && !ts_staged_before_fcntl(fd, command, argument))
		return -1;
	return TS_NEXT(fcntl)(fd, command, argument);
}

TS_EXPORT int fcntl64(int fd, int command, ...)
{
	TAKE_ARGUMENT(command);
	if (ts_staged_is_on() && !ts_staged_before_fcntl(fd, command, argument))
		return -1;
	return TS_NEXT(fcntl64)(fd, command, argument);
}

TS_EXPORT int lockf(int fd, int command, off_t bytes)
{
	if (ts_staged_is_on() && !ts_staged_before_lockf(fd))
		return -1;
	return TS_NEXT_LATE(lockf)(fd, command, bytes);
}

TS_EXPORT int lockf64(int fd, int command, off64_t bytes)
{
	if (ts_staged_is_on() && !ts_staged_before_lockf(fd))
		return -1;
	return TS_NEXT_LATE(lockf64)(fd, command, bytes);
}

/* ---- names of open files in /proc -------------------------------------------------------- */

/* A call gave @length bytes of a name.  Returns the length of the original's name. */
static inline ssize_t after_readlink(
	int directory, const char *path, char *buffer, size_t bytes, ssize_t length)
{
	return ts_staged_is_on() ? ts_staged_answer_name(directory, path, buffer, bytes, length)
				 : length;
}

TS_EXPORT ssize_t readlink(const char *path, char *buffer, size_t bytes)
{
	ssize_t length = TS_NEXT(readlink)(path, buffer, bytes);
	return after_readlink(AT_FDCWD, path, buffer, bytes, length);
}

TS_EXPORT ssize_t readlinkat(int directory, const char *path, char *buffer, size_t bytes)
{
	ssize_t length = TS_NEXT(readlinkat)(directory, path, buffer, bytes);
	return after_readlink(directory, path, buffer, bytes, length);
}

TS_EXPORT ssize_t __readlink_chk(const char *path, char *buffer, size_t bytes, size_t room)
{
	ssize_t length = TS_NEXT(__readlink_chk)(path, buffer, bytes, room);
	return after_readlink(AT_FDCWD, path, buffer, bytes, length);
}

TS_EXPORT ssize_t __readlinkat_chk(
	int directory, const char *path, char *buffer, size_t bytes, size_t room)
{
	ssize_t length = TS_NEXT(__readlinkat_chk)(directory, path, buffer, bytes, room);
	return after_readlink(directory, path, buffer, bytes, length);
}

/* ---- directories ------------------------------------------------------------------------ */

TS_EXPORT DIR *opendir(const char *path)
{
	DIR *stream = TS_NEXT_LATE(opendir)(path);
	if (ts_known_is_on())
		ts_listings_opened(stream, false);
	return stream;
}

TS_EXPORT DIR *fdopendir(int fd)
{
	DIR *stream = TS_NEXT_LATE(fdopendir)(fd);
	if (ts_known_is_on())
		ts_listings_opened(stream, true);
	return stream;
}

/* Apart, so that what needs a place on the stack is no part of the jump. */
static TS_NOINLINE void *read_noted(__typeof__(readdir) *next, DIR *stream)
{
	void *entry;
	return ts_listings_read(stream, &entry) ? entry : next(stream);
}

TS_EXPORT struct dirent *readdir(DIR *stream)
{
	return ts_listings_are_open() ? read_noted(TS_NEXT_LATE(readdir), stream)
				      : TS_NEXT_LATE(readdir)(stream);
}

TS_EXPORT struct dirent64 *readdir64(DIR *stream)
{
	return ts_listings_are_open() ? read_noted(TS_NEXT_LATE(readdir64), stream)
				      : TS_NEXT_LATE(readdir64)(stream);
}

TS_EXPORT int readdir_r(DIR *stream, struct dirent *entry, struct dirent **ret_entry)
{
	if (ts_listings_are_open() && ts_listings_read_into(stream, entry, (void **)ret_entry))
		return 0;
	return TS_NEXT_LATE(readdir_r)(stream, entry, (void **)ret_entry);
}

TS_EXPORT int readdir64_r(DIR *stream, struct dirent64 *entry, struct dirent64 **ret_entry)
{
	if (ts_listings_are_open() && ts_listings_read_into(stream, entry, (void **)ret_entry))
		return 0;
	return TS_NEXT_LATE(readdir64_r)(stream, entry, (void **)ret_entry);
}

TS_EXPORT long telldir(DIR *stream)
{
	long place;
	if (ts_listings_are_open() && ts_listings_tell(stream, &place))
		return place;
	return TS_NEXT_LATE(telldir)(stream);
}

TS_EXPORT void seekdir(DIR *stream, long place)
{
	if (!ts_listings_are_open() || !ts_listings_seek(stream, place))
		TS_NEXT_LATE(seekdir)(stream, place);
}

TS_EXPORT void rewinddir(DIR *stream)
{
	if (ts_listings_are_open())
		ts_listings_rewind(stream);
	TS_NEXT_LATE(rewinddir)(stream);
}

TS_EXPORT int closedir(DIR *stream)
{
	if (ts_listings_are_open())
		ts_listings_close(stream);
	return TS_NEXT_LATE(closedir)(stream);
}
