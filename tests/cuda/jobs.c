/* SPDX-License-Identifier: MIT */
/*
 * jobs DATA SCHEDULE STEPS [WORD=NUMBER...]: a job of gpu_job.h that brings STEPS batches.
 *
 *   bytes=N       size of a batch (1 MiB); sizes=N many different ones around it (3)
 *   skip=N        begin with batch N (0)
 *   pause=N       up to so many us between two (0)
 *   pace=N        and each not before N us for each one before it
 *   calls=1|2|3   only those without a stream, with one, or of several copies
 *   parts=N       of so many at most (3)
 *   distinct=1    each begins otherwise, or four in a row alike (0)
 *   fills=1       what is before every other copy in its stream, after the work that busy
 *                 says, writes its source (0); and as with 2 that stays until the copy is done
 *   busy=N        the stream has N us of work before it when a copy is put into it (0)
 *   blind=1       do not look what arrived, where that is not known (0)
 *   calm=N        bring N more when all these have been, with nothing before them
 *   gate=FD       begin when this pipe has ended; ready=FD has a byte written before that
 *   fill=FD       when this pipe has ended, fill the GPU's memory, and bring as many again, and
 *                 more until the pipe then=FD has ended
 *   allocate=N    by this call of JOB_ALLOCATIONS (0)
 *   until=FD      bring more than STEPS until this pipe has ended
 *   first=FD      what comes before the middle goes on until this pipe has ended
 *   stay=FD       bring nothing from the middle on until this pipe has ended, which held=FD has
 *                 a byte for
 *   late=N        and so many us later
 *   parameters=N  bring so many bytes once before that; layers=N so often, of other values (1)
 *   grow=N        bring so many bytes four times in the middle
 *   leave=1|2|3   give the primary context back in the middle
 */
#include "gpu_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The words, and what they are where none is given. */
/* clang-format off */
#define WORDS(X) \
	X(bytes, 1 << 20) X(sizes, 3) X(skip, 0) X(pause, 0) X(pace, 0) X(calls, 0) X(parts, 0) \
	X(distinct, 0) X(fills, 0) X(busy, 0) X(blind, 0) X(calm, 0) X(gate, -1) X(ready, -1) \
	X(until, -1) X(first, -1) X(stay, -1) X(held, -1) X(fill, -1) X(then, -1) X(allocate, 0) \
	X(parameters, 0) X(layers, 1) X(late, 0) X(grow, 0) X(leave, 0)
/* clang-format on */

static struct {
#define X(name, otherwise) long name;
	WORDS(X)
#undef X
} given = {
#define X(name, otherwise) .name = otherwise,
	WORDS(X)
#undef X
};

static struct job job;

static int set(const char *word)
{
	const char *equals = strchr(word, '=');
	size_t length = equals ? (size_t)(equals - word) : 0;
#define X(name, otherwise)                                                  \
	if (length == strlen(#name) && strncmp(word, #name, length) == 0) { \
		given.name = strtol(equals + 1, NULL, 10);                  \
		return 0;                                                   \
	}
	WORDS(X)
#undef X
	return -1;
}

static void make_job(char **words)
{
	job = (struct job){.data = strtoull(words[0], NULL, 10),
		.schedule = strtoull(words[1], NULL, 10),
		.bytes = (size_t)given.bytes,
		.sizes = (unsigned)given.sizes,
		.pause_us = (unsigned)given.pause,
		.pace_us = (unsigned)given.pace,
		.calls = (unsigned)given.calls,
		.parts = (unsigned)given.parts,
		.distinct = (unsigned)given.distinct,
		.fills = (unsigned)given.fills,
		.busy_us = (unsigned)given.busy,
		.blind = (unsigned)given.blind};
}

/* Say so on one pipe, and wait until another one has ended. */
static void wait_for(long end, long say)
{
	char byte = 0;
	if (say >= 0 && (write((int)say, &byte, 1) != 1 || close((int)say) != 0))
		_exit(2);
	while (end >= 0 && read((int)end, &byte, 1) > 0)
		;
}

static void fill_memory(uint64_t steps)
{
	uint64_t longest_ns;
	wait_for(given.fill, -1);
	unsigned room = job_fill((unsigned)given.allocate, &longest_ns);
	printf("room: %u MiB\n~allocation %llu us\n", room,
		(unsigned long long)(longest_ns / 1000));
	(void)job_bring_until(&job, (uint64_t)given.skip + steps, steps, (int)given.then);
	job_look();
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	uint64_t steps = strtoull(argv[3], NULL, 10);
	for (int i = 4; i < argc; i++)
		if (set(argv[i]) != 0)
			return 2;
	make_job(argv + 1);
	if (job.sizes < 1 || job.sizes > JOB_SIZES || job.calls > 3 || job.parts > JOB_PARTS ||
		given.allocate >= JOB_ALLOCATIONS)
		return 2;
	uint64_t half = given.leave || given.grow || given.first >= 0 || given.stay >= 0
				? steps / 2
				: 0;
	uint64_t at = (uint64_t)given.skip;
	job_start(&job);
	for (unsigned i = 0; given.parameters && i < (unsigned)given.layers; i++)
		job_bring_parameters((size_t)given.parameters, i);
	wait_for(given.gate, given.ready); /* all jobs are there before one of them begins */
	(void)usleep((useconds_t)given.late);
	half = job_bring_until(&job, at, half, (int)given.first);
	wait_for(given.stay, given.held);
	if (given.leave)
		job_leave(&job, (unsigned)given.leave);
	for (unsigned i = 0; given.grow && i < 4; i++)
		job_bring_parameters((size_t)given.grow, i);
	job.schedule += half;
	steps = half + job_bring_until(&job, at + half, steps > half ? steps - half : 0,
			       (int)given.until);
	job_look();
	job.busy_us = 0;
	job_bring(&job, at + steps, (uint64_t)given.calm);
	job_look();
	if (given.fill >= 0)
		fill_memory(steps);
	printf("equal: %llu batches\n~longest %llu us\n~slow %u\n", (unsigned long long)steps,
		(unsigned long long)(job_longest_ns() / 1000), job_slow());
	return fflush(stdout) != 0;
}
