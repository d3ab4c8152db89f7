/* SPDX-License-Identifier: MIT */
/* Which call of ours a program gets in the place of one of the driver's. */
#include "hooks/cuda/reach/substitute.h"

#include "hooks/cuda/library.h"
#include "hooks/cuda/reach/calls.h"

#include <string.h>

static const struct {
	const char *name;
	void *call;
} calls[] = {
#define TS_X(symbol, kind, stream) {#symbol, (void *)ts_cuda_##symbol},
	TS_CUDA_HOOKED(TS_X)
#undef TS_X
};

static void *call_of(const char *name)
{
	/* "cu" is also how names of cuDNN, cuBLAS and curl begin. */
	if (name[0] != 'c' || name[1] != 'u' || !strchr("DGM", name[2]))
		return NULL;
	for (size_t i = 0; i < TS_ARRAY_SIZE(calls); i++)
		if (strcmp(calls[i].name, name) == 0)
			return calls[i].call;
	return NULL;
}

void *ts_cuda_substitute(void *found, const char *name, const void *caller)
{
	struct ts_elf_object object, from;
	void *call = call_of(name);
	if (TS_LIKELY(!call))
		return found;
	if (!ts_elf_containing((uintptr_t)found, &object) || !ts_cuda_is_driver(&object))
		return found;
	if (ts_elf_containing((uintptr_t)caller, &from) && ts_cuda_is_driver(&from))
		return found;
	return ts_cuda_bind(&object) ? ts_cuda_substitute_address(found) : found;
}

void *ts_cuda_substitute_address(void *found)
{
#define TS_X(symbol, kind, stream)                             \
	if (found == (void *)ts_load_relaxed(&ts_cuda.symbol)) \
		return (void *)ts_cuda_##symbol;
	TS_CUDA_HOOKED(TS_X)
#undef TS_X
	return found;
}
