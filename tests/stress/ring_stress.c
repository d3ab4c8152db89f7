/* SPDX-License-Identifier: MIT */
/*
 * Many processes share one small ring while some are killed, stopped and woken at random.
 *
 *	ring_stress [-n processes] [-t threads] [-s seconds] [-r seed]
 *
 * Exit status: 0 all records were right and sharing went on, 1 not, 77 no shared memory.
 */
#include "load.h"
#include "wound.h"

#include "shim/sys.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

#define THREADS_MAX 8
#define KEYS        600

/** Seen by all children. */
struct shared {
	_Atomic uint64_t hits, published, passed, lost;
};

static int run_child(uint32_t number, uint64_t seed);

/* 46 segments of 1 MiB: more than processes, far fewer bytes than the working set. */
static struct crowd crowd = {.processes = 6,
	.threads = 2,
	.seconds = 6,
	.seed = 1,
	.most_processes = CROWD_MAX,
	.most_threads = THREADS_MAX,
	.name = "stress",
	.ring_bytes = UINT64_C(48) << 20,
	.stop_ns = UINT64_C(1000000000),
	.finish_ns = LOAD_DEADLINE_NS + 2 * LOAD_SLACK_NS,
	.run = run_child};
static struct shared *shared;
static _Atomic bool failed;

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

	while (!failed && ts_now_ns() < crowd.end_ns) {
		if (!load_operation(load))
			failed = true;
		add_counts(&load->counts);
	}
	return NULL;
}

static int run_child(uint32_t number, uint64_t seed)
{
	struct ts_store *store;
	struct load loads[THREADS_MAX];
	pthread_t threads[THREADS_MAX];
	int r = load_attach(crowd.group, crowd.ring_bytes, &store);

	if (r < 0)
		return EXIT_UNATTACHED;
	for (int i = 0; i < crowd.threads; i++) {
		loads[i] = (struct load){.store = store,
			.random = seed * 64 + (uint64_t)i + 1,
			.keys = KEYS,
			.size_limit = UINT64_C(512) << 10,
			.run_bytes = UINT64_C(4) << 20};
		pthread_create(&threads[i], NULL, run_thread, &loads[i]);
	}
	for (int i = 0; i < crowd.threads; i++)
		pthread_join(threads[i], NULL);
	ts_store_detach(store);
	return failed ? 1 : 0;
}

int main(int argc, char **argv)
{
	int status = crowd_begin(&crowd, argc, argv);

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	if (status != 0 || shared == MAP_FAILED)
		return status != 0 ? status : 77;
	bool right = crowd_run(&crowd);
	fprintf(stderr, "seed %llu: %llu hits, %llu published, %llu passed, %llu lost\n",
		(unsigned long long)crowd.seed, (unsigned long long)shared->hits,
		(unsigned long long)shared->published, (unsigned long long)shared->passed,
		(unsigned long long)shared->lost);
	if (shared->hits == 0 || shared->published == 0) {
		fprintf(stderr, "nothing was shared\n");
		right = false;
	}
	return load_group_is_healthy(crowd.group, crowd.ring_bytes) && right ? 0 : 1;
}
