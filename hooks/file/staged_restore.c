/* SPDX-License-Identifier: MIT */
/* What only the original can do: giving it back to the program. */
#include "hooks/file/staged_restore.h"

#include "hooks/file/staged_join.h"
#include "hooks/file/staged_root.h"
#include "shim/atomic.h"
#include "shim/hash.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

/* Files this process may hold fcntl() locks on; with more of them nothing is staged any more.
 */
#define LOCKED_MAX 16u

/* Copies given back before we ask whether this process wants any. */
#define UNWANTED_MIN 4u

static _Atomic uint64_t locked[LOCKED_MAX]; /* inodes */
static _Atomic uint64_t beside[LOCKED_MAX]; /* hashes of the paths of their directories */
static _Atomic uint32_t locked_count;
static _Atomic uint32_t given, given_back; /* copies; a fork child goes on counting */

/* ---- locks ------------------------------------------------------------------------------ */

/* Never 0, which is no directory. */
static uint64_t directory_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return ts_hash64(path, slash ? (size_t)(slash - path) : 0) | 1;
}

bool ts_staged_is_locked(uint64_t inode, const char *path)
{
	uint32_t count = ts_load_acquire(&locked_count);
	if (TS_LIKELY(count == 0))
		return false;
	uint64_t directory = directory_of(path);
	for (uint32_t i = 0; i < LOCKED_MAX; i++)
		if (ts_load_relaxed(&locked[i]) == inode ||
			ts_load_relaxed(&beside[i]) == directory)
			return true;
	return count > LOCKED_MAX;
}

bool ts_staged_has_locks(void)
{
	return ts_load_relaxed(&locked_count) != 0;
}

/* ---- going back to the original --------------------------------------------------------- */

void ts_staged_note_given(void)
{
	ts_add_relaxed(&given, 1);
}

bool ts_staged_is_unwanted(void)
{
	uint32_t back = ts_load_relaxed(&given_back);
	return TS_UNLIKELY(back >= UNWANTED_MIN) && back > ts_load_relaxed(&given) / 2;
}

/* Open the original of the copy @copy with the open(2) @flags. */
static int open_original(const struct stat *copy, int flags)
{
	struct ts_stage_attributes was;
	struct stat st;
	char *path TS_SCRATCH = ts_scratch();
	if (!path)
		return -ENOMEM;
	if (!ts_staged_find(copy, &was, path))
		return -ENOENT;
	/* Whatever has come to that place meanwhile must not make us wait. */
	int fd = ts_sys_open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ? -ESTALE : fd;
	/* Its content may have changed, as it may under a descriptor; the file may not. */
	if (ts_sys_fstat(fd, &st) == 0 && st.st_ino == was.inode &&
		st.st_dev == makedev(was.device_major, was.device_minor) &&
		ts_sys_fcntl(fd, F_SETFL, (void *)(intptr_t)flags) == 0)
		return fd;
	ts_sys_close(fd);
	return -ESTALE;
}

static int restore(int fd, int original)
{
	int flags = ts_sys_fcntl(fd, F_GETFD, NULL);
	int64_t at = ts_sys_seek(fd, 0, SEEK_CUR);
	if (flags < 0 || at < 0)
		return -EBADF;
	int64_t r = ts_sys_seek(original, at, SEEK_SET);
	if (r >= 0)
		r = ts_sys_dup3(original, fd, (flags & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0);
	return r < 0 ? (int)r : 0;
}

static bool give_back(int fd, const struct stat *copy)
{
	const int kept = O_NONBLOCK | O_NOATIME;
	int flags = ts_sys_fcntl(fd, F_GETFL, NULL);
	int original = flags < 0 ? flags : open_original(copy, O_RDONLY | (flags & kept));
	int r = original;
	if (original >= 0) {
		r = restore(fd, original);
		ts_sys_close(original);
	}
	ts_session_count_pass(TS_REASON_STAGE_ORIGINAL);
	ts_add_relaxed(&given_back, 1);
	if (r < 0)
		errno = -r;
	return r >= 0;
}

static bool is_copy(int fd, struct stat *ret_stat)
{
	struct ts_stage_attributes was;
	return ts_sys_fstat(fd, ret_stat) == 0 && ts_staged_find(ret_stat, &was, NULL);
}

bool ts_staged_give_back(int fd)
{
	struct stat st;
	return !is_copy(fd, &st) || give_back(fd, &st);
}

int ts_staged_ask_original(int fd)
{
	struct stat st;
	return is_copy(fd, &st) ? open_original(&st, O_RDONLY) : -ENOENT;
}

/* ---- locks on what lies beside ---------------------------------------------------------- */

/* Give back the original of @fd if it is a copy from @directory. */
static void give_back_from(int fd, uint64_t directory)
{
	struct ts_stage_attributes was;
	struct stat st;
	char *path TS_SCRATCH = ts_scratch();
	if (path && ts_sys_fstat(fd, &st) == 0 && ts_staged_find(&st, &was, path) &&
		directory_of(path) == directory)
		(void)give_back(fd, &st);
}

/* The same for all that is open here. */
static void give_back_all_from(uint64_t directory)
{
	char *buffer TS_SCRATCH = ts_scratch();
	int64_t bytes;
	int saved = errno;
	if (!buffer)
		return;
	int list = ts_sys_open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (list < 0)
		return;
	while ((bytes = ts_sys_list(list, buffer, TS_SCRATCH_BYTES)) > 0)
		for (int64_t at = 0; at < bytes;) {
			const struct dirent64 *entry = (const void *)(buffer + at);
			int fd = 0;
			for (const char *c = entry->d_name; *c >= '0' && *c <= '9'; c++)
				fd = fd * 10 + (*c - '0');
			if (entry->d_name[0] != '.')
				give_back_from(fd, directory);
			at += entry->d_reclen;
		}
	ts_sys_close(list);
	errno = saved; /* the program's call has not been made yet */
}

/*
 * Closing any descriptor of a file drops the process's fcntl() locks on it, and giving out a
 * copy closes one: so no copies of what was ever locked here.  Nor of what lies beside it: a
 * database may lock one file and learn in it where others have just written into the next.
 * LMDB's readers open the data, lock lock.mdb, and map the data; so what was given out goes
 * back.
 */
static void note_lock(int fd)
{
	char *path TS_SCRATCH = ts_scratch();
	struct stat st;
	if (ts_sys_fstat(fd, &st) < 0 || !ts_staged_root_has_device(fd, st.st_dev))
		return;
	uint32_t count = ts_load_acquire(&locked_count);
	for (uint32_t i = 0; i < LOCKED_MAX && i < count; i++)
		if (ts_load_relaxed(&locked[i]) == st.st_ino)
			return;
	uint64_t directory = path && ts_staged_root_path(fd, path) ? directory_of(path) : 0;
	uint32_t place = ts_add_relaxed(&locked_count, 1);
	if (place < LOCKED_MAX) {
		ts_write_relaxed(&beside[place], directory);
		ts_write_release(&locked[place], st.st_ino);
	}
	if (directory)
		give_back_all_from(directory);
}

/* ---- calls that sometimes are harmless -------------------------------------------------- */

bool ts_staged_before_lockf(int fd)
{
	bool may = ts_staged_give_back(fd);
	note_lock(fd);
	return may;
}

/* What a copy answers as its original does; all else, and what is not known here, is not. */
static bool is_harmless(int command, int argument)
{
	switch (command) {
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
	case F_GETFD:
	case F_SETFD:
	case F_GETFL:
	case F_GETOWN:
	case F_SETOWN:
	case F_GETSIG:
	case F_SETSIG:
	case F_GETOWN_EX:
	case F_SETOWN_EX:
		return true;
	case F_SETFL: /* a file system may refuse the first, and only an owner may set the other
		       */
		return (argument & (O_DIRECT | O_NOATIME)) == 0;
	default:
		return false;
	}
}

bool ts_staged_before_fcntl(int fd, int command, const void *argument)
{
	if (command == F_SETLK || command == F_SETLKW)
		return ts_staged_before_lockf(fd);
	return is_harmless(command, (int)(intptr_t)argument) || ts_staged_give_back(fd);
}

bool ts_staged_before_ioctl(int fd, unsigned long request)
{
	switch (request) {
	case TCGETS: /* isatty() of whoever buffers */
	case FIOCLEX:
	case FIONCLEX:
	case FIONBIO:
	case FIONREAD:
		return true;
	default:
		return ts_staged_give_back(fd);
	}
}
