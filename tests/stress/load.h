/* SPDX-License-Identifier: MIT */
/* A member of a group that takes, produces and checks records; for the stress programs. */
#ifndef TS_TESTS_STRESS_LOAD_H
#define TS_TESTS_STRESS_LOAD_H

#include "leader/group/attach.h"
#include "leader/group/store.h"

#include <stdbool.h>
#include <stdint.h>

/* What a waiter is told to wait at most, and what a crowded machine may add to it. */
#define LOAD_DEADLINE_NS UINT64_C(20000000)
#define LOAD_SLACK_NS    UINT64_C(30000000000)

/* Dataset whose records are captured from the start, and one that only makes ghosts. */
#define LOAD_CAPTURED 0
#define LOAD_GHOSTS   1

struct load_counts {
	uint64_t hits, published, passed, lost;
};

struct load {
	struct ts_store *store;
	uint64_t random;     /* state of the generator, never 0 */
	uint64_t keys;       /* size of the working set */
	uint64_t size_limit; /* of a record, bytes; */
	uint64_t run_bytes;  /* one in eight is so much larger, to fill several segments */
	struct load_counts counts;
};

/** Attach to @group as a job of our own and switch capturing on. Returns -errno. */
int load_attach(const char *group, uint64_t ring_bytes, struct ts_store **ret_store);

/** The next pseudo-random number. */
uint64_t load_random(uint64_t *state);

/**
 * Take a random record, check every byte or produce it.  Returns false, after a message on
 * stderr, when a byte was wrong or a wait took longer than the deadline and the slack.
 */
bool load_operation(struct load *load);

/** Publish and take a record of the fresh key @id through two stores. */
bool load_pair_shares(struct ts_store *one, struct ts_store *other, uint64_t id);

/**
 * Attach twice, see that records are shared, detach, and see that nothing but the ledger is
 * left, which is then removed.  Returns false after a message on stderr.
 */
bool load_group_is_healthy(const char *group, uint64_t ring_bytes);

/* ---- processes that share while they are killed, stopped and woken at random ------------- */

#define CROWD_MAX 32

/** What a program of a crowd is told: -n processes, -t threads, -s seconds, -r seed. */
struct crowd {
	int processes, threads, seconds;
	uint64_t seed;
	int most_processes, most_threads;
	const char *name;    /* of the group, with the number of the process behind it */
	uint64_t ring_bytes; /* of the group */
	uint64_t stop_ns; /* a child that waits counts its own sleep, so nobody sleeps longer */
	uint64_t finish_ns; /* how long children may take to end after @end_ns */
	/** What a child does until @end_ns; an exit status, EXIT_UNATTACHED is none's fault. */
	int (*run)(uint32_t number, uint64_t seed);

	uint64_t end_ns; /* ts_now_ns() when nobody is disturbed any more */
	char group[32];
};

/**
 * Read the command line, and see that the group can be made.  Returns 0, or after a message
 * an exit status.
 */
int crowd_begin(struct crowd *crowd, int argc, char **argv);

/** Whether all children that were not killed ended well, and in time; else a message. */
bool crowd_run(struct crowd *crowd);

#endif
