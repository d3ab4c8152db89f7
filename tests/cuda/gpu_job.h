/* SPDX-License-Identifier: MIT */
/*
 * A job that brings batches to a GPU in all the ways there are, and looks what arrived.
 *
 * What the batches hold follows from @data and the number of the batch, so jobs of equal data
 * bring the same.  How they are brought follows from @schedule: which call, which stream, which
 * of several places, pauses.  The source is overwritten as soon as a call has returned, and
 * what arrived is overwritten in stream order at random: whoever reads late reads something
 * else.  Each batch is read back and compared, some of them only when others were enqueued.
 *
 * One job per process.  All that goes wrong is said on stdout and ends the process with 1.
 */
#ifndef TS_TESTS_CUDA_JOB_H
#define TS_TESTS_CUDA_JOB_H

#include <stddef.h>
#include <stdint.h>

#define JOB_SIZES 16u
#define JOB_PARTS 3u

struct job {
	uint64_t data, schedule;
	size_t bytes;      /* of a batch, at least */
	unsigned sizes;    /* so many different ones from there on, by 4 KiB */
	unsigned pause_us; /* up to so many us between two */
	unsigned pace_us;  /* and each not before so many us for each one before it */
	unsigned calls;    /* 1: those without a stream; 2: with one; 0: both; 3: @batches */
	unsigned batches;  /* and not 0: those of several copies as well, unless @calls is 1 */
	unsigned parts;    /* of those, at most; 0: JOB_PARTS */
	unsigned distinct; /* not 0: each begins otherwise, as real ones do */
	unsigned fills; /* 1: what is before every other copy in its stream, after @busy_us, */
			/* writes its source; 1, 2: which stays until the copy is done */
	unsigned busy_us; /* that a stream has work for when a copy is put into it */
	unsigned blind;   /* not 0: what arrived is not compared, as nobody knows what it is */
};

/** Find the driver and get ready. Once; @job->bytes and @job->sizes are the most there will be.
 */
void job_start(const struct job *job);

/** Bring batches @first to @first + @count - 1, as @job is now. */
void job_bring(const struct job *job, uint64_t first, uint64_t count);

/**
 * The same, and then more of them until this pipe has ended, where it is none below 0.  Returns
 * how many.
 */
uint64_t job_bring_until(const struct job *job, uint64_t first, uint64_t count, int pipe);

/** Bring @bytes once, as a program does the parameters of a layer, and read them back. */
void job_bring_parameters(size_t bytes, unsigned layer);

/** Compare all that was not compared yet. */
void job_look(void);

/**
 * Give the primary context back and begin again, as a program may: 1 by a reset, 2 by giving
 * back the reference.
 */
void job_leave(const struct job *job, unsigned way);

/**
 * Allocate until the driver says that there is no room, and then three times more, by @call, a
 * number below JOB_ALLOCATIONS.  Returns how many MiB there were; *ret_longest_ns: the longest
 * of these calls.
 */
#define JOB_ALLOCATIONS 7
unsigned job_fill(unsigned call, uint64_t *ret_longest_ns);

/** The longest copy so far, and how many took longer than JOB_SLOW_NS. */
#define JOB_SLOW_NS UINT64_C(20000000)
uint64_t job_longest_ns(void);
unsigned job_slow(void);

/** Splitmix64, of which any state is good. */
uint64_t job_next(uint64_t *state);

#endif
