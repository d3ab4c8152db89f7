/* SPDX-License-Identifier: MIT */
/* Looking whether a copy that was taken from a ring is what it should be. */
#ifndef TS_HOOKS_CUDA_COPY_VERIFY_H
#define TS_HOOKS_CUDA_COPY_VERIFY_H

#include "hooks/cuda/copy/request.h"
#include "leader/group/store.h"

/**
 * Read back what @copy has written, in its stream, and compare it with its source; counts the
 * comparison, with @lease to say of what.  false: they differ.  true also where it cannot be
 * told: no memory, or an error of the driver.  Waits for the stream.
 */
bool ts_verify_copy(const struct ts_copy *copy, const struct ts_lease *lease);

#endif
