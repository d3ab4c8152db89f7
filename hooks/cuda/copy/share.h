/* SPDX-License-Identifier: MIT */
/* Sharing a copy that could be shared. */
#ifndef TS_HOOKS_CUDA_COPY_SHARE_H
#define TS_HOOKS_CUDA_COPY_SHARE_H

#include "hooks/cuda/copy/request.h"
#include "leader/group/session.h"

/**
 * Do @copy, from plain memory of the host or pinned memory that is known, to memory of @device
 * in its current @context, and return what the driver's own call says; where the bytes are in
 * the ring of that GPU, they come from there, in the same stream, and the call is done when the
 * driver's would be.
 *
 * Equal are copies of equal length and equal XXH3-128 of all of the source, or of a source that
 * is known by the same name (known.h).  What is put into the ring is hashed again behind the
 * driver's own copy, or looked at when the GPU has read it: a thread that writes to the source
 * meanwhile gives others nothing that is not what it is called.
 *
 * Threads: any.  Waits for another process no longer than a copy of that size takes here.
 */
ts_cu_result ts_share(const struct ts_copy *copy, const struct ts_session *session,
	ts_cu_device device, ts_cu_context context);

#endif
