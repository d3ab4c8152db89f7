/* SPDX-License-Identifier: MIT */
/* Copying what nobody looks at soon. */
#ifndef TS_SHIM_STREAM_H
#define TS_SHIM_STREAM_H

#include <stddef.h>

/**
 * Copy @bytes to memory that does not overlap, as memcpy(3), but past the caches where the
 * processor can: lines of the target are not read first and push out no others, and those
 * of the source push out fewer.  That is a quarter less time for a target that is out of the
 * caches when it is read, and more for one that would still be in them.  Ordered for other
 * threads like ordinary stores.
 *
 * Threads: any.  Signal safe.  No errors.
 */
void ts_stream_copy(void *to, const void *from, size_t bytes);

#endif
