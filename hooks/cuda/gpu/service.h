/* SPDX-License-Identifier: MIT */
/* The thread that looks after the GPUs of this process; hooks/cuda/gpu/bell.h is how to reach
 * it.
 */
#ifndef TS_HOOKS_CUDA_GPU_SERVICE_H
#define TS_HOOKS_CUDA_GPU_SERVICE_H

/** From our constructor: from here on the service may be started. */
void ts_service_begin(void);

#endif
