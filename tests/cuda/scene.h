/* SPDX-License-Identifier: MIT */
/*
 * What the small programs have in common that reach the driver through the runtime in miniature
 * (tests/fakecuda/minicudart.h): words NAME=NUMBER, beginning together, and batches that
 * follow from numbers.
 */
#ifndef TS_TESTS_CUDA_SCENE_H
#define TS_TESTS_CUDA_SCENE_H

#include "minicudart.h"

#include <stddef.h>
#include <stdint.h>

#define SCENE_BYTES ((size_t)300000)

/** The functions of the driver; set by scene_start(). */
extern const struct mini_driver *cu;

/** The source of all copies, and what was read back; SCENE_BYTES each. */
extern unsigned char *scene_source, *scene_arrived;

/** Start the driver, memory for the two. Ends the process where there is none. */
void scene_start(void);

/** The value of the word NAME=NUMBER among the arguments, or @otherwise. */
long scene_word(char **words, const char *name, long otherwise);

/** Of words gate=FD and ready=FD: a byte to the one, then wait until the other has ended. */
void scene_wait(char **words);

/**
 * Of words before=FD and after=FD: a byte is read before each step, and one written after it,
 * so that neither of two jobs is held up without the other one.
 */
void scene_before(char **words);
void scene_after(char **words);

/** Make the source batch @number of data set @data; 1 if that is what was read back, else 0. */
void scene_fill(uint64_t data, uint64_t number);
int scene_is(uint64_t data, uint64_t number);

/** Say that @what failed and end the process. */
void scene_check(CUresult result, const char *what);

#define SCENE_CHECK(call) scene_check(call, #call)

#endif
