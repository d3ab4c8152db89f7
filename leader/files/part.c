/* SPDX-License-Identifier: MIT */
/* The part of a copy that somebody makes, and its lock. */
#include "leader/files/stage_private.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

bool ts_stage_is_named(const char *path, const struct stat *st)
{
	struct stat named;

	return ts_sys_stat(path, &named) == 0 && named.st_dev == st->st_dev &&
	       named.st_ino == st->st_ino;
}

void ts_stage_release_part(int part)
{
	/* Said, not left to the close: a child forked meanwhile has this descriptor, too. */
	(void)ts_sys_flock(part, LOCK_UN);
	ts_sys_close(part);
}

int ts_stage_hold_part(int part, const char *part_path, struct stat *ret_stat)
{
	int r = ts_sys_flock(part, LOCK_EX | LOCK_NB);

	if (r < 0)
		return r == -EWOULDBLOCK ? -EBUSY : r;
	r = ts_sys_fstat(part, ret_stat);
	if (r < 0)
		return r;
	if (!S_ISREG(ret_stat->st_mode) || ret_stat->st_uid != geteuid())
		return -EPERM;
	return ts_stage_is_named(part_path, ret_stat) ? 0 : -EAGAIN;
}

/* One that was killed just before the rename is read-only, and we may not be root. */
static int reopen_finished(const char *part_path)
{
	struct stat st;
	int part = ts_sys_open(part_path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0);

	if (part < 0)
		return part == -ENOENT ? -EAGAIN : part;
	int r = ts_stage_hold_part(part, part_path, &st);
	if (r == 0)
		r = ts_sys_fchmod(part, 0600);
	ts_stage_release_part(part);
	return r < 0 ? r : -EAGAIN;
}

int ts_stage_lock_part(const char *part_path, int *ret_part)
{
	const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
	struct stat st;
	int part = ts_sys_open(part_path, flags, 0600);

	if (part == -EACCES)
		return reopen_finished(part_path);
	if (part < 0)
		return part;
	TS_KILLPOINT(stage_made);
	int r = ts_stage_hold_part(part, part_path, &st);
	if (r < 0) {
		ts_stage_release_part(part);
		return r;
	}
	*ret_part = part;
	return 0;
}

int ts_stage_take_part(const char *part_path, const char *path, int *ret_part)
{
	struct stat other;
	int part;
	TS_KILLPOINT(stage_looked);
	int r = ts_stage_lock_part(part_path, &part);
	TS_KILLPOINT(stage_locked);
	if (r < 0)
		return r;
	if (ts_sys_stat(path, &other) == 0) {
		/* Renamed between our look and our open: what we made is an empty file. */
		ts_sys_unlink(part_path);
		ts_stage_release_part(part);
		return -EAGAIN;
	}
	*ret_part = part;
	return 0;
}
