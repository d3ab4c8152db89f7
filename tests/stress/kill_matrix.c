/* SPDX-License-Identifier: MIT */
/*
 * At every kill point of leader/object/killpoint.h, a process dies (-k) or stops and is woken
 * (-s) while others share.
 *
 *	kill_matrix -k|-s [-c visit] [name...]
 *
 * Three situations are tried until the point is reached: a victim that makes the group, one
 * that joins a group with a dead member in it, and one that meets idle owners of all segments.
 * A point reached in none is a failure; but with -c, which asks for a later visit, there are
 * points passed only once.  Exit status: 0, 1, or 77 without shared memory.
 */
#include "load.h"
#include "wound.h"

#include "leader/object/killpoint.h"
#include "shim/atomic.h"
#include "shim/sys.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEYS 200

/* How long the point may take to be reached under load. */
#define REACH_MS 500

/* After this one that does not end is killed. */
#define END_MS 60000

static const char *const points[] = {
#define TS_X(name) #name,
	TS_KILLPOINTS(TS_X)
#undef TS_X
};

enum situation { MAKES_THE_GROUP, JOINS_WITH_A_CORPSE, MEETS_IDLE_OWNERS, SITUATIONS };

/* More than the ring has segments. */
#define IDLE_OWNERS 8

/** Orders to the children. */
struct orders {
	struct wound_orders wound;
	_Atomic uint64_t operations; /* of all peers */
};

static struct orders *orders;
static char group[32];

static struct load make_load(struct ts_store *store)
{
	return (struct load){.store = store,
		.random = (uint64_t)getpid() * 7919,
		.keys = KEYS,
		.size_limit = UINT64_C(256) << 10,
		.run_bytes = UINT64_C(2) << 20};
}

/* A key that the first peer claims and never publishes: there is something to wait for. */
static const struct ts_key stuck_key = {.lo = 0x5a5a, .hi = UINT64_C(0x123456789) << 32};

static void meet_stuck_claim(struct ts_store *store)
{
	struct ts_take take;

	ts_store_take(store, &stuck_key, LOAD_CAPTURED, TS_KIND_PIXELS, &take);
	if (take.verdict == TS_BUSY)
		ts_store_wait(store, &stuck_key, LOAD_DEADLINE_NS / 4, &(struct ts_patience){0},
			&take);
	if (take.verdict == TS_HIT)
		ts_lease_release(store, &take.lease);
	if (take.verdict == TS_CLAIM)
		ts_claim_abandon(store, &take.claim);
}

/* Hold it until told to stop, again whenever it was taken over.  Idle: who is at work is waited
 * for, and keeps its right. */
static void hold_stuck_claim(struct ts_store *store, _Atomic uint32_t *stop)
{
	struct ts_take held = {.verdict = TS_PASS}, take;

	for (; !ts_load_acquire(stop); usleep(1000)) {
		ts_store_take(store, &stuck_key, LOAD_CAPTURED, TS_KIND_PIXELS, &take);
		if (take.verdict == TS_HIT)
			ts_lease_release(store, &take.lease);
		if (take.verdict != TS_CLAIM)
			continue;
		if (held.verdict == TS_CLAIM)
			ts_claim_abandon(store, &held.claim);
		held = take;
	}
	if (held.verdict == TS_CLAIM)
		ts_claim_abandon(store, &held.claim);
}

/* Load until told to stop. */
static int run_member(struct ts_store *store, _Atomic uint32_t *stop, bool count)
{
	struct load load = make_load(store);

	while (!ts_load_acquire(stop)) {
		meet_stuck_claim(store);
		for (int i = 0; i < 8; i++) {
			if (!load_operation(&load))
				return EXIT_WRONG;
		}
		if (count)
			ts_add_relaxed(&orders->operations, 8);
	}
	return 0;
}

static int run_victim(const char *point)
{
	struct ts_store *store;

	wound_arm(point);
	if (load_attach(group, WOUND_RING_BYTES, &store) < 0)
		return EXIT_UNATTACHED;
	ts_write_release(&orders->wound.attached, 1);
	int status = run_member(store, &orders->wound.finish_victim, false);
	ts_store_detach(store);
	return status;
}

static int run_peer(int index)
{
	struct ts_store *store;

	if (load_attach(group, WOUND_RING_BYTES, &store) < 0)
		return EXIT_UNATTACHED; /* the lock's holder is stopped: work alone */
	int status = 0;
	if (index == 0)
		hold_stuck_claim(store, &orders->wound.stop_peers);
	else
		status = run_member(store, &orders->wound.stop_peers, true);
	ts_store_detach(store);
	return status;
}

/* Join, hold everything a member can hold, and die of it. */
static int run_corpse(void)
{
	struct ts_store *store;
	struct ts_key key = {.lo = 0x77, .hi = UINT64_C(0x4242) << 32};
	struct ts_take take;
	void *buffer;

	if (load_attach(group, WOUND_RING_BYTES, &store) < 0)
		return EXIT_UNATTACHED;
	ts_store_take(store, &key, LOAD_CAPTURED, TS_KIND_PIXELS, &take);
	if (take.verdict == TS_CLAIM)
		ts_claim_reserve(store, &take.claim, 4096, &buffer);
	raise(SIGKILL);
	return EXIT_WRONG;
}

static int start_victim(int index)
{
	return run_victim(points[index]);
}

static int start_corpse(int unused)
{
	return run_corpse();
}

/* Members that produced one record each and then do nothing: every segment is OPEN. */
static bool start_idle_owners(struct ts_store **owners)
{
	for (uint32_t i = 0; i < IDLE_OWNERS; i++) {
		struct ts_key key = {.lo = 0x900 + i, .hi = (UINT64_C(0x999900) + i) << 32};
		struct ts_take take;
		void *buffer;
		if (load_attach(group, WOUND_RING_BYTES, &owners[i]) < 0)
			return false;
		ts_store_take(owners[i], &key, LOAD_CAPTURED, TS_KIND_PIXELS, &take);
		if (take.verdict != TS_CLAIM ||
			ts_claim_reserve(owners[i], &take.claim, 4096, &buffer) < 0)
			return false;
		memset(buffer, 0x11, 4096);
		if (ts_claim_publish(owners[i], &take.claim, 4096, 1) < 0)
			return false;
	}
	return true;
}

/* Returns 1 reached and survived, 0 not reached, -1 something was wrong. */
static int try_situation(int situation, int point)
{
	struct ts_store *anchor = NULL, *owners[IDLE_OWNERS] = {NULL};
	const struct wound_peers beside = {run_peer, &orders->wound, END_MS};

	memset(orders, 0, sizeof(*orders));
	if (situation == JOINS_WITH_A_CORPSE) {
		if (load_attach(group, WOUND_RING_BYTES, &anchor) < 0)
			return -1;
		waitpid(wound_start(start_corpse, 0), NULL, 0);
	}
	if (situation == MEETS_IDLE_OWNERS && !start_idle_owners(owners))
		return -1;
	int result =
		wound_among_peers(&beside, wound_start(start_victim, point), REACH_MS, false);
	ts_store_detach(anchor);
	for (uint32_t i = 0; i < IDLE_OWNERS; i++)
		ts_store_detach(owners[i]);
	return load_group_is_healthy(group, WOUND_RING_BYTES) ? result : -1;
}

static bool try_point(int point)
{
	return wound_in_some_situation(points[point], point, SITUATIONS, try_situation);
}

int main(int argc, char **argv)
{
	int status;

	orders = wound_begin(argc, argv, "matrix", sizeof(*orders), group, &status);
	return orders ? wound_each(points, TS_ARRAY_SIZE(points), argv + optind, try_point)
		      : status;
}
