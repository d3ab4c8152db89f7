/* SPDX-License-Identifier: MIT */
/*
 * The event log of a group: what its jobs made, took and waited for, in a file.
 *
 * Nobody counts for it.  All counters are in the ledger already; a process of its own, the
 * recorder, does what `tsrun top -b --json` does, and appends the lines to FILE
 * (shim/tsrun/log_line.h, docs/rooms/events.md).  Each job starts a recorder when it first
 * joins its group (shim/helper.h: the host does not notice), which ends with that job.  Of all
 * recorders with one FILE a single one writes, for all jobs of its group: the one that holds a
 * lock of FILE (flock(2), which the kernel drops with it).  The others ask for the lock once a
 * second, and whoever gets it writes first what the one before cannot have written.
 *
 *	recorder of job A   [writes for A, B, C .............. A ends]
 *	recorder of job B   [waits .......................... |takes the lock, writes for B, C
 *... recorder of job C   [waits ............................................................
 *
 * The counters of a job stay in the ledger when it ends, so nothing is lost on the way from one
 * to the next; its row says whether its last values were written (leader/events/recorder.h).
 *
 * Each line has the whole of a sample, so that any of them may be missing.  Only whole lines
 * count: a writer that takes over begins a line of its own behind one that was torn.  FILE is
 * bounded: with TS_EVENTS_BYTES it is renamed to FILE.1, and another one begins.  Any error of
 * writing ends the recorder, its job's row says which.
 */
#ifndef TS_LEADER_EVENTS_EVENTS_H
#define TS_LEADER_EVENTS_EVENTS_H

#include "shim/config.h"
#include "shim/state.h"

#define TS_EVENTS_FORMAT 2

/** Most bytes of FILE, and of FILE.1. */
#define TS_EVENTS_BYTES (UINT64_C(8) << 20)

/** What the name of the file before ends with. */
#define TS_EVENTS_BEFORE ".1"

/** Room for the name of a log. */
#define TS_EVENTS_PATH TS_STATE_PATH

/** What a recorder calls itself: argv[0] of tsshim-stager (shim/tsrun/log_recorder.h). */
#define TS_RECORDER_NAME "tsshim-recorder"

/**
 * Where the log of @config is, with the variables of @env: the file that was named, or
 * ${XDG_STATE_HOME:-$HOME/.local/state}/tsshim/GROUP@NODE.events, as homes are shared by nodes.
 * Threads: any; allocates nothing.  Errors: -ENOENT none is wanted; -ENOTDIR there is no home;
 * -ENAMETOOLONG.
 */
int ts_events_path(
	const struct ts_config *config, char *const *env, char ret_path[TS_EVENTS_PATH]);

/**
 * Open the log at @path of @group for writing, and make it with @flags O_CREAT.  Whatever is no
 * log of ours is left as it is.  *ret_fd is the caller's.
 *
 * Errors: -ELOOP a symbolic link; -EINVAL no regular file; -EPERM another user's; -EBADMSG
 * something else than an event log; -EXDEV that of another group; others of open(2).
 */
int ts_events_open(const char *path, const char *group, int flags, int *ret_fd);

/** Whether the log behind @fd begins in TS_EVENTS_FORMAT, or not at all yet. */
bool ts_events_is_current(int fd);

/** Whether @error of ts_events_open() says that there is something else in that place. */
bool ts_events_is_refusal(int error);

/** What such an error means, for people; NULL for any other one. */
const char *ts_events_explain(int error);

/** From the constructor: see whether a log is wanted, and where. */
void ts_events_begin(void);

#endif
