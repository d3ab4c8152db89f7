/* SPDX-License-Identifier: MIT */
/* Processes that share while they are killed, stopped and woken at random. */
#ifndef TS_TESTS_STRESS_CROWD_H
#define TS_TESTS_STRESS_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#define CROWD_MAX 32

struct crowd {
	int processes;
	uint64_t seed;    /* not 0 */
	uint64_t end_ns;  /* ts_now_ns() when nobody is disturbed any more */
	uint64_t stop_ns; /* a child that waits counts its own sleep, so nobody sleeps longer */
	uint64_t finish_ns; /* how long children may take to end after that */
	/** What a child does until @end_ns; an exit status, EXIT_UNATTACHED is none's fault. */
	int (*run)(uint32_t number, uint64_t seed);
};

/** Whether all children that were not killed ended well, and in time; else a message. */
bool crowd_run(const struct crowd *crowd);

#endif
