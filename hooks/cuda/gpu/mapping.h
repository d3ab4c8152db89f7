/* SPDX-License-Identifier: MIT */
/* The memory of a ring in this process: opened, used, given back.  Service thread only. */
#ifndef TS_HOOKS_CUDA_GPU_MAPPING_H
#define TS_HOOKS_CUDA_GPU_MAPPING_H

#include "hooks/cuda/gpu/gpu.h"

/** Open what @owner offers in row gpu->mapping.ring, and say so; 0: it cannot be. */
ts_cu_pointer ts_mapping_open(struct ts_gpu *gpu, const struct ts_device_owner *owner);

/** Use what was opened, or is ours, from now on. */
void ts_mapping_use(
	struct ts_gpu *gpu, ts_cu_pointer base, const struct ts_device_owner *owner);

/** Another's memory; where the driver does not say that it is closed, nor do we. */
void ts_mapping_close(struct ts_gpu *gpu, ts_cu_pointer base);

/** What is mapped or offered goes; false: not yet. */
bool ts_mapping_end(struct ts_gpu *gpu);

/**
 * Whether nobody of this process uses the mapping any more; from the first call on nobody
 * begins to.
 */
bool ts_mapping_is_quiet(struct ts_gpu *gpu);

/** Whether nobody reads or writes what we offered, nor ever will. */
bool ts_mapping_is_withdrawn(struct ts_gpu *gpu);

/** What was set aside goes when nobody has it mapped any more; false: not yet. */
bool ts_mapping_free_aside(struct ts_gpu *gpu);

#endif
