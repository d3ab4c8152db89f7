/* SPDX-License-Identifier: MIT */
/*
 * Many processes share one small ring while some are killed, stopped and woken at random.
 *
 *	ring_stress [-n processes] [-m operations] [-t threads] [-s seconds] [-r seed]
 *
 * Exit status: 0 all records were right and sharing went on, 1 not, 77 no shared memory.
 */
#include "load.h"
#include "wound.h"

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

#define THREADS_MAX 8

/* 46 segments of 1 MiB: more than processes, far fewer bytes than the working set. */
#define RING_BYTES (UINT64_C(48) << 20)
#define KEYS       600

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

static int run_child(uint32_t number, uint64_t seed)
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

static bool run(void)
{
	end_ns = ts_now_ns() + (uint64_t)settings.seconds * 1000000000;
	bool right = crowd_run(&(struct crowd){.processes = settings.processes,
		.seed = settings.seed,
		.end_ns = end_ns,
		.stop_ns = STOP_MAX_NS,
		.finish_ns = LOAD_DEADLINE_NS + 2 * LOAD_SLACK_NS,
		.run = run_child});
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
	return settings.processes >= 2 && settings.processes <= CROWD_MAX &&
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
