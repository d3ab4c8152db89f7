/* SPDX-License-Identifier: MIT */
/*
 * The recorder of a job: `tsrun top -b --json` in the background, into the file of an event log
 * (leader/events/events.h).
 */
#ifndef TS_TSRUN_LOG_RECORDER_H
#define TS_TSRUN_LOG_RECORDER_H

#include "leader/events/events.h"

#include <sys/types.h>

/* ---- the file: one writer at a time, whole lines, a bounded size ------------------------- */

/** Begin with the first three fields set, @fd -1, and the rest zero. */
struct ts_log_file {
	const char *path, *group;
	uint64_t max; /* most bytes of it, and as many of the one before */
	int fd;       /* the file; with the lock while @is_ours */
	bool is_ours;
	uint64_t bytes; /* of it */
	dev_t device;
	ino_t inode;
};

/**
 * Get the right to write, if nobody has it: then the file ends with a whole line.  Makes the
 * file when it is not there, or is of an older format.  Errors: -EAGAIN somebody else writes;
 * those of ts_events_open(); -ENOLCK and others of flock(2), rename(2) and write(2).
 */
int ts_log_file_take(struct ts_log_file *file);

/**
 * Write @bytes of whole lines behind all others, or nothing.  Errors: -ESTALE the file was
 * removed, replaced or cut, or is full and has become the one before (TS_EVENTS_BEFORE): the
 * right to write is lost, and another file has to begin; -EFBIG, -ENOSPC, -EDQUOT and others of
 * write(2) and rename(2).
 */
int ts_log_file_append(struct ts_log_file *file, const char *text, size_t bytes);

/** Give the right and the file back. */
void ts_log_file_close(struct ts_log_file *file);

/* ---- the process ------------------------------------------------------------------------- */

/**
 * Be the recorder, with the words that leader/events/recorder.c has put together:
 *
 *	tsshim-recorder GROUP JOB STARTER FILE MAKE-DIRECTORIES
 *
 * with JOB and STARTER as ts_process_id() has them.  For a process that does nothing else.
 * Returns its exit status when the job is over or the log cannot be written, which the row of
 * the job says.
 */
int ts_recorder_main(int argc, char **argv);

#endif
