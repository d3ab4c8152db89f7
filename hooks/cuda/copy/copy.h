/* SPDX-License-Identifier: MIT */
/* One copy that a program asked its driver for, and what becomes of it. */
#ifndef TS_HOOKS_CUDA_COPY_COPY_H
#define TS_HOOKS_CUDA_COPY_COPY_H

#include "hooks/cuda/copy/request.h"

/**
 * Do @copy, or have it done, and return what the driver's own call says.  Counts what was
 * not shared.  Threads: any.
 */
ts_cu_result ts_copy(const struct ts_copy *copy);

#endif
