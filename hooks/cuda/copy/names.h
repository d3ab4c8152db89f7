/* SPDX-License-Identifier: MIT */
/* What copies are called by, in the tables where jobs look for them.  All sources are readable
 * and of TS_COPY_BYTES_MIN and more.  Threads: any. */
#ifndef TS_HOOKS_CUDA_COPY_NAMES_H
#define TS_HOOKS_CUDA_COPY_NAMES_H

#include "hooks/cuda/copy/request.h"
#include "hooks/cuda/gpu/cost.h"
#include "leader/group/store.h"

#define TS_NAMES_ANY_GPU UINT32_MAX

/**
 * A hint, never taken for equality: 8 KiB of the source, its length, and the @gpu of the
 * group's table, for who brings the same to another one has no use for a ring on this one; or
 * for any.
 */
struct ts_key ts_names_hint(const struct ts_copy *copy, uint32_t gpu);

/**
 * What stands for the bytes that @copy brings: of a known source what it is known by, of
 * another one XXH3-128 of all of it, and of both the length.  What that takes is learned.
 * False: the source is not what it was known for.
 */
bool ts_names_copy(const struct ts_copy *copy, struct ts_key *ret_key);

/** @cost, of sources like that of @copy. */
enum ts_cost ts_names_cost(const struct ts_copy *copy, enum ts_cost cost);

#endif
