/* SPDX-License-Identifier: MIT */
/*
 * The calls of ours that stand in front of the driver's: one for each name of the tables in
 * hooks/cuda/abi.h, with the parameters and results of the original.
 *
 * Given out in the place of an address of the driver, so each calls the driver itself and not
 * what else is called like it: libraries that bring trampolines of these names along would
 * come back here.  Threads: any.
 */
#ifndef TS_HOOKS_CUDA_REACH_CALLS_H
#define TS_HOOKS_CUDA_REACH_CALLS_H

#include "hooks/cuda/abi.h"

#define TS_X(symbol, kind, stream) ts_cu_result ts_cuda_##symbol TS_CU_TAKES_##kind;
TS_CUDA_HOOKED(TS_X)
#undef TS_X

#endif
