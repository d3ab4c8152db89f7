/* SPDX-License-Identifier: MIT */
/*
 * Many processes bring the same few buffers to one GPU while some are killed and stopped.
 *
 *	gpu_stress [-n processes] [-t threads] [-s seconds] [-r seed]
 *
 * Exit status: 0 every byte was right and sharing went on, 1 not, 77 no shared memory.
 */
#include "gpu_load.h"

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

/* A child that cannot join, which is no failure while others hold the lock. */
#define EXIT_UNATTACHED 3

/* A child that waits counts its own sleep, so nobody sleeps for long. */
#define STOP_MAX_NS UINT64_C(500000000)

static struct {
	int processes, threads, seconds;
	uint64_t seed;
	char group[32];
} settings = {.processes = 6, .threads = 2, .seconds = 4, .seed = 1};

struct child {
	pid_t pid; /* 0: finished */
	bool stopped;
	uint64_t stopped_at;
};

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

static void spawn(struct child *child, uint32_t number, uint64_t seed)
{
	fflush(stderr);
	child->stopped = false;
	child->pid = fork();
	if (child->pid == 0)
		_exit(run_child(number, seed));
}

/* Whether a child that ended with @status was content. */
static bool ended_well(int status)
{
	if (WIFEXITED(status) &&
		(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == EXIT_UNATTACHED))
		return true;
	fprintf(stderr, "a child ended with status %x\n", (unsigned)status);
	return false;
}

static bool reap(struct child *children)
{
	int status;

	for (int i = 0; i < settings.processes; i++) {
		if (children[i].pid == 0 || waitpid(children[i].pid, &status, WNOHANG) <= 0)
			continue;
		children[i].pid = 0;
		if (!ended_well(status))
			return false;
	}
	return true;
}

static void disturb(struct child *child, uint32_t number, uint64_t *random)
{
	uint64_t dice = load_random(random) % 8;

	if (child->pid == 0) {
		spawn(child, number, load_random(random));
	} else if (child->stopped) {
		kill(child->pid, SIGCONT);
		child->stopped = false;
	} else if (dice < 3) {
		kill(child->pid, SIGSTOP);
		child->stopped = true;
		child->stopped_at = ts_now_ns();
	} else if (dice < 5) {
		kill(child->pid, SIGKILL);
		waitpid(child->pid, NULL, 0);
		spawn(child, number, load_random(random));
	}
}

static void wake(struct child *children)
{
	for (int i = 0; i < settings.processes; i++) {
		if (!children[i].pid || !children[i].stopped ||
			ts_now_ns() - children[i].stopped_at < STOP_MAX_NS)
			continue;
		kill(children[i].pid, SIGCONT);
		children[i].stopped = false;
	}
}

static bool finish(struct child *children)
{
	bool right = true;

	for (int i = 0; i < settings.processes; i++)
		if (children[i].pid)
			kill(children[i].pid, SIGCONT);
	for (int i = 0; i < settings.processes; i++) {
		uint64_t limit = ts_now_ns() + 4 * LOAD_SLACK_NS;
		while (children[i].pid && ts_now_ns() < limit) {
			right &= reap(children);
			usleep(2000);
		}
		if (!children[i].pid)
			continue;
		fprintf(stderr, "child %d does not end\n", (int)children[i].pid);
		kill(children[i].pid, SIGKILL);
		waitpid(children[i].pid, NULL, 0);
		right = false;
	}
	return right;
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
	struct child children[GPU_JOBS] = {0};
	uint64_t random = settings.seed;
	bool right = true;

	end_ns = ts_now_ns() + (uint64_t)settings.seconds * 1000000000;
	for (int i = 0; i < settings.processes; i++)
		spawn(&children[i], (uint32_t)i, load_random(&random));
	while (right && ts_now_ns() < end_ns) {
		usleep(1000 + (useconds_t)(load_random(&random) % 20000));
		right = reap(children);
		wake(children);
		uint64_t one = load_random(&random) % (uint64_t)settings.processes;
		disturb(&children[one], (uint32_t)one, &random);
	}
	right &= finish(children);
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
