/* SPDX-License-Identifier: MIT */
/* The driver, in the stream of a copy.  Threads: any. */
#ifndef TS_HOOKS_CUDA_COPY_STREAM_H
#define TS_HOOKS_CUDA_COPY_STREAM_H

#include "hooks/cuda/copy/request.h"

/** As many bytes as @copy has, within the GPU. */
ts_cu_result ts_copy_within(const struct ts_copy *copy, ts_cu_pointer to, ts_cu_pointer from);

/** An event behind what was put there so far. */
ts_cu_result ts_copy_record(const struct ts_copy *copy, ts_cu_event event);

/** Wait for all that was put there. */
ts_cu_result ts_copy_synchronize(const struct ts_copy *copy);

/** Whether all that was put there is done; an error is a "no". */
bool ts_copy_is_idle(const struct ts_copy *copy);

/** Also what streams that do not say otherwise wait for, without having anything themselves. */
bool ts_copy_is_all_idle(const struct ts_copy *copy);

#endif
