/* SPDX-License-Identifier: MIT */
/* Which decoders of pictures a process has loaded, as its memory map shows. */
#ifndef TS_TSRUN_DECODERS_H
#define TS_TSRUN_DECODERS_H

#include "shim/base.h"

#include <limits.h>

#define TS_DECODERS_MAX 4u

struct ts_decoders {
	bool known;     /* the map could be read */
	bool preloaded; /* our library is in it */
	uint32_t shared_count, static_count;
	char shared[TS_DECODERS_MAX][PATH_MAX]; /* libjpeg, as a library */
	char inside[TS_DECODERS_MAX][PATH_MAX]; /* of those known for a libjpeg of their own */
};

/** Look at process @pid, which does not notice.  What cannot be read is not known. */
void ts_decoders_find(int pid, struct ts_decoders *ret_decoders);

#endif
