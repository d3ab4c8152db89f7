/* SPDX-License-Identifier: MIT */
/* Which call of ours a program gets in the place of one of the driver's, however it asks. */
#include "hooks/cuda/reach/substitute.h"

#include "hooks/cuda/library.h"
#include "hooks/cuda/reach/calls.h"

#include <string.h>

static const char *const names[] = {
#define TS_X(symbol, kind, stream) #symbol,
	TS_CUDA_HOOKED(TS_X)
#undef TS_X
};

static bool is_hooked(const char *name)
{
	/* "cu" is also how names of cuDNN, cuBLAS and curl begin. */
	if (name[0] != 'c' || name[1] != 'u' || !strchr("DGM", name[2]))
		return false;
	for (size_t i = 0; i < TS_ARRAY_SIZE(names); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

/* What @found is replaced by if it is the address of a function whose parameters we know.
 * No lock. */
static void *call_before(void *found)
{
#define TS_X(symbol, kind, stream)                             \
	if (found == (void *)ts_load_relaxed(&ts_cuda.symbol)) \
		return (void *)ts_cuda_##symbol;
	TS_CUDA_HOOKED(TS_X)
#undef TS_X
	return found;
}

void *ts_cuda_substitute(void *found, const char *name, const void *caller)
{
	struct ts_elf_object object, from;
	if (TS_LIKELY(!is_hooked(name)))
		return found;
	if (!ts_elf_containing((uintptr_t)found, &object) || !ts_cuda_is_driver(&object))
		return found;
	if (ts_elf_containing((uintptr_t)caller, &from) && ts_cuda_is_driver(&from))
		return found;
	return ts_cuda_bind(&object) ? call_before(found) : found;
}

/* ---- resolvers -------------------------------------------------------------------------- */

/*
 * The driver answers first, to what it was asked.  What it names is replaced only where it is
 * the address of a call whose parameters we know: a later variant of a name has another one.
 */
static void answer(ts_cu_result result, void **ret_function)
{
	if (result == TS_CU_SUCCESS && ret_function && *ret_function)
		*ret_function = call_before(*ret_function);
}

#define TS_X(symbol, kind, which)                                                 \
	ts_cu_result ts_cuda_##symbol TS_CU_TAKES_##kind                          \
	{                                                                         \
		ts_cu_result result = TS_CUDA_DRIVER(symbol) TS_CU_PASSES_##kind; \
		answer(result, ret_function);                                     \
		return result;                                                    \
	}
TS_CUDA_RESOLVERS(TS_X)
#undef TS_X
