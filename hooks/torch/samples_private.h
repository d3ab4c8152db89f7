/* SPDX-License-Identifier: MIT */
/* What the files of hooks/torch share about samples. */
#ifndef TS_HOOKS_TORCH_SAMPLES_PRIVATE_H
#define TS_HOOKS_TORCH_SAMPLES_PRIVATE_H

#include "hooks/torch/samples.h"
#include "leader/group/store.h"

#define TS_SAMPLE_INDEX 9u

/** The number @index with its type, as it is in names: "i" and the number, little endian. */
void ts_sample_index(int64_t index, unsigned char ret_bytes[TS_SAMPLE_INDEX]);

/** The key of the sample at the number @index, which comes for the first time, in @scope. */
struct ts_key ts_sample_key(const void *scope, int64_t index);

#endif
