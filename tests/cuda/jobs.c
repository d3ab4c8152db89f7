/* SPDX-License-Identifier: MIT */
/*
 * jobs DATA SCHEDULE STEPS [WORD=NUMBER...]: a job of job.h that brings STEPS batches.
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
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct job job = {.bytes = (size_t)1 << 20, .sizes = 3};
static unsigned leave, allocate, layers = 1, late, calm;
static size_t parameters, grow;
static uint64_t skip;
static int gate = -1, ready = -1, until = -1, fill = -1, first = -1, stay = -1, held = -1,
	   then = -1;

static int set(const char *word)
{
	unsigned long long value = strtoull(strchr(word, '=') + 1, NULL, 10);
	if (strncmp(word, "bytes=", 6) == 0)
		job.bytes = (size_t)value;
	else if (strncmp(word, "sizes=", 6) == 0)
		job.sizes = (unsigned)value;
	else if (strncmp(word, "skip=", 5) == 0)
		skip = value;
	else if (strncmp(word, "pause=", 6) == 0)
		job.pause_us = (unsigned)value;
	else if (strncmp(word, "pace=", 5) == 0)
		job.pace_us = (unsigned)value;
	else if (strncmp(word, "calls=", 6) == 0)
		job.calls = (unsigned)value;
	else if (strncmp(word, "parts=", 6) == 0)
		job.parts = (unsigned)value;
	else if (strncmp(word, "distinct=", 9) == 0)
		job.distinct = (unsigned)value;
	else if (strncmp(word, "fills=", 6) == 0)
		job.fills = (unsigned)value;
	else if (strncmp(word, "busy=", 5) == 0)
		job.busy_us = (unsigned)value;
	else if (strncmp(word, "blind=", 6) == 0)
		job.blind = (unsigned)value;
	else if (strncmp(word, "calm=", 5) == 0)
		calm = (unsigned)value;
	else if (strncmp(word, "gate=", 5) == 0)
		gate = (int)value;
	else if (strncmp(word, "ready=", 6) == 0)
		ready = (int)value;
	else if (strncmp(word, "until=", 6) == 0)
		until = (int)value;
	else if (strncmp(word, "first=", 6) == 0)
		first = (int)value;
	else if (strncmp(word, "stay=", 5) == 0)
		stay = (int)value;
	else if (strncmp(word, "held=", 5) == 0)
		held = (int)value;
	else if (strncmp(word, "fill=", 5) == 0)
		fill = (int)value;
	else if (strncmp(word, "then=", 5) == 0)
		then = (int)value;
	else if (strncmp(word, "allocate=", 9) == 0)
		allocate = (unsigned)value;
	else if (strncmp(word, "parameters=", 11) == 0)
		parameters = (size_t)value;
	else if (strncmp(word, "layers=", 7) == 0)
		layers = (unsigned)value;
	else if (strncmp(word, "late=", 5) == 0)
		late = (unsigned)value;
	else if (strncmp(word, "grow=", 5) == 0)
		grow = (size_t)value;
	else if (strncmp(word, "leave=", 6) == 0)
		leave = (unsigned)value;
	else
		return -1;
	return 0;
}

/* Say so on one pipe, and wait until another one has ended. */
static void wait_for(int end, int say)
{
	char byte = 0;
	if (say >= 0 && (write(say, &byte, 1) != 1 || close(say) != 0))
		_exit(2);
	while (end >= 0 && read(end, &byte, 1) > 0)
		;
}

static void fill_memory(uint64_t steps)
{
	uint64_t longest_ns;
	wait_for(fill, -1);
	unsigned room = job_fill(allocate, &longest_ns);
	printf("room: %u MiB\n~allocation %llu us\n", room,
		(unsigned long long)(longest_ns / 1000));
	(void)job_bring_until(&job, skip + steps, steps, then);
	job_look();
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	job.data = strtoull(argv[1], NULL, 10);
	job.schedule = strtoull(argv[2], NULL, 10);
	uint64_t steps = strtoull(argv[3], NULL, 10);
	for (int i = 4; i < argc; i++)
		if (set(argv[i]) != 0)
			return 2;
	if (job.sizes < 1 || job.sizes > JOB_SIZES || job.calls > 3 || job.parts > JOB_PARTS ||
		allocate >= JOB_ALLOCATIONS)
		return 2;
	uint64_t half = leave || grow || first >= 0 || stay >= 0 ? steps / 2 : 0;
	job_start(&job);
	for (unsigned i = 0; parameters && i < layers; i++)
		job_bring_parameters(parameters, i);
	wait_for(gate, ready); /* all jobs are there before one of them begins */
	(void)usleep(late);
	half = job_bring_until(&job, skip, half, first);
	wait_for(stay, held);
	if (leave)
		job_leave(&job, leave);
	for (unsigned i = 0; grow && i < 4; i++)
		job_bring_parameters(grow, i);
	job.schedule += half;
	steps = half +
		job_bring_until(&job, skip + half, steps > half ? steps - half : 0, until);
	job_look();
	job.busy_us = 0;
	job_bring(&job, skip + steps, calm);
	job_look();
	if (fill >= 0)
		fill_memory(steps);
	printf("equal: %llu batches\n~longest %llu us\n~slow %u\n", (unsigned long long)steps,
		(unsigned long long)(job_longest_ns() / 1000), job_slow());
	return fflush(stdout) != 0;
}
