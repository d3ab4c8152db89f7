/* SPDX-License-Identifier: MIT */
/*
 * The recorder of a job: `tsrun top -b --json` in the background, into the file of an event log
 * (leader/events/events.h).
 */
#ifndef TS_TSRUN_LOG_RECORDER_H
#define TS_TSRUN_LOG_RECORDER_H

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
