/* SPDX-License-Identifier: MIT */
/* The ring of a GPU: offering memory of ours.  Service thread only. */
#ifndef TS_HOOKS_CUDA_GPU_OFFER_H
#define TS_HOOKS_CUDA_GPU_OFFER_H

#include "hooks/cuda/gpu/gpu.h"

/** Offer memory of ours, if there is some to spare and it is time. */
void ts_offer(struct ts_gpu *gpu);

/** Whether what recurs finds no slot of ours that is large enough, or too few far too large. */
bool ts_offer_is_ill_shaped(struct ts_gpu *gpu);

#endif
