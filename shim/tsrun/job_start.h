/* SPDX-License-Identifier: MIT */
/* What /proc says of a job. */
#ifndef TS_TSRUN_JOB_START_H
#define TS_TSRUN_JOB_START_H

#include "shim/base.h"

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

#endif
