/* SPDX-License-Identifier: MIT */
/* Samples that were made ahead of their batches, which are not taken from others then. */
#include "hooks/torch/samples_private.h"

#include "shim/atomic.h"
#include "shim/hash.h"

#define AHEAD_MAX 256u

static _Atomic uint64_t ahead[AHEAD_MAX]; /* a ring of names; 0: none */
static _Atomic uint64_t ahead_count;      /* that were ever noted */

static uint64_t name_of(const struct ts_sample *sample)
{
	return ts_hash64(sample->view.origin, sizeof(sample->view.origin)) | 1;
}

void ts_sample_note_ahead(const struct ts_sample *sample)
{
	uint64_t count = ts_load_relaxed(&ahead_count);

	ts_write_relaxed(&ahead[count % AHEAD_MAX], name_of(sample));
	ts_write_relaxed(&ahead_count, count + 1);
}

bool ts_sample_was_ahead(const struct ts_sample *sample)
{
	uint64_t count = ts_min_u64(ts_load_relaxed(&ahead_count), AHEAD_MAX);
	uint64_t name = count ? name_of(sample) : 0;

	for (uint64_t i = 0; i < count; i++) {
		if (ts_load_relaxed(&ahead[i]) == name) {
			ts_write_relaxed(&ahead[i], 0);
			return true;
		}
	}
	return false;
}
