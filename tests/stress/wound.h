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

/** In the victim-to-be: at the @visit-th passing of @point, counted from 1. */
void wound_arm(const char *point, int visit);

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
 * Start @peers when @victim is in, so that it is what makes or recovers the group, and wait at
 * most @reach_ms more for it to end or to stop.  Whether it did.
 */
bool wound_start_beside(const struct wound_peers *peers, pid_t victim, int reach_ms,
	pid_t pids[WOUND_PEERS], int *ret_status);

void wound_start_peers(const struct wound_peers *peers, pid_t pids[WOUND_PEERS]);

/** Whether they all ended well. */
bool wound_end_peers(const struct wound_peers *peers, const pid_t pids[WOUND_PEERS]);

/** After @victim died or stopped: do the others go on, and does a woken one harm them? */
bool wound_survivors_go_on(
	const struct wound_peers *peers, pid_t victim, const pid_t pids[WOUND_PEERS]);

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
