/* SPDX-License-Identifier: MIT */
/*
 * Seeding the global generators, and those that a data set has of its own: each in one call.
 *
 * Python takes 30 us for each where an item has emptied the processor's caches.  So the state
 * is written where it lies in the generator's memory.  That it lies there the glue has tried
 * first (sharing/item/private.py): the generator then tells the state that was written.
 *
 * What an item draws is the same in all jobs.  It is not what the library's own seeding with
 * the same number would give: a Mersenne twister gets the words of tsshim_sample_words().
 */
#ifndef TS_HOOKS_TORCH_NUMBERS_H
#define TS_HOOKS_TORCH_NUMBERS_H

#include "shim/base.h"

/** Whose states are known; the numbers are the glue's, too. */
enum ts_generator_kind {
	TS_GENERATOR_OTHER,  /* gets its numbers, and is seeded by the glue */
	TS_GENERATOR_NUMPY,  /* MT19937: words and position; more: 16 bytes of RandomState, or
				NULL */
	TS_GENERATOR_PYTHON, /* random.Random: words; more: the position */
	TS_GENERATOR_PCG,    /* PCG64, PCG64DXSM: 4 words of 64 bits; more: 8 bytes */
	TS_GENERATOR_PHILOX, /* 2 words of 64 bits; more: 4 of them; rest: 48 bytes */
	TS_GENERATOR_SFC,    /* SFC64: 4 words of 64 bits; more: 8 bytes */
	TS_GENERATOR_TORCH,  /* torch.Generator of the CPU: its engine; more and rest: the bytes
				that say whether a normal double and float is left over */
};

/** One generator; the glue fills all but the numbers. */
struct ts_generator {
	uint64_t kind;
	void *words, *more, *rest; /* where its state lies */
	const void *path;          /* by which the data set refers to it */
	uint64_t path_bytes;
	uint64_t numbers[4]; /* out: what it was seeded with */
};

/**
 * Let the 624 words at @words be those of a Mersenne twister seeded with @seed, of which none
 * was drawn: the words themselves are what comes first.
 */
TS_EXPORT void tsshim_sample_words(uint32_t *words, uint64_t seed);

/**
 * Seed @count generators, each with what follows from @bytes at @numbers and its path. Threads:
 * none may use them meanwhile, which the interpreter's lock sees to.
 */
TS_EXPORT void tsshim_sample_seed(
	struct ts_generator *generators, uint64_t count, const void *numbers, uint64_t bytes);

/**
 * Seed the global generators of torch, random and NumPy; @generators are these three, in this
 * order, and one of kind OTHER is left alone. Threads: as above.
 */
TS_EXPORT void tsshim_sample_seed_globals(const struct ts_generator *generators,
	uint64_t torch_seed, uint64_t python_seed, uint32_t numpy_seed);

/**
 * Whether nothing was drawn from these since they were seeded so, as far as their positions
 * tell: after some hundred numbers a position may be what it was.
 */
bool ts_globals_are_fresh(const struct ts_generator *generators);

#endif
