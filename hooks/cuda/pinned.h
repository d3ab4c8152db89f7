/* SPDX-License-Identifier: MIT */
/*
 * Buffers of the hand-over pool (hooks/torch) as pinned memory: what the loader's pinning
 * thread gives to a program instead of a copy.  docs/gpu.md says why this is sound.
 *
 * Each is a second mapping of a buffer, a place here.  It is registered with the driver as a
 * whole, by the service thread, before anybody is told where it is: a copy that crosses the
 * border of what is registered fails, so there must never be a border within a tensor.
 *
 *   FREE ──pool──> MAKING ──pool──> WANTED ──service──> PINNING ──service──> READY
 *   WANTED, READY, PLAIN ──pool──> LEAVING ──service──> FREE
 *   READY ──service, the context goes──> PLAIN
 *
 * The uses of a place are the copies that pass through hooks/cuda/cuda_calls.c: each that takes
 * a stream has an event recorded behind it.  A buffer goes back to its worker
 * when all these have completed.  Where that cannot be known (captured into a graph, no event
 * to be had, an error) the place is in doubt: its buffer is never written to again, nor
 * unmapped.
 *
 * The contents of a place may have a name: hooks/cuda/places.h.
 *
 * Fork: a child inherits mappings that are not pinned for it, and no service; every call of the
 * pool is refused there, and what it may write to has lost its name.  A crash leaves nothing:
 * the memory is the pool's memfds.
 */
#ifndef TS_HOOKS_CUDA_PINNED_H
#define TS_HOOKS_CUDA_PINNED_H

#include "hooks/cuda/gpu.h"

/* ---- for the pool, by ctypes ------------------------------------------------------------ */

/**
 * Have @bytes of the memory file @fd, which stays the caller's, pinned in the background.
 * Returns the number of the place.  -ENOTSUP: not here (copies are not shared, a fork child),
 * or not any more, after an error of the driver; -EINVAL: too small, too large or not there;
 * -ENOSPC: as much as may be is pinned; or what mmap() says.  Threads: any.
 */
TS_EXPORT int tsshim_pinned_offer(int fd, uint64_t bytes);

/**
 * The address of a place that is pinned and not in use, and from now on is in use; NULL: not
 * yet, or not any more.  Threads: one at a time for each place, as for the next two.
 */
TS_EXPORT void *tsshim_pinned_take(int number);

/**
 * The contents of a place that was just taken have the 16 bytes of @name for a name: as many
 * bytes with this name are the same in every process of the group.  Nobody has its address
 * yet.  Errors, after which copies from it are the driver's: -ENOTSUP this kernel does
 * not notice writes; -EAGAIN this program writes to what it gets; -EINVAL no such place.
 */
TS_EXPORT int tsshim_pinned_name(int number, const void *name);

/**
 * Nobody refers to the memory any more.  Returns 1 when the GPU will not use it either, 0 while
 * it may, -EIO when that will never be known: then the memory must never be written to again.
 */
TS_EXPORT int tsshim_pinned_done(int number);

/** Unmap a place of which tsshim_pinned_done() said 1, or that was never taken.  -EAGAIN:
 * later. */
TS_EXPORT int tsshim_pinned_drop(int number);

/** From here on places are given out.  Called once, by our constructor. */
void ts_pinned_begin(void);

/* ---- for copies -------------------------------------------------------------------------- */

/**
 * An event in @stream tells when @place is not used any more.  In another context than the
 * stream's it is refused, which is as good as no event.
 * False: nobody will know.  @begin_ns: since when the copy of @bytes
 * has been made, to learn what that takes; 0: not of this one.  Threads: any.
 */
bool ts_follow(struct ts_place *place, ts_cu_stream stream, bool per_thread, uint64_t bytes,
	uint64_t begin_ns);

/* ---- for the service --------------------------------------------------------------------- */

/**
 * A round, in the context of @gpu: ends what has completed, pins what is wanted, a piece of it
 * at a time.  Returns whether to come back soon.
 */
bool ts_pinned_serve(struct ts_gpu *gpu, ts_cu_result *ret_result);

/** In the context of @gpu, which is going: false while copies are under way. */
bool ts_pinned_give_back(struct ts_gpu *gpu);

#endif
