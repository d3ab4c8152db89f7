/* SPDX-License-Identifier: MIT */
/* The calls of ours that stand in front of the driver's resolvers. */
#include "hooks/cuda/library.h"
#include "hooks/cuda/reach/calls.h"
#include "hooks/cuda/reach/substitute.h"

#define DRIVER(symbol) TS_CUDA_DRIVER(symbol)

/*
 * The driver answers first, to what it was asked.  What it names is replaced only where it is
 * the address of a call whose parameters we know: a later variant of a name has another one.
 */
static void answer(ts_cu_result result, void **ret_function)
{
	if (result == TS_CU_SUCCESS && ret_function && *ret_function)
		*ret_function = ts_cuda_substitute_address(*ret_function);
}

#define TS_X(symbol, kind, which)                                         \
	ts_cu_result ts_cuda_##symbol TS_CU_TAKES_##kind                  \
	{                                                                 \
		ts_cu_result result = DRIVER(symbol) TS_CU_PASSES_##kind; \
		answer(result, ret_function);                             \
		return result;                                            \
	}
TS_CUDA_RESOLVERS(TS_X)
#undef TS_X
