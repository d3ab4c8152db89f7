/* SPDX-License-Identifier: MIT */
/* The index of copies of files as it lies in shared memory; leader/stage_index.h explains it.
 */
#ifndef TS_LEADER_STAGE_INDEX_PRIVATE_H
#define TS_LEADER_STAGE_INDEX_PRIVATE_H

#include "leader/stage_index.h"

#include <assert.h>

#define TS_STAGE_CHUNK (UINT64_C(256) << 10)

/* A chunk has a bit: 512 MiB, enough for a million files. */
#define TS_STAGE_CHUNK_WORDS 32u

struct ts_stage_head {
	uint64_t magic;
	uint32_t abi_major, uid;
	uint8_t boot_id[16];
	uint64_t user_ns, pid_ns;
	uint64_t slot_count, rows_at, total_bytes;
	uint32_t in_memory, reserved;
	char stem[TS_STAGE_STEM];
	uint64_t check; /* ts_hash64 of everything above */
	_Alignas(64) _Atomic uint64_t used, granted;
	_Atomic uint64_t files;
	_Atomic uint64_t slots_used;
	_Atomic uint64_t rows_used;
	_Alignas(64) _Atomic uint64_t chunks[TS_STAGE_CHUNK_WORDS];
};
static_assert(sizeof(struct ts_stage_head) <= TS_PAGE_BYTES, "slots begin on the next page");

struct ts_stage_slot {
	_Atomic uint64_t inode; /* 0: free */
	_Atomic uint64_t row;   /* offset of a struct ts_stage_row, 0: none yet */
};

struct ts_stage_row {
	struct ts_stage_attributes attributes;
	_Atomic uint64_t confirmed; /* 0 until the original was seen again, the same */
	uint64_t path_bytes;        /* without a NUL, which follows */
	char path[];
};

#endif
