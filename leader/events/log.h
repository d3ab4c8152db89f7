/* SPDX-License-Identifier: MIT */
/* The file of an event log: one writer at a time, whole lines, a bounded size. */
#ifndef TS_LEADER_EVENTS_LOG_H
#define TS_LEADER_EVENTS_LOG_H

#include "leader/events/events.h"

#include <sys/types.h>

/** Begin with the first three fields set, @fd -1, and the rest zero. */
struct ts_event_log {
	const char *path, *group;
	uint64_t max; /* most bytes */
	int fd;       /* the file; with the lock while @is_ours */
	bool is_ours;
	uint64_t bytes; /* of it */
	dev_t device;
	ino_t inode;
};

/**
 * Get the right to write, if nobody has it: then the file ends with a whole line.  Makes the
 * file when it is not there.  Errors: -EAGAIN somebody else writes; those of ts_events_open();
 * -ENOLCK and others of flock(2) and write(2).
 */
int ts_event_log_take(struct ts_event_log *log);

/**
 * Write @bytes of whole lines behind all others, or nothing.  Errors: -ESTALE the file was
 * removed, replaced or cut, so that another one has to begin: the right to write is lost;
 * -EFBIG, -ENOSPC, -EDQUOT and others of write(2).
 */
int ts_event_log_append(struct ts_event_log *log, const char *text, size_t bytes);

/** Whether so many @bytes more are too much, and ts_event_log_thin() should be called first. */
bool ts_event_log_is_full(const struct ts_event_log *log, size_t bytes);

/**
 * Make the file shorter by a quarter or more; the right to write stays.  What was known of jobs
 * that live may be lost, so tell it again.  Errors: those of open(2), write(2), rename(2); the
 * file is as it was then.
 */
int ts_event_log_thin(struct ts_event_log *log);

/** Give the right and the file back. */
void ts_event_log_close(struct ts_event_log *log);

#endif
