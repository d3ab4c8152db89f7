/* SPDX-License-Identifier: MIT */
/*
 * Many processes bring the same few buffers to one GPU while some are killed and stopped.
 *
 *	gpu_stress [-n processes] [-t threads] [-s seconds] [-r seed]
 *
 * Exit status: 0 every byte was right and sharing went on, 1 not, 77 no shared memory.
 */
#include "gpu_load.h"
#include "wound.h"

#include "shim/atomic.h"
#include "shim/sys.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define THREADS_MAX 4

static int run_child(uint32_t number, uint64_t seed);

static struct crowd crowd = {.processes = 6,
	.threads = 2,
	.seconds = 4,
	.seed = 1,
	.most_processes = GPU_JOBS,
	.most_threads = THREADS_MAX,
	.name = "gpu-stress",
	.ring_bytes = UINT64_C(8) << 20,
	.stop_ns = UINT64_C(500000000),
	.finish_ns = 2 * LOAD_SLACK_NS,
	.run = run_child};

/** One thread of a child. */
struct worker {
	struct gpu_job *job;
	uint64_t random;
	bool serves; /* ends the holds of all, operates on nothing */
	bool right;
};

static struct gpu_world *world;

static void *run_worker(void *argument)
{
	struct worker *worker = argument;

	while (worker->right && ts_now_ns() < crowd.end_ns && !ts_load_relaxed(&world->wrong)) {
		if (worker->serves) {
			worker->right = gpu_job_serve(worker->job);
			usleep(50);
		} else {
			worker->right = gpu_job_operation(worker->job, &worker->random);
		}
	}
	return NULL;
}

static int run_child(uint32_t number, uint64_t seed)
{
	struct worker workers[THREADS_MAX + 1];
	pthread_t threads[THREADS_MAX + 1];
	static struct gpu_job job;
	bool right = true;

	if (gpu_job_join(&job, world, crowd.group, crowd.ring_bytes, number) < 0)
		return EXIT_UNATTACHED;
	for (int i = 0; i <= crowd.threads; i++) {
		workers[i] = (struct worker){.job = &job,
			.random = seed * 64 + (uint64_t)i + 1,
			.serves = i == 0,
			.right = true};
		pthread_create(&threads[i], NULL, run_worker, &workers[i]);
	}
	for (int i = 0; i <= crowd.threads; i++) {
		pthread_join(threads[i], NULL);
		right &= workers[i].right;
	}
	return gpu_job_leave(&job) && right ? 0 : 1;
}

static void print_counts(void)
{
	fprintf(stderr,
		"seed %llu: %llu operations, %llu hits, %llu published, %llu waits, "
		"%llu passed, %llu rings, %llu freed, %llu claims gone with theirs\n",
		(unsigned long long)crowd.seed, (unsigned long long)world->operations,
		(unsigned long long)world->hits, (unsigned long long)world->published,
		(unsigned long long)world->waited, (unsigned long long)world->passed,
		(unsigned long long)world->offered, (unsigned long long)world->freed,
		(unsigned long long)world->gone);
}

int main(int argc, char **argv)
{
	pid_t gpu;
	int status = crowd_begin(&crowd, argc, argv);

	if (status != 0)
		return status;
	world = gpu_world_start(&gpu);
	if (!world)
		return 1;
	bool right = crowd_run(&crowd);
	print_counts();
	if (world->hits == 0 || world->published == 0) {
		fprintf(stderr, "nothing was shared\n");
		right = false;
	}
	right &= gpu_group_is_healthy(world, crowd.group, crowd.ring_bytes);
	return gpu_world_end(world, gpu) && right ? 0 : 1;
}
