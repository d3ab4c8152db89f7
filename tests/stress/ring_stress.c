/* SPDX-License-Identifier: MIT */
/*
 * Many processes share one small ring while some are killed, stopped and woken at random.
 *
 *	ring_stress [-n processes] [-m operations] [-t threads] [-s seconds] [-r seed]
 *
 * Exit status: 0 all records were right and sharing went on, 1 not, 77 no shared memory.
 */
#include "load.h"

#include "shim/sys.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES_MAX 32
#define THREADS_MAX   8

/* 46 segments of 1 MiB: more than processes, far fewer bytes than the working set. */
#define RING_BYTES (UINT64_C(48) << 20)
#define KEYS       600

/* A child that cannot attach, which is no failure while others hold the lock. */
#define EXIT_UNATTACHED 3

struct settings {
	int processes, operations, threads, seconds;
	uint64_t seed;
	char group[32];
};

/** Seen by all children. */
struct shared {
	_Atomic uint64_t hits, published, passed, lost;
};

#define STOP_MAX_NS UINT64_C(1000000000)

struct child {
	pid_t pid; /* 0: finished */
	bool stopped;
	uint64_t stopped_at;
};

static struct settings settings = {
	.processes = 6, .operations = 100000, .threads = 2, .seconds = 6, .seed = 1};
static struct shared *shared;
static _Atomic bool failed;
static uint64_t end_ns;

/* After every operation, so that what a child did before it was killed counts as well. */
static void add_counts(struct load_counts *counts)
{
	shared->hits += counts->hits;
	shared->published += counts->published;
	shared->passed += counts->passed;
	shared->lost += counts->lost;
	*counts = (struct load_counts){0};
}

static void *run_thread(void *argument)
{
	struct load *load = argument;

	for (int i = 0; i < settings.operations && ts_now_ns() < end_ns; i++) {
		bool right = load_operation(load);
		add_counts(&load->counts);
		if (!right) {
			failed = true;
			break;
		}
	}
	return NULL;
}

static int run_child(uint64_t seed)
{
	struct ts_store *store;
	struct load loads[THREADS_MAX];
	pthread_t threads[THREADS_MAX];
	int r = load_attach(settings.group, RING_BYTES, &store);

	if (r < 0)
		return EXIT_UNATTACHED;
	for (int i = 0; i < settings.threads; i++) {
		loads[i] = (struct load){.store = store,
			.random = seed * 64 + (uint64_t)i + 1,
			.keys = KEYS,
			.size_limit = UINT64_C(512) << 10};
		pthread_create(&threads[i], NULL, run_thread, &loads[i]);
	}
	for (int i = 0; i < settings.threads; i++)
		pthread_join(threads[i], NULL);
	ts_store_detach(store);
	return failed ? 1 : 0;
}

static void spawn(struct child *child, uint64_t seed)
{
	fflush(stderr);
	child->stopped = false;
	child->pid = fork();
	if (child->pid == 0)
		_exit(run_child(seed));
}

/* Collect who ended; false when one of them found something wrong. */
static bool reap(struct child *children)
{
	for (int i = 0; i < settings.processes; i++) {
		int status;
		if (children[i].pid == 0 || waitpid(children[i].pid, &status, WNOHANG) <= 0)
			continue;
		children[i].pid = 0;
		if (WIFEXITED(status) &&
			(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == EXIT_UNATTACHED))
			continue;
		fprintf(stderr, "a child ended with status %x\n", (unsigned)status);
		return false;
	}
	return true;
}

static void disturb(struct child *child, uint64_t *random)
{
	uint64_t dice = load_random(random) % 8;

	if (child->pid == 0) {
		spawn(child, load_random(random));
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
		spawn(child, load_random(random));
	}
}

/* A child that waits for a record counts its own sleep, so nobody sleeps for long. */
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
	uint64_t limit = ts_now_ns() + LOAD_DEADLINE_NS + 2 * LOAD_SLACK_NS;
	bool right = true, running = true;

	for (int i = 0; i < settings.processes; i++) {
		if (children[i].pid)
			kill(children[i].pid, SIGCONT);
	}
	while (running && right && ts_now_ns() < limit) {
		right = reap(children);
		running = false;
		for (int i = 0; i < settings.processes; i++)
			running |= children[i].pid != 0;
		usleep(2000);
	}
	for (int i = 0; i < settings.processes; i++) {
		if (children[i].pid == 0)
			continue;
		fprintf(stderr, "child %d does not end\n", (int)children[i].pid);
		kill(children[i].pid, SIGKILL);
		waitpid(children[i].pid, NULL, 0);
		right = false;
	}
	return right;
}

static bool run(void)
{
	struct child children[PROCESSES_MAX] = {0};
	uint64_t random = settings.seed;
	bool right = true;

	end_ns = ts_now_ns() + (uint64_t)settings.seconds * 1000000000;
	for (int i = 0; i < settings.processes; i++)
		spawn(&children[i], load_random(&random));
	while (right && ts_now_ns() < end_ns) {
		usleep(1000 + (useconds_t)(load_random(&random) % 20000));
		right = reap(children);
		wake(children);
		disturb(&children[load_random(&random) % (uint64_t)settings.processes],
			&random);
	}
	right &= finish(children);
	fprintf(stderr, "seed %llu: %llu hits, %llu published, %llu passed, %llu lost\n",
		(unsigned long long)settings.seed, (unsigned long long)shared->hits,
		(unsigned long long)shared->published, (unsigned long long)shared->passed,
		(unsigned long long)shared->lost);
	if (shared->hits == 0 || shared->published == 0) {
		fprintf(stderr, "nothing was shared\n");
		right = false;
	}
	return right;
}

static bool parse(int argc, char **argv)
{
	for (int option = getopt(argc, argv, "n:m:t:s:r:"); option != -1;
		option = getopt(argc, argv, "n:m:t:s:r:")) {
		int value = option == '?' ? 0 : atoi(optarg);
		switch (option) {
		case 'n':
			settings.processes = value;
			break;
		case 'm':
			settings.operations = value;
			break;
		case 't':
			settings.threads = value;
			break;
		case 's':
			settings.seconds = value;
			break;
		case 'r':
			settings.seed = (uint64_t)value;
			break;
		default:
			return false;
		}
	}
	return settings.processes >= 2 && settings.processes <= PROCESSES_MAX &&
	       settings.threads >= 1 && settings.threads <= THREADS_MAX && settings.seed != 0 &&
	       settings.seconds > 0 && settings.operations > 0;
}

int main(int argc, char **argv)
{
	struct ts_store *probe;

	if (!parse(argc, argv)) {
		fprintf(stderr, "usage: ring_stress [-n 2..32] [-m operations] [-t 1..8] "
				"[-s seconds] [-r seed]\n");
		return 1;
	}
	snprintf(settings.group, sizeof(settings.group), "stress-%d", (int)getpid());
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	int r = load_attach(settings.group, RING_BYTES, &probe);
	if (r < 0 || shared == MAP_FAILED) {
		fprintf(stderr, "no shared memory: %s\n", strerror(-r));
		return 77;
	}
	ts_store_detach(probe);
	bool right = run();
	right &= load_group_is_healthy(settings.group, RING_BYTES);
	return right ? 0 : 1;
}
