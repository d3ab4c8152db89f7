/* SPDX-License-Identifier: MIT */
/*
 * schedules FIRST COUNT [EACH]: so many random schedules of jobs that bring the same batches.
 *
 * A machine is a driver with delays of its own and two or three jobs, new processes, which
 * run EACH (10) schedules there one after the other: which call of which batch into which
 * stream, sizes, pauses, and sometimes a context that ends.  All begin a schedule at once.  All
 * of it follows from the number of the schedule; what the machine is, from that of its first.
 *
 * The delays are real ones, but short: what takes milliseconds in a GPU takes a tenth of that,
 * and nobody sleeps to wait for somebody else.
 *
 * Called by itself: schedules job FD FIRST END MINE, FD being a page with the jobs' barrier.
 *
 * The driver counts into FAKECUDA_COUNTERS: after each machine nothing may have been read late.
 */
#include "../fakecuda/counters.h"
#include "gpu_job.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOBS_MAX 3u

/* What hangs shall be told by its number; no machine takes a hundredth of this. */
#define MACHINE_SECONDS 60u

#define ONE_OF(state, ...)                     \
	((const unsigned[]){                   \
		__VA_ARGS__}[job_next(state) % \
			     (sizeof((const unsigned[]){__VA_ARGS__}) / sizeof(unsigned))])

struct counted {
	char name[56];
	uint64_t count;
};

static pthread_barrier_t *barrier;
static int barrier_fd;
static unsigned long each = 10;

/* ---- a machine -------------------------------------------------------------------------- */

static void tell(const char *name, unsigned long long value)
{
	char text[24];
	(void)snprintf(text, sizeof(text), "%llu", value);
	if (setenv(name, text, 1) != 0)
		_exit(2);
}

/* One in @of machines has what is none of the usual. */
static int rarely(uint64_t *state, unsigned of)
{
	return job_next(state) % of == 0;
}

/* By the environment, for the jobs. */
static void set_up(uint64_t *state)
{
	tell("FAKECUDA_JITTER_US", ONE_OF(state, 0, 20, 100, 500));
	tell("FAKECUDA_JITTER_SEED", job_next(state) >> 2);
	tell("FAKECUDA_DELAY_US", ONE_OF(state, 0, 0, 0, 20, 100));
	tell("FAKECUDA_BANDWIDTH", 1000000ull * ONE_OF(state, 0, 0, 1000, 4000, 16000));
	tell("FAKECUDA_DEVICE_BANDWIDTH", 1000000ull * ONE_OF(state, 0, 0, 1000, 4000));
	tell("FAKECUDA_IPC_OPEN_US", ONE_OF(state, 0, 0, 300));
	/* Rings of 32, of 3, and of 2 slots. */
	tell("FAKECUDA_MEMORY", (unsigned long long)ONE_OF(state, 8192, 240, 160) << 20);
	tell("FAKECUDA_NO_IPC", rarely(state, 20));
	tell("FAKECUDA_BATCHES_LATE", rarely(state, 2));
	tell("TSSHIM_VERIFY", rarely(state, 4) ? 100 : 0);
}

/* One job of a machine; @mine tells it from the others. */
static int run_job(unsigned long first, unsigned long end, unsigned mine)
{
	struct job job = {.bytes = (size_t)300000 & ~(size_t)7, .sizes = JOB_SIZES};
	(void)alarm(MACHINE_SECONDS);
	job_start(&job);
	for (unsigned long number = first; number < end; number++) {
		uint64_t state = number;
		struct job now = {.data = number};
		now.bytes = ONE_OF(&state, 262144, 300000);
		now.sizes = ONE_OF(&state, 1, 3, 9);
		now.pause_us = ONE_OF(&state, 0, 20, 100);
		now.calls = ONE_OF(&state, 0, 0, 1, 2);
		now.batches = 1;
		unsigned steps = ONE_OF(&state, 6, 8, 10), leave = rarely(&state, 100) ? 1 : 0;
		leave += leave ? (unsigned)(job_next(&state) % 2) : 0;
		now.schedule = number * JOBS_MAX + mine;
		(void)pthread_barrier_wait(barrier);
		job_bring(&now, 0, steps / 2);
		if (leave)
			job_leave(&job, leave);
		now.schedule ^= UINT64_C(1) << 40;
		job_bring(&now, steps / 2, steps - steps / 2);
		job_look();
	}
	return 0;
}

static void become_job(unsigned long first, unsigned long end, unsigned mine)
{
	char text[4][24];
	(void)snprintf(text[0], sizeof(text[0]), "%d", barrier_fd);
	(void)snprintf(text[1], sizeof(text[1]), "%lu", first);
	(void)snprintf(text[2], sizeof(text[2]), "%lu", end);
	(void)snprintf(text[3], sizeof(text[3]), "%u", mine);
	(void)execl("/proc/self/exe", "schedules", "job", text[0], text[1], text[2], text[3],
		(char *)NULL);
	_exit(2);
}

/* Whether all jobs ended well; those that are left are ended otherwise. */
static int wait_for(const pid_t *jobs, unsigned count)
{
	int good = 1, status;
	for (unsigned ended = 0; ended < count; ended++) {
		if (wait(&status) < 0)
			return 0;
		if (status == 0)
			continue;
		if (good)
			printf("a job ended with %#x\n", (unsigned)status);
		good = 0;
		for (unsigned i = 0; i < count; i++)
			(void)kill(jobs[i], SIGKILL);
	}
	return good;
}

static int run_machine(unsigned long first, unsigned long end)
{
	uint64_t state = ~(uint64_t)(first / each);
	unsigned count = ONE_OF(&state, 2, 2, 3);
	pid_t jobs[JOBS_MAX];
	pthread_barrierattr_t attributes;
	set_up(&state);
	(void)pthread_barrierattr_init(&attributes);
	(void)pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	if (pthread_barrier_init(barrier, &attributes, count) != 0)
		return 0;
	for (unsigned i = 0; i < count; i++) {
		jobs[i] = fork();
		if (jobs[i] < 0)
			return 0;
		if (jobs[i] == 0)
			become_job(first, end, i);
	}
	return wait_for(jobs, count);
}

/* ---- all of them ------------------------------------------------------------------------ */

static uint64_t count_of(const struct counted *counted, const char *name)
{
	while (strcmp(counted->name, name) != 0)
		counted++;
	return counted->count;
}

static const struct counted *open_counters(void)
{
	const char *path = getenv("FAKECUDA_COUNTERS");
	FILE *file = path ? fopen(path, "r") : NULL;
	if (!file)
		return NULL;
	void *mapped = mmap(NULL, sizeof(struct counted) * FAKE_COUNTER_COUNT, PROT_READ,
		MAP_SHARED, fileno(file), 0);
	(void)fclose(file);
	return mapped == MAP_FAILED ? NULL : mapped;
}

/* Whether the machine of @number was a good one; *ret_shared: whether it shared anything. */
static int look_at(const struct counted *counted, unsigned long number, int *ret_shared)
{
	static uint64_t within;
	*ret_shared = count_of(counted, "d2d_copies") > within;
	within = count_of(counted, "d2d_copies");
	if (count_of(counted, "poisoned_reads") == 0 && count_of(counted, "late_uses") == 0 &&
		count_of(counted, "freed_while_open") == 0)
		return 1;
	printf("memory that was gone was used or mapped, at schedule %lu\n", number);
	return 0;
}

static bool share_barrier(int fd)
{
	barrier_fd = fd;
	barrier = mmap(NULL, sizeof(*barrier), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return barrier != MAP_FAILED;
}

static bool make_barrier(void)
{
	int fd = memfd_create("barrier", 0);
	return fd >= 0 && ftruncate(fd, sizeof(*barrier)) == 0 && share_barrier(fd);
}

int main(int argc, char **argv)
{
	if (argc == 6 && strcmp(argv[1], "job") == 0)
		return share_barrier(atoi(argv[2]))
			       ? run_job(strtoul(argv[3], NULL, 10), strtoul(argv[4], NULL, 10),
					 (unsigned)atoi(argv[5]))
			       : 2;
	unsigned long first = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
	unsigned long end = argc > 2 ? first + strtoul(argv[2], NULL, 10) : 0;
	unsigned long machines = 0, sharing = 0;
	const struct counted *counted = NULL;
	if (argc > 3)
		each = strtoul(argv[3], NULL, 10);
	if (argc < 3 || each == 0 || !make_barrier())
		return 2;
	for (unsigned long at = first; at < end; at += each) {
		int shared;
		/* What is in the buffer is not for the children to print as well. */
		(void)fflush(stdout);
		int good = run_machine(at, at + each < end ? at + each : end);
		if (!counted)
			counted = open_counters();
		if (!good || !counted || !look_at(counted, at, &shared)) {
			printf("not well: schedules from %lu on\n", at);
			return 1;
		}
		machines++;
		sharing += (unsigned long)shared;
	}
	printf("equal: %lu schedules, %lu of %lu machines shared\n", end - first, sharing,
		machines);
	return fflush(stdout) != 0;
}
