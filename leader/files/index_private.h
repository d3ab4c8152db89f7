/* SPDX-License-Identifier: MIT */
/* The index of copies of files as it lies in shared memory; leader/files/index.h explains it.
 */
#ifndef TS_LEADER_FILES_INDEX_PRIVATE_H
#define TS_LEADER_FILES_INDEX_PRIVATE_H

#include "leader/files/index.h"

#include <assert.h>

#define TS_STAGE_CHUNK (UINT64_C(256) << 10)

/* A chunk has a bit: 512 MiB, enough for a million files. */
#define TS_STAGE_CHUNK_WORDS 32u

/* Jobs that are noted to have left the names. */
#define TS_STAGE_LEFT 16u

struct ts_stage_head {
	struct ts_object_head head;
	uint64_t slot_count, rows_at, names_at, name_count, total_bytes;
	uint32_t in_memory, reserved;
	char stem[TS_STAGE_STEM];
	uint64_t check;                              /* ts_hash64 of everything above */
	_Alignas(64) _Atomic uint64_t used, granted; /* room, by copies and what is admitted */
	_Atomic uint64_t files;
	_Atomic uint64_t slots_used;
	_Atomic uint64_t rows_used;
	_Atomic uint64_t names_used;
	_Alignas(64) _Atomic uint64_t forgotten; /* leader/files/names.h */
	_Alignas(64) _Atomic uint64_t chunks[TS_STAGE_CHUNK_WORDS];
	_Atomic uint64_t stager_pause; /* ts_now_ns() before which none is started */
	_Atomic uint64_t sweep_at;     /* ts_now_ns() before which nobody looks for dead ones */
	_Atomic uint64_t left[TS_STAGE_LEFT]; /* jobs, 0: none; leader/files/names.h */
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

/* A name of leader/files/names.h. Two share a cache line. */
struct ts_stage_name {
	_Atomic uint64_t lo, hi; /* its hash */
	_Atomic uint64_t word;   /* milliseconds << TS_STAGE_ROW_BITS | row / 8 */
	uint64_t reserved;
};

/* Rows lie within 512 MiB and begin at multiples of 8; 38 bits of milliseconds are 8 years. */
#define TS_STAGE_ROW_BITS 26

/** Whether there is memory behind these @bytes of the index; and: make sure of it. */
bool ts_stage_index_has(const struct ts_stage_index *index, uint64_t at, uint64_t bytes);
int ts_stage_index_need(struct ts_stage_index *index, uint64_t at, uint64_t bytes);

/** A new row, to which nothing leads yet; @path may be empty. Its place, or -ENOSPC. */
int64_t ts_stage_index_new_row(struct ts_stage_index *index,
	const struct ts_stage_attributes *attributes, const char *path);

/** The row at the place @at; NULL where none can be. */
struct ts_stage_row *ts_stage_index_row_at(const struct ts_stage_index *index, uint64_t at);

/** The place of the row of the copy with inode @inode, unchecked; 0: none. */
uint64_t ts_stage_index_row_of(const struct ts_stage_index *index, uint64_t inode);

/** The path in @row, NULL where there is none. */
const char *ts_stage_index_path(
	const struct ts_stage_index *index, const struct ts_stage_row *row);

#endif
