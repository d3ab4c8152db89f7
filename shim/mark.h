/* SPDX-License-Identifier: MIT */
/*
 * What the library says of itself to whoever reads its file without loading it: an ELF note
 * (elf(5)) in a section of its own, which strip(1) leaves.
 */
#ifndef TS_SHIM_MARK_H
#define TS_SHIM_MARK_H

#include "shim/base.h"

#include <assert.h>

#define TS_MARK_SECTION ".note.tsshim"
#define TS_MARK_OWNER   "tsshim\0" /* with the NUL of the literal eight bytes */
#define TS_MARK_TYPE    1u

struct ts_mark {
	uint32_t owner_bytes, bytes, type; /* the head of every ELF note */
	char owner[8];
	uint32_t abi;     /* of what lies in shared memory: TS_ABI of leader/group/layout.h */
	char version[20]; /* of the package; ends with NUL */
};
static_assert(sizeof(struct ts_mark) == 44, "read from files of other versions");

#endif
