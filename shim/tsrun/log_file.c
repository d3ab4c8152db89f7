/* SPDX-License-Identifier: MIT */
/* The file of an event log: taking it, writing at its end, and beginning another one. */
#include "shim/tsrun/log_file.h"

#include "leader/object/killpoint.h"
#include "shim/log.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <sys/file.h>

/* A file may be replaced between the looks at its name and at its lock, but not for ever. */
#define TAKE_TRIES 8

void ts_log_file_close(struct ts_log_file *file)
{
	if (file->fd >= 0)
		ts_sys_close(file->fd);
	file->fd = -1;
	file->is_ours = false;
}

/* Whether the file that we have open is the one that has the name. */
static bool is_named(const struct ts_log_file *file)
{
	struct stat st;

	return ts_sys_lstat(file->path, &st) == 0 && st.st_dev == file->device &&
	       st.st_ino == file->inode;
}

static int open_file(struct ts_log_file *file)
{
	struct stat st = {.st_ino = 0};

	if (file->fd >= 0)
		return 0;
	int r = ts_events_open(file->path, file->group, O_CREAT, &file->fd);
	if (r == 0)
		r = ts_sys_fstat(file->fd, &st);
	if (r < 0)
		return r;
	file->device = st.st_dev;
	file->inode = st.st_ino;
	return 0;
}

/*
 * Our file becomes the one before, whose place is taken only from a log of this group.  Whoever
 * waits for the lock gets it when the file is closed, sees that the name is gone, and asks for
 * that of the next file.
 */
static int rotate(struct ts_log_file *file)
{
	char before[TS_EVENTS_PATH];
	int fd;

	ts_format(before, sizeof(before), "%s" TS_EVENTS_BEFORE, file->path);
	int r = ts_events_open(before, file->group, 0, &fd);
	if (r == 0)
		ts_sys_close(fd);
	if (r == 0 || r == -ENOENT)
		r = ts_sys_rename(file->path, before);
	TS_KILLPOINT(events_rotated);
	ts_log_file_close(file);
	return r < 0 ? r : -ESTALE;
}

/* The writer before us may have been killed within a line. */
static int end_line(struct ts_log_file *file)
{
	char last = '\n';
	struct stat st;

	int r = ts_sys_fstat(file->fd, &st);
	if (r < 0)
		return r;
	file->bytes = (uint64_t)st.st_size;
	if (file->bytes > 0 && ts_sys_pread(file->fd, &last, 1, file->bytes - 1) < 0)
		return -EIO;
	return last == '\n' ? 0 : ts_log_file_append(file, "\n", 1);
}

/* One try. Errors: -ESTALE the file is not the one that has the name: try again. */
static int take(struct ts_log_file *file)
{
	int r = open_file(file);
	if (r == 0)
		r = ts_sys_flock(file->fd, LOCK_EX | LOCK_NB);
	if (r < 0)
		return r == -EWOULDBLOCK ? -EAGAIN : r;
	if (!is_named(file)) {
		ts_log_file_close(file);
		return -ESTALE;
	}
	file->is_ours = true;
	return ts_events_is_current(file->fd) ? end_line(file) : rotate(file);
}

int ts_log_file_take(struct ts_log_file *file)
{
	int r = -ESTALE;

	for (int i = 0; i < TAKE_TRIES && r == -ESTALE; i++)
		r = take(file);
	if (r < 0 && r != -EAGAIN)
		ts_log_file_close(file);
	return r == -ESTALE ? -EAGAIN : r;
}

/* Whether the file is what it was when we wrote last. */
static int check(struct ts_log_file *file)
{
	struct stat st;
	int r = ts_sys_fstat(file->fd, &st);

	if (r < 0)
		return r;
	if ((uint64_t)st.st_size < file->bytes || !is_named(file))
		return -ESTALE;
	file->bytes = (uint64_t)st.st_size;
	return 0;
}

int ts_log_file_append(struct ts_log_file *file, const char *text, size_t bytes)
{
	uint64_t done = 0;
	int64_t n = check(file);

	if (n == 0 && file->bytes > 0 && file->bytes + bytes > file->max)
		return rotate(file);
	while (n >= 0 && done < bytes) {
		n = ts_sys_write(file->fd, text + done, bytes - done);
		if (n == -EINTR)
			n = 0;
		else if (n > 0)
			done += (uint64_t)n;
		else if (n == 0)
			n = -ENOSPC;
		TS_KILLPOINT(events_written);
	}
	if (n >= 0) {
		file->bytes += bytes;
		return 0;
	}
	if (done > 0) /* no half line */
		(void)ts_sys_ftruncate(file->fd, file->bytes);
	ts_log_file_close(file);
	return (int)n;
}
