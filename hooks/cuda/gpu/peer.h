/* SPDX-License-Identifier: MIT */
/*
 * Rings that serve other GPUs than the one that has them. Service thread only.
 *
 * Jobs on several GPUs bring the same batches as well, mostly one job to each GPU.  Where these
 * reach each other's memory by a link that is faster than the one to the host, one ring will do
 * for all of them: who has brought a batch to its own GPU copies it to the ring over there, and
 * the others take it from there.  Nothing but the row of the table differs from a ring at home.
 *
 * Whether there is such a link a process can only try, for it may see one GPU alone: it opens
 * the memory, and times copies from there and from pinned memory of its own.  What it found it
 * remembers for that GPU.  To be tried there has to be something, and a ring that nobody
 * reaches is a waste, so first there is a trial of one small slot, which nobody at home uses:
 *
 *   asked from afar, nobody offers ──> trial ──somebody keeps it open──> a ring
 *                                        └──nobody does──> nothing, for ten minutes
 *
 * Of several trials the one in the lowest row stays.
 */
#ifndef TS_HOOKS_CUDA_GPU_PEER_H
#define TS_HOOKS_CUDA_GPU_PEER_H

#include "hooks/cuda/gpu/gpu.h"

/**
 * Of a GPU without a ring, whose copies may be brought to other ones: look for the ring of one
 * of these that is worth the way, or offer a trial.
 */
void ts_peer_look(struct ts_gpu *gpu);

/** Whether the trial that @gpu offers is over: seen, not needed any more, or in vain. */
bool ts_peer_is_over(struct ts_gpu *gpu);

#endif
