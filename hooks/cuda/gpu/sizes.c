/* SPDX-License-Identifier: MIT */
/* The sizes of the newest copies to a GPU. */
#include "hooks/cuda/gpu/sizes.h"

#include "shim/atomic.h"

void ts_sizes_note(struct ts_sizes *sizes, uint64_t bytes)
{
	uint32_t at = ts_add_relaxed(&sizes->met, 1) % TS_SIZES;
	ts_write_relaxed(&sizes->newest[at], bytes);
}

uint32_t ts_sizes_met(const struct ts_sizes *sizes)
{
	return ts_load_relaxed(&sizes->met);
}

uint64_t ts_sizes_recurring(const struct ts_sizes *sizes, uint64_t most, unsigned times)
{
	uint64_t largest[TS_SIZES_TIMES_MAX] = {0}; /* @times of them, the largest first */
	for (unsigned i = 0; i < TS_SIZES; i++) {
		uint64_t bytes = ts_load_relaxed(&sizes->newest[i]);
		if (bytes > most)
			continue;
		for (unsigned j = 0; j < times; j++) {
			uint64_t smaller = largest[j];
			if (bytes <= smaller)
				continue;
			largest[j] = bytes;
			bytes = smaller;
		}
	}
	return largest[times - 1];
}
