/* SPDX-License-Identifier: MIT */
/* Pinning and giving back: the service's side of hooks/cuda/gpu/pinned.h. */
#include "hooks/cuda/gpu/pinned_serve.h"

#include "hooks/cuda/gpu/follow.h"
#include "hooks/cuda/gpu/places.h"
#include "hooks/cuda/library.h"
#include "shim/sys.h"

#include <errno.h>
#include <sys/mman.h>

#define DRIVER(symbol) TS_CUDA_DRIVER(symbol)

/* Faulting pages in is most of the work and the part that can be interrupted. */
#define PIECE_BYTES (UINT64_C(16) << 20)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* ---- pinning ---------------------------------------------------------------------------- */

/* Where kernels must not use its address, registered memory is less than torch's own. */
static bool is_as_good_as_allocated(ts_cu_device device)
{
	int value = 0;
	return DRIVER(cuDeviceGetAttribute)(&value, TS_CU_USE_REGISTERED, device) ==
		       TS_CU_SUCCESS &&
	       value != 0;
}

/* Returns whether the next piece is to be populated; an old kernel leaves it to the driver. */
static bool populate(struct ts_place *place)
{
	if (place->populated >= place->bytes)
		return false;
	uint64_t bytes = ts_min_u64(PIECE_BYTES, place->bytes - place->populated);
	char *begin = (char *)ts_load_relaxed(&place->begin);
	if (madvise(begin + place->populated, bytes, MADV_POPULATE_WRITE) < 0 &&
		errno != EINVAL)
		ts_places_stop();
	place->populated += bytes;
	return true;
}

static void pin(struct ts_gpu *gpu, struct ts_place *place)
{
	int wanted = TS_PLACE_WANTED;
	(void)ts_cas(&place->state, &wanted, TS_PLACE_PINNING);
	if (populate(place) || ts_load_relaxed(&ts_places_stopped))
		return;
	void *begin = (void *)ts_load_relaxed(&place->begin);
	if (!is_as_good_as_allocated(gpu->device) ||
		DRIVER(cuMemHostRegister_v2)(begin, place->bytes, TS_CU_REGISTER_PORTABLE) !=
			TS_CU_SUCCESS) {
		/* Of no use to anybody, and mapped until the process ends. */
		ts_places_stop();
		return;
	}
	place->device = gpu->device;
	/* Pairs with the load in tsshim_pinned_take(). */
	ts_write_release(&place->state, TS_PLACE_READY);
}

/* Unmapped only when the driver has let go of it. */
static void unpin(struct ts_place *place, bool unmap)
{
	void *begin = (void *)ts_load_relaxed(&place->begin);
	if (place->device >= 0 && DRIVER(cuMemHostUnregister)(begin) != TS_CU_SUCCESS) {
		ts_places_stop();
		ts_write_relaxed(&place->doubt, 1);
		return;
	}
	place->device = -1;
	if (unmap)
		ts_place_unmap(place);
}

/* Returns whether it wants more. */
static bool serve_place(struct ts_gpu *gpu, struct ts_place *place)
{
	int state = ts_load_acquire(&place->state);
	bool stopped = ts_load_relaxed(&ts_places_stopped);
	if ((state == TS_PLACE_WANTED || state == TS_PLACE_PINNING) && !stopped) {
		pin(gpu, place);
		return true;
	}
	bool mine = place->device < 0 || place->device == gpu->device;
	if (state == TS_PLACE_LEAVING && mine && !ts_load_relaxed(&place->doubt))
		unpin(place, true);
	return false;
}

bool ts_pinned_serve(struct ts_gpu *gpu, ts_cu_result *ret_result)
{
	if (ts_load_relaxed(&ts_places_high) == 0)
		return false;
	bool left = ts_follow_end(gpu, ret_result);
	if (*ret_result == TS_CU_SUCCESS)
		*ret_result = ts_follow_begin(gpu);
	/* A piece of one of them: who waits for an event does not wait for more than that. */
	for (unsigned i = 0; i < TS_PLACES && *ret_result == TS_CU_SUCCESS; i++)
		if (serve_place(gpu, &ts_places[i]))
			return true;
	return left;
}

/* ---- ends ------------------------------------------------------------------------------- */

/* The context may stay: what the program may use of it, kernels included, stays pinned. */
static void let_go(struct ts_gpu *gpu, struct ts_place *place)
{
	int ready = TS_PLACE_READY;
	if (ts_load_relaxed(&place->begin) == 0 || place->device != gpu->device ||
		ts_load_acquire(&place->taken) || ts_load_relaxed(&place->doubt))
		return;
	if (ts_cas(&place->state, &ready, TS_PLACE_PLAIN))
		unpin(place, false);
	else if (ready == TS_PLACE_LEAVING)
		unpin(place, true);
}

bool ts_pinned_give_back(struct ts_gpu *gpu)
{
	if (ts_load_relaxed(&ts_places_high) == 0)
		return true;
	ts_places_stop();
	bool quiet = ts_follow_finish(gpu);
	ts_fence_full(); /* stopped before looking what is taken: see tsshim_pinned_take() */
	for (unsigned i = 0; i < TS_PLACES && quiet; i++)
		let_go(gpu, &ts_places[i]);
	return quiet;
}
