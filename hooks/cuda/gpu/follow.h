/* SPDX-License-Identifier: MIT */
/*
 * Copies from and to places (hooks/cuda/gpu/places.h), followed: an event behind each tells
 * when the GPU does not use the place any more.  The program's threads record, the service
 * looks.
 */
#ifndef TS_HOOKS_CUDA_GPU_FOLLOW_H
#define TS_HOOKS_CUDA_GPU_FOLLOW_H

#include "hooks/cuda/gpu/gpu.h"
#include "hooks/cuda/gpu/places.h"

/**
 * An event in @stream tells when @place is not used any more.  In another context than the
 * stream's it is refused, which is as good as no event.
 * False: nobody will know.  @begin_ns: since when the copy of @bytes
 * has been made, to learn what that takes; 0: not of this one.  Threads: any.
 */
bool ts_follow(struct ts_place *place, ts_cu_stream stream, bool per_thread, uint64_t bytes,
	uint64_t begin_ns);

/** In the context of @gpu: make its events, if they are not there yet. */
ts_cu_result ts_follow_begin(struct ts_gpu *gpu);

/** There: end what has completed.  Returns whether some are left. */
bool ts_follow_end(struct ts_gpu *gpu, ts_cu_result *ret_result);

/** There, as it goes: give the events back; false while copies are under way. */
bool ts_follow_finish(struct ts_gpu *gpu);

#endif
