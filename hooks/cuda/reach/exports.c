/* SPDX-License-Identifier: MIT */
/* The driver's copies, and ends of contexts, as programs linked with it see them. Trampolines
 * only. */
#include "hooks/cuda/reach/next.h"

/* Nobody can have called cuInit where no library defines these. */
#define TS_X(symbol, kind, which)                                                  \
	TS_EXPORT ts_cu_result symbol TS_CU_TAKES_##kind;                          \
	ts_cu_result symbol TS_CU_TAKES_##kind                                     \
	{                                                                          \
		__typeof__(symbol) *next =                                         \
			(__typeof__(symbol) *)ts_cuda_next(TS_CUDA_NEXT_##symbol); \
		return next ? next TS_CU_PASSES_##kind : TS_CU_NOT_INITIALIZED;    \
	}
TS_CUDA_EXPORTED(TS_X)
#undef TS_X
