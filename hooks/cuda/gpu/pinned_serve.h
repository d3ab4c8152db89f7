/* SPDX-License-Identifier: MIT */
/* Pinning and giving back: the service's side of hooks/cuda/gpu/pinned.h. */
#ifndef TS_HOOKS_CUDA_GPU_PINNED_SERVE_H
#define TS_HOOKS_CUDA_GPU_PINNED_SERVE_H

#include "hooks/cuda/gpu/gpu.h"

/**
 * A round, in the context of @gpu: ends what has completed, pins what is wanted, a piece of it
 * at a time.  Returns whether to come back soon.
 */
bool ts_pinned_serve(struct ts_gpu *gpu, ts_cu_result *ret_result);

/** In the context of @gpu, which is going: false while copies are under way. */
bool ts_pinned_give_back(struct ts_gpu *gpu);

#endif
