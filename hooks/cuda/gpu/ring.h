/* SPDX-License-Identifier: MIT */
/*
 * The ring of a GPU.  Get ready, look after it, give all back: steps of the service, in the
 * primary context where there is one.
 */
#ifndef TS_HOOKS_CUDA_GPU_RING_H
#define TS_HOOKS_CUDA_GPU_RING_H

#include "hooks/cuda/gpu/gpu.h"

/** Get @gpu ready to share, in the group's @table.  An error: this GPU is left alone. */
ts_cu_result ts_ring_prepare(struct ts_gpu *gpu, struct ts_device *table);

/** Map or offer what there is to be, and give back what is not wanted any more. */
void ts_ring_look(struct ts_gpu *gpu);

/** Give everything back; false: not yet. */
bool ts_ring_give_back(struct ts_gpu *gpu);

/** The same after an error, when calls in the context fail: of that, only our reference. */
bool ts_ring_let_go(struct ts_gpu *gpu);

#endif
