/* SPDX-License-Identifier: MIT */
/* The next definitions behind ours: where a call goes that this library has come before. */
#ifndef TS_SHIM_ELF_NEXT_H
#define TS_SHIM_ELF_NEXT_H

#include "shim/elf.h"

/**
 * Call @visit for every object behind this library in load order until it returns true;
 * returns that.  If none does, for all others from the first on: not preloaded but loaded
 * later, we stand behind the C library, and then any will do.
 *
 * Threads: any, with the loader's lock held (ts_elf_locked()).
 */
bool ts_elf_each_next(
	bool (*visit)(const struct ts_elf_object *object, void *data), void *data);

/** Address of the first function @name found so, or 0.  As above. */
uintptr_t ts_elf_next(const char *name);

#endif
