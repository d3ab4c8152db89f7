/* SPDX-License-Identifier: MIT */
/* Samples named by whole numbers, made and published as the Python glue does it. */
#ifndef TS_TESTS_TORCH_FIXTURE_H
#define TS_TESTS_TORCH_FIXTURE_H

#include "hooks/torch/samples.h"
#include "leader/group/kinds.h"
#include "leader/group/store.h"
#include "tests/unit/shim/fixture.h"

#define META_BYTES 24u

/** Scope and stream of all samples here. */
extern const unsigned char torch_scope[16], torch_stream[16];

/** A group in which what is made is kept for others at once. */
void torch_init(void);

/** What is made is kept from now on, though nobody has asked for it, or too few took it. */
void torch_capture(void);

/** Behind each test: samples end, and the group. */
void torch_finish(void);

/** The struct of one thread of the glue, until the test ends. */
struct ts_sample *torch_sample(void);

/** End it already now. */
void torch_destroy(struct ts_sample *sample);

/** Name sample @number (of occurrence @occurrence) and ask for it. */
int torch_take(struct ts_sample *sample, int64_t number, uint32_t occurrence);

/** Publish the claimed sample: @payload bytes of @value, and a meta that ends with @value. */
void torch_publish(struct ts_sample *sample, uint64_t payload, unsigned char value);

/** All of it: expects a claim. */
void torch_make(
	struct ts_sample *sample, int64_t number, uint64_t payload, unsigned char value);

/** What the ledger counted as produced or shared samples. */
uint64_t torch_produced(void);
uint64_t torch_shared(void);

#endif
