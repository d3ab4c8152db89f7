/* SPDX-License-Identifier: MIT */
/* What the files of hooks/torch share about samples. */
#ifndef TS_HOOKS_TORCH_SAMPLES_PRIVATE_H
#define TS_HOOKS_TORCH_SAMPLES_PRIVATE_H

#include "hooks/torch/samples.h"
#include "leader/group/store.h"

#include <assert.h>

#define TS_SAMPLE_INDEX 9u

/** The number @index with its type, as it is in names: "i" and the number, little endian. */
void ts_sample_index(int64_t index, unsigned char ret_bytes[TS_SAMPLE_INDEX]);

/** The key of the sample at the number @index in @scope, where that came @occurrence times. */
struct ts_key ts_sample_key(const void *scope, int64_t index, uint32_t occurrence);

/*
 * A note of the journal has no room for an occurrence: each has a tag of its own instead, so
 * many steps behind the tag of the first.  Those that are further are made without a note.
 */
#define TS_NOTE_STEP        UINT64_C(0x9e3779b97f4a7c15)
#define TS_NOTE_STEP_BACK   UINT64_C(0xf1de83e19937733d)
#define TS_NOTE_OCCURRENCES 65536u
static_assert(TS_NOTE_STEP * TS_NOTE_STEP_BACK == 1, "undoes it, modulo 2^64");

/** The tag for notes of those with @occurrence; 0: nothing is noted. */
static inline uint64_t ts_note_tag(uint64_t tag, uint32_t occurrence)
{
	bool is_noted = tag != 0 && occurrence < TS_NOTE_OCCURRENCES;
	return is_noted ? tag + occurrence * TS_NOTE_STEP : 0;
}

/** Whether a note with @noted is one for @tag, and of which occurrence. */
static inline bool ts_note_is_of(uint64_t noted, uint64_t tag, uint32_t *ret_occurrence)
{
	uint64_t occurrence = (noted - tag) * TS_NOTE_STEP_BACK;
	*ret_occurrence = (uint32_t)occurrence;
	return occurrence < TS_NOTE_OCCURRENCES;
}

#endif
