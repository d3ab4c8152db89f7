/* SPDX-License-Identifier: MIT */
/*
 * Jobs of different speed in free order, on a clock that is only counted.
 *
 * A job delivers at its speed, chooses AHEAD deliveries before it delivers, and what is chosen
 * is fetched half-way: found in the ring, or made for it.  The ring is a real one, of some 5 %
 * of the data.  The larger an index, the larger is its sample, and the longer it takes to make;
 * so what is told of the index holds for the size, and for a label by which the data are
 * sorted.  All of it follows from the numbers here, so the bounds are those of one experiment.
 */
#ifndef TS_TESTS_UNIT_TORCH_SPEEDS_H
#define TS_TESTS_UNIT_TORCH_SPEEDS_H

#include <stdint.h>

/* Visits of 10000, of uniform permutations: half of a tenth squared, 50. */
#define SPEEDS_NEAR 75u

struct speeds_job;

/** Some jobs, for as many as are run; end them. */
struct speeds_job *speeds_begin(void);
void speeds_end(struct speeds_job *jobs);

/** Made by all, for each that the fastest was given, after its first epochs. */
double speeds_run(struct speeds_job *jobs, unsigned count, const double *speeds);

/**
 * What each was given is a shuffle: an index comes again within a tenth of an epoch in @near of
 * 10000 visits at most.
 */
void speeds_expect_shuffled(const struct speeds_job *jobs, unsigned count, uint64_t near);

#endif
