/* SPDX-License-Identifier: MIT */
/*
 * A line of the event log: one sample of a group, as a JSON object.  `tsrun top -b --json`
 * prints such lines, and a recorder appends them to FILE (shim/tsrun/log_recorder.h).
 * docs/rooms/events.md says what their members mean.
 */
#ifndef TS_TSRUN_LOG_LINE_H
#define TS_TSRUN_LOG_LINE_H

#include "shim/tsrun/view.h"

#include <stdio.h>

/* ---- what /proc says of a job ------------------------------------------------------------ */

/* Of "python train.py", with its NUL; a line of the log has no more of it. */
#define TS_JOB_PROGRAM 200

/** How a job was started. */
struct ts_job_start {
	char program[TS_JOB_PROGRAM]; /* empty: not known */
	const char *mode;             /* "default", "aligned", "free"; NULL: not known */
	uint64_t seed;                /* of the last two */
};

/**
 * Read how @pid was started: its program and the name of its script, but no other argument, as
 * these may hold secrets; and its mode, from its environment.  Threads: one at a time.
 */
void ts_job_read_start(int pid, struct ts_job_start *ret_start);

/**
 * CPU time of job @id (a ts_process_id()) and of the children that it has waited for, in
 * nanoseconds; also of a zombie.  0 where there is no such process.  Some 15 us.
 */
uint64_t ts_job_cpu_ns(uint64_t id);

/** When job @id began, in milliseconds since the epoch; 0: not known. */
uint64_t ts_job_began_ms(uint64_t id);

/** The time since boot @ns in milliseconds since the epoch; 0: not known. */
uint64_t ts_job_real_ms(uint64_t ns);

/* ---- the lines --------------------------------------------------------------------------- */

/** What the lines so far have of the job in one row of the ledger. */
struct ts_log_job {
	uint64_t id;                 /* 0: none */
	bool is_met;                 /* @start and @began_ms were read */
	bool is_live;                /* as of the latest line */
	bool is_over;                /* a line has its end, or it is not to be told of */
	uint64_t began_ms, ended_ms; /* since the epoch; 0: not known */
	uint64_t cpu_ns;
	struct ts_job_start start;
};

/** What is remembered of a group between two lines.  Begin with all zero. */
struct ts_log_jobs {
	struct ts_log_job rows[TS_JOB_MAX];
	bool anew; /* the next line is the first of a file: it has jobs that are over as well */
};

/** Read how job @id of row @row was started, while it lives. */
void ts_log_meet(struct ts_log_jobs *jobs, uint32_t row, uint64_t id);

/** Whether @group has a job that no line has yet, or one that is over meanwhile. */
bool ts_log_has_news(const struct ts_log_jobs *jobs, struct ts_ledger *ledger);

/** Whether the latest line has a job that lives. */
bool ts_log_has_jobs(const struct ts_log_jobs *jobs);

/**
 * How long to wait for the next sample, at @now_ms: a second, and for old jobs a
 * five-hundredth of the age of the oldest, at most a minute.  A log of any length so shows a
 * few hundred samples of each job, in a few megabytes.
 */
uint64_t ts_log_period_ms(const struct ts_log_jobs *jobs, uint64_t now_ms);

/**
 * Print @group, as it was at @now_ms (milliseconds since the epoch), as one line; the next one
 * is due in @every_ms.  It has every job that lives, and a last time each that is over.
 * Errors stay in ferror().  Threads: one at a time.
 */
void ts_log_write(struct ts_log_jobs *jobs, const struct ts_sample_group *group,
	uint64_t now_ms, uint64_t every_ms, FILE *out);

#endif
