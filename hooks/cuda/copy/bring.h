/* SPDX-License-Identifier: MIT */
/*
 * Having the driver bring a copy: by its own call, as the program asked for it; followed where
 * a buffer of the hand-over pool is at one of its ends (hooks/cuda/gpu/pinned.h); or left for
 * the call that it is a part of (batch.h).  Threads: any.
 */
#ifndef TS_HOOKS_CUDA_COPY_BRING_H
#define TS_HOOKS_CUDA_COPY_BRING_H

#include "hooks/cuda/copy/request.h"
#include "hooks/cuda/gpu/known.h"

/** Whether @copy reads from a place or writes to one. */
bool ts_bring_is_pooled(const struct ts_copy *copy);

/** Whether @copy reads only what is known. Says nothing of what was written since. */
bool ts_bring_known(const struct ts_copy *copy, struct ts_known *ret_known);

/** Whether ts_bring() leaves @copy. */
bool ts_bring_may_leave(const struct ts_copy *copy);

/** Have @copy brought, or left; and return what the driver's own call says. */
ts_cu_result ts_bring(const struct ts_copy *copy);

/**
 * Do a copy from or to a place, as the driver would, and remember it.  @captured: it may become
 * a graph's.
 */
ts_cu_result ts_bring_followed(const struct ts_copy *copy, bool captured);

#endif
