/* SPDX-License-Identifier: MIT */
/*
 * At every step of sharing a copy to a GPU (leader/slots/device.h), a process dies (-k) or
 * stops and is woken (-s) while others share.
 *
 *	gpu_kills -k|-s [-c visit] [name...]
 *
 * Three situations are tried until the point is reached: a victim that makes the group and its
 * ring, one that meets a dead owner's ring, and one that meets dead writers in a live owner's.
 * A point reached in none is a failure.  Exit status: 0, 1, or 77 without shared memory.
 */
#include "gpu_load.h"
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

/* How long the point may take to be reached under load. */
#define REACH_MS 1000
#define END_MS   60000

static const char *const points[] = {
#define TS_X(name) #name,
	TS_DEVICE_KILLPOINTS(TS_X)
#undef TS_X
};

enum situation { MAKES_THE_GROUP, MEETS_A_DEAD_OWNER, MEETS_DEAD_WRITERS, SITUATIONS };

static struct wound_orders *orders;
static struct gpu_world *world;
static char group[32];

/* Share until told to stop. */
static int run_job(uint32_t number, _Atomic uint32_t *stop, _Atomic uint32_t *attached)
{
	uint64_t random = (uint64_t)getpid() * 7919 + number;
	struct gpu_job job;
	bool right = true;

	if (gpu_job_join(&job, world, group, WOUND_RING_BYTES, number) < 0)
		return EXIT_UNATTACHED; /* the lock's holder is stopped: copy alone */
	if (attached)
		ts_write_release(attached, 1);
	while (right && !ts_load_acquire(stop))
		right = gpu_job_operation(&job, &random) && gpu_job_serve(&job);
	return gpu_job_leave(&job) && right ? 0 : EXIT_WRONG;
}

static int run_victim(int point)
{
	wound_arm(points[point]);
	return run_job(0, &orders->finish_victim, &orders->attached);
}

static int run_peer(int index)
{
	return run_job((uint32_t)index + 1, &orders->stop_peers, NULL);
}

/* Offer a ring if there is none, take a slot, or write one, and die of it. */
static int run_corpse(int point)
{
	uint32_t never = 0;
	_Atomic uint32_t *stop = (_Atomic uint32_t *)&never;

	setenv("TSSHIM_TEST_KILL", point ? "device_taken" : "device_writing:3", 1);
	run_job(WOUND_PEERS + 1 + (uint32_t)point, stop, NULL);
	return EXIT_WRONG;
}

/* What the victim is to find; @anchor keeps the group. */
static bool prepare(enum situation situation, struct gpu_job *anchor)
{
	uint64_t random = 1;

	if (situation == MAKES_THE_GROUP)
		return true;
	if (gpu_job_join(anchor, world, group, WOUND_RING_BYTES, GPU_JOBS - 1) < 0)
		return false;
	/* The first operation of all offers a ring, and that is all. */
	if (situation == MEETS_DEAD_WRITERS && !gpu_job_operation(anchor, &random))
		return false;
	for (int i = 0; i < 2; i++)
		waitpid(wound_start(run_corpse, i), NULL, 0);
	return true;
}

/* Returns 1 reached and survived, 0 not reached, -1 something was wrong. */
static int try_situation(int situation, int point)
{
	struct gpu_job anchor = {.store = NULL};
	const struct wound_peers beside = {run_peer, orders, END_MS};

	memset(orders, 0, sizeof(*orders));
	if (!prepare((enum situation)situation, &anchor))
		return -1;
	int result = wound_among_peers(
		&beside, wound_start(run_victim, point), REACH_MS, wound_mode == 's');
	if (anchor.store && !gpu_job_leave(&anchor))
		result = -1;
	return gpu_group_is_healthy(world, group, WOUND_RING_BYTES) ? result : -1;
}

static bool try_point(int point)
{
	return wound_in_some_situation(points[point], point, SITUATIONS, try_situation);
}

int main(int argc, char **argv)
{
	int status;
	pid_t gpu;

	orders = wound_begin(argc, argv, "gpu-kills", sizeof(*orders), group, &status);
	if (!orders)
		return status;
	world = gpu_world_start(&gpu);
	if (!world)
		return 1;
	int failed = wound_each(points, TS_ARRAY_SIZE(points), argv + optind, try_point);
	return !gpu_world_end(world, gpu) || failed;
}
