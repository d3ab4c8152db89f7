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
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS_MAX 4
#define RING_BYTES  (UINT64_C(8) << 20)

/* A child that waits counts its own sleep, so nobody sleeps for long. */
#define STOP_MAX_NS UINT64_C(500000000)

static struct {
	int processes, threads, seconds;
	uint64_t seed;
	char group[32];
} settings = {.processes = 6, .threads = 2, .seconds = 4, .seed = 1};

/** One thread of a child. */
struct worker {
	struct gpu_job *job;
	uint64_t random;
	bool serves; /* ends the holds of all, operates on nothing */
	bool right;
};

static struct gpu_world *world;
static uint64_t end_ns;

static void *run_worker(void *argument)
{
	struct worker *worker = argument;

	while (worker->right && ts_now_ns() < end_ns && !ts_load_relaxed(&world->wrong)) {
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

	if (gpu_job_join(&job, world, settings.group, RING_BYTES, number) < 0)
		return EXIT_UNATTACHED;
	for (int i = 0; i <= settings.threads; i++) {
		workers[i] = (struct worker){.job = &job,
			.random = seed * 64 + (uint64_t)i + 1,
			.serves = i == 0,
			.right = true};
		pthread_create(&threads[i], NULL, run_worker, &workers[i]);
	}
	for (int i = 0; i <= settings.threads; i++) {
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
		(unsigned long long)settings.seed, (unsigned long long)world->operations,
		(unsigned long long)world->hits, (unsigned long long)world->published,
		(unsigned long long)world->waited, (unsigned long long)world->passed,
		(unsigned long long)world->offered, (unsigned long long)world->freed,
		(unsigned long long)world->gone);
}

static bool run(void)
{
	end_ns = ts_now_ns() + (uint64_t)settings.seconds * 1000000000;
	bool right = crowd_run(&(struct crowd){.processes = settings.processes,
		.seed = settings.seed,
		.end_ns = end_ns,
		.stop_ns = STOP_MAX_NS,
		.finish_ns = 2 * LOAD_SLACK_NS,
		.run = run_child});
	print_counts();
	if (world->hits == 0 || world->published == 0) {
		fprintf(stderr, "nothing was shared\n");
		right = false;
	}
	return right;
}

static bool parse(int argc, char **argv)
{
	for (int o = getopt(argc, argv, "n:t:s:r:"); o != -1;
		o = getopt(argc, argv, "n:t:s:r:")) {
		int value = o == '?' ? 0 : atoi(optarg);
		if (o == 'n')
			settings.processes = value;
		else if (o == 't')
			settings.threads = value;
		else if (o == 's')
			settings.seconds = value;
		else if (o == 'r')
			settings.seed = (uint64_t)value;
		else
			return false;
	}
	return settings.processes >= 2 && settings.processes <= GPU_JOBS &&
	       settings.threads >= 1 && settings.threads <= THREADS_MAX && settings.seed != 0 &&
	       settings.seconds > 0;
}

int main(int argc, char **argv)
{
	struct ts_store *probe;
	pid_t gpu;

	if (!parse(argc, argv)) {
		fprintf(stderr, "usage: gpu_stress [-n 2..16] [-t 1..4] [-s seconds] "
				"[-r seed]\n");
		return 1;
	}
	snprintf(settings.group, sizeof(settings.group), "gpu-stress-%d", (int)getpid());
	if (load_attach(settings.group, RING_BYTES, &probe) < 0) {
		fprintf(stderr, "no shared memory\n");
		return 77;
	}
	ts_store_detach(probe);
	world = gpu_world_start(&gpu);
	if (!world)
		return 1;
	bool right = run();
	right &= gpu_group_is_healthy(world, settings.group, RING_BYTES);
	return gpu_world_end(world, gpu) && right ? 0 : 1;
}
