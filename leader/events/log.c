/* SPDX-License-Identifier: MIT */
/* The file of an event log: taking it, and writing at its end. */
#include "leader/events/log.h"

#include "leader/events/log_private.h"
#include "leader/object/killpoint.h"
#include "shim/log.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <sys/file.h>

/* A file may be replaced between the looks at its name and at its lock, but not for ever. */
#define TAKE_TRIES 8

void ts_event_log_new_path(const struct ts_event_log *log, char ret_path[TS_EVENTS_PATH])
{
	ts_format(ret_path, TS_EVENTS_PATH, "%s.shorter", log->path);
}

void ts_event_log_close(struct ts_event_log *log)
{
	if (log->fd >= 0)
		ts_sys_close(log->fd);
	log->fd = -1;
	log->is_ours = false;
}

/* Whether the file that we have open is the one that has the name. */
static bool is_named(const struct ts_event_log *log)
{
	struct stat st;

	return ts_sys_lstat(log->path, &st) == 0 && st.st_dev == log->device &&
	       st.st_ino == log->inode;
}

static int open_file(struct ts_event_log *log)
{
	struct stat st = {.st_ino = 0};

	if (log->fd >= 0)
		return 0;
	int r = ts_events_open(log->path, log->group, O_CREAT, &log->fd);
	if (r == 0)
		r = ts_sys_fstat(log->fd, &st);
	if (r < 0)
		return r;
	log->device = st.st_dev;
	log->inode = st.st_ino;
	return 0;
}

/* What the writer before us left behind when it was killed. */
static int repair(struct ts_event_log *log)
{
	char path[TS_EVENTS_PATH], last = '\n';
	struct stat st;

	ts_event_log_new_path(log, path);
	(void)ts_sys_unlink(path);
	int r = ts_sys_fstat(log->fd, &st);
	if (r < 0)
		return r;
	log->bytes = (uint64_t)st.st_size;
	if (log->bytes > 0 && ts_sys_pread(log->fd, &last, 1, log->bytes - 1) < 0)
		return -EIO;
	return last == '\n' ? 0 : ts_event_log_append(log, "\n", 1);
}

int ts_event_log_take(struct ts_event_log *log)
{
	int r = -EAGAIN;

	for (int i = 0; i < TAKE_TRIES && !log->is_ours; i++) {
		r = open_file(log);
		if (r < 0)
			break;
		r = ts_sys_flock(log->fd, LOCK_EX | LOCK_NB);
		if (r == 0 && is_named(log))
			log->is_ours = true;
		else if (r == -EWOULDBLOCK)
			/* Of a file that was replaced the lock is given back, too. */
			return -EAGAIN;
		else if (r < 0)
			break;
		else
			ts_event_log_close(log);
	}
	if (log->is_ours)
		r = repair(log);
	else if (r == 0)
		r = -EAGAIN;
	if (r < 0 && r != -EAGAIN)
		ts_event_log_close(log);
	return r;
}

/* Whether the file is what it was when we wrote last. */
static int check(struct ts_event_log *log)
{
	struct stat st;
	int r = ts_sys_fstat(log->fd, &st);

	if (r < 0)
		return r;
	if ((uint64_t)st.st_size < log->bytes || !is_named(log))
		return -ESTALE;
	log->bytes = (uint64_t)st.st_size;
	return 0;
}

int ts_event_log_append(struct ts_event_log *log, const char *text, size_t bytes)
{
	uint64_t done = 0;
	int64_t n = check(log);

	while (n >= 0 && done < bytes) {
		n = ts_sys_write(log->fd, text + done, bytes - done);
		if (n == -EINTR)
			n = 0;
		else if (n > 0)
			done += (uint64_t)n;
		else if (n == 0)
			n = -ENOSPC;
		TS_KILLPOINT(events_written);
	}
	if (n >= 0) {
		log->bytes += bytes;
		return 0;
	}
	if (done > 0) /* no half line */
		(void)ts_sys_ftruncate(log->fd, log->bytes);
	ts_event_log_close(log);
	return (int)n;
}

bool ts_event_log_is_full(const struct ts_event_log *log, size_t bytes)
{
	return log->bytes + bytes > log->max;
}
