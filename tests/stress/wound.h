/* SPDX-License-Identifier: MIT */
/* What the programs have in common that kill or stop a process at every kill point. */
#ifndef TS_TESTS_STRESS_WOUND_H
#define TS_TESTS_STRESS_WOUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Exit statuses of the processes that share. */
#define EXIT_WRONG      1
#define EXIT_UNATTACHED 3 /* could not join, so worked alone */

/** 'k': the victim dies at the point; 's': it stops there and is woken later. */
extern int wound_mode;

/** At which passing of its point the victim is hit, counted from 1. */
extern int wound_visit;

/**
 * Read -k, -s and -c VISIT; the names of points begin at argv[optind].  Writes @name-PID into
 * @group and sees that groups can be made.  Returns @bytes of zeros, shared with children, or
 * NULL, after a message, with an exit status.
 */
void *wound_begin(
	int argc, char **argv, const char *name, size_t bytes, char group[32], int *ret_status);

/** In the victim-to-be: be hit at @point. */
void wound_arm(const char *point);

/** Whether the wait @status is that of a victim that reached its point. */
bool wound_reached(int status);

/** Fork; the child exits with what @run says of @argument. */
pid_t wound_start(int (*run)(int argument), int argument);

/** Wait at most @ms for @pid to end, or to stop. */
bool wound_wait(pid_t pid, int ms, int *ret_status);

/**
 * Whether @pid, which @ended with @status or did not end, exited with success, or perhaps
 * @unattached.  If not, a message, and it is killed where it still lives.
 */
bool wound_ended_well(pid_t pid, bool ended, int status, const char *who, bool unattached);

/** The same, waiting at most @ms for it. */
bool wound_ends_well(pid_t pid, int ms, const char *who, bool unattached);

#define WOUND_PEERS 3

/* A few segments only, so that every reservation soon has to reclaim one. */
#define WOUND_RING_BYTES (UINT64_C(8) << 20)

/** Orders to a victim and its peers, in memory that is shared with them. */
struct wound_orders {
	_Atomic uint32_t attached; /* the victim is in */
	_Atomic uint32_t stop_peers;
	_Atomic uint32_t finish_victim; /* leave and exit */
};

/** Those who share beside a victim. */
struct wound_peers {
	int (*run)(int number);
	struct wound_orders *orders;
	int end_ms; /* how long they may take to end */
};

/**
 * Start @peers beside @victim, see that they go on when it is hit, within @reach_ms or at its
 * end, and that it ends well when it is not, perhaps @unattached.  Returns 1 hit and survived,
 * 0 not hit, -1 something was wrong.
 */
int wound_among_peers(
	const struct wound_peers *peers, pid_t victim, int reach_ms, bool unattached);

/**
 * Call @try_situation, which returns what wound_among_peers() does, for one situation after the
 * other until the point with @name and @index is reached; at last for as long as it takes, up
 * to a guard against waiting for ever.  One that is not is a failure, but for a later visit:
 * there are points passed only once.
 */
bool wound_in_some_situation(const char *name, int index, int situations,
	int (*try_situation)(int situation, int point));

/**
 * A victim is run to @point; then so many @peers beside it, and when they have ended the victim
 * goes on if it can; then one more peer.  Whether the point was reached and all ended well.
 */
bool wound_beside_peers(
	int (*run_victim)(int point), int point, int (*run_peer)(int number), int peers);

/**
 * Try all @points, or those in the NULL-terminated @names; @try_point is given an index, says
 * whether all was well, and what was not.  Returns an exit status: none tried is a failure.
 */
int wound_each(const char *const *points, size_t count, char *const *names,
	bool (*try_point)(int point));

#endif
