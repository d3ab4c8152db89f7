/* SPDX-License-Identifier: MIT */
/* What the Python half says of a loader that it has met, for `tsrun explain`. */
#ifndef TS_HOOKS_TORCH_LOADERS_H
#define TS_HOOKS_TORCH_LOADERS_H

#include "shim/base.h"

/** What became of what was said of a loader. */
enum {
	TS_LOADER_UNSAID, /* there is no store */
	TS_LOADER_SAID,
	TS_LOADER_COUNTED, /* the job has too many: to say it again would count it again */
};

/**
 * The loader with this @key (not 0) of the job that this process works for: its @numbers and
 * @texts, in the order of leader/group/loaders.h, and whether it is shared (@verdict, of the
 * same place), by the id of the @reason ("": none) and the @detail; and the @parts of what its
 * data set is named by, @part_count struct ts_loader_part.  Joins the store; without one it is
 * said to nobody.  Returns one of the above.
 *
 * Threads: one at a time per process (the interpreter's lock is held).  Takes some
 * microseconds, the first time in a job some hundred.
 */
TS_EXPORT int tsshim_loader_say(uint32_t key, const uint64_t *numbers, const char *const *texts,
	uint32_t verdict, const char *reason, const char *detail, const void *parts,
	uint32_t part_count);

#endif
