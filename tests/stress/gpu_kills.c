/* SPDX-License-Identifier: MIT */
/*
 * At every step of sharing a copy to a GPU (leader/slots/device.h), a process dies (-k) or
 *stops and is woken (-s) while others share.
 *
 *	gpu_kills -k|-s [name...]
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

#define RING_BYTES (UINT64_C(8) << 20)

/* How long the point may take to be reached under load. */
#define REACH_MS 1000
#define END_MS   20000

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

	if (gpu_job_join(&job, world, group, RING_BYTES, number) < 0)
		return EXIT_UNATTACHED; /* the lock's holder is stopped: copy alone */
	if (attached)
		ts_write_release(attached, 1);
	while (right && !ts_load_acquire(stop))
		right = gpu_job_operation(&job, &random) && gpu_job_serve(&job);
	return gpu_job_leave(&job) && right ? 0 : EXIT_WRONG;
}

static int run_victim(int point)
{
	wound_arm(points[point], 1);
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
	if (gpu_job_join(anchor, world, group, RING_BYTES, GPU_JOBS - 1) < 0)
		return false;
	/* The first operation of all offers a ring, and that is all. */
	if (situation == MEETS_DEAD_WRITERS && !gpu_job_operation(anchor, &random))
		return false;
	for (int i = 0; i < 2; i++)
		waitpid(wound_start(run_corpse, i), NULL, 0);
	return true;
}

/* Returns 1 reached and survived, 0 not reached, -1 something was wrong. */
static int try_situation(enum situation situation, int point)
{
	struct gpu_job anchor = {.store = NULL};
	const struct wound_peers beside = {run_peer, orders, END_MS};
	pid_t peers[WOUND_PEERS];
	int status = 0;

	memset(orders, 0, sizeof(*orders));
	if (!prepare(situation, &anchor))
		return -1;
	pid_t victim = wound_start(run_victim, point);
	bool happened = wound_start_beside(&beside, victim, REACH_MS, peers, &status);
	bool right = true;
	if (!happened) {
		/* Some steps are gone through when a job leaves. */
		right = wound_end_peers(&beside, peers);
		ts_write_release(&orders->finish_victim, 1);
		happened = wound_wait(victim, END_MS, &status);
		wound_start_peers(&beside, peers);
	}
	bool reached = happened && wound_reached(status);
	if (reached) {
		right &= wound_survivors_go_on(&beside, victim, peers);
	} else {
		right &= wound_end_peers(&beside, peers);
		right &= wound_ended_well(
			victim, happened, status, "the victim", wound_mode == 's');
	}
	right &= !anchor.store || gpu_job_leave(&anchor);
	right &= gpu_group_is_healthy(world, group, RING_BYTES);
	return right ? reached : -1;
}

static bool try_point(int point)
{
	for (int s = 0; s < SITUATIONS; s++) {
		int result = try_situation((enum situation)s, point);
		if (result > 0)
			return true;
		if (result < 0) {
			fprintf(stderr, "%s: failed (situation %d)\n", points[point], s);
			return false;
		}
	}
	fprintf(stderr, "%s: never reached\n", points[point]);
	return false;
}

int main(int argc, char **argv)
{
	struct ts_store *probe;
	pid_t gpu;

	if (argc < 2 || (strcmp(argv[1], "-k") != 0 && strcmp(argv[1], "-s") != 0)) {
		fprintf(stderr, "usage: gpu_kills -k|-s [name...]\n");
		return 1;
	}
	wound_mode = argv[1][1];
	snprintf(group, sizeof(group), "gpu-kills-%d", (int)getpid());
	orders = mmap(NULL, sizeof(*orders), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	if (orders == MAP_FAILED || load_attach(group, RING_BYTES, &probe) < 0) {
		fprintf(stderr, "no shared memory\n");
		return 77;
	}
	ts_store_detach(probe);
	world = gpu_world_start(&gpu);
	if (!world)
		return 1;
	int failed = wound_each(points, TS_ARRAY_SIZE(points), argv + 2, try_point);
	return !gpu_world_end(world, gpu) || failed;
}
