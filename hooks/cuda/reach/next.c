/* SPDX-License-Identifier: MIT */
/* The next definitions of the copies that we export. */
#include "hooks/cuda/reach/next.h"

#include "hooks/cuda/reach/substitute.h"
#include "shim/atomic.h"
#include "shim/elf.h"

static const char *const names[] = {
#define TS_X(symbol, kind, which) #symbol,
	TS_CUDA_EXPORTED(TS_X)
#undef TS_X
};

static _Atomic uintptr_t found[TS_CUDA_NEXT_COUNT];
static _Atomic unsigned long long unloads_seen;
static _Atomic int active;

struct search {
	const char *name;
	uintptr_t found;
};

static void find(void *data)
{
	struct search *search = data;
	search->found = ts_elf_next(search->name);
	if (search->found && ts_load_relaxed(&active))
		search->found = (uintptr_t)ts_cuda_substitute(
			(void *)search->found, search->name, NULL);
}

static void forget_what_is_gone(void)
{
	unsigned long long unloads = ts_elf_unloads();
	/* Acquire: pairs with the release below, all forgotten before it is said. */
	if (TS_LIKELY(unloads == ts_load_acquire(&unloads_seen)))
		return;
	for (size_t i = 0; i < TS_CUDA_NEXT_COUNT; i++)
		ts_write_relaxed(&found[i], 0);
	ts_write_release(&unloads_seen, unloads);
}

void *ts_cuda_next(enum ts_cuda_next name)
{
	forget_what_is_gone();
	uintptr_t known = ts_load_relaxed(&found[name]);
	if (TS_LIKELY(known != 0))
		return (void *)known;
	struct search search = {.name = names[name]};
	ts_elf_locked(find, &search);
	ts_write_relaxed(&found[name], search.found);
	return (void *)search.found;
}

void ts_cuda_next_begin(void)
{
	ts_write_relaxed(&active, 1);
}
