/* SPDX-License-Identifier: MIT */
/* Pinning, following copies, giving back: the service's side of hooks/cuda/pinned.h. */
#include "hooks/cuda/library.h"
#include "hooks/cuda/pinned_places.h"
#include "shim/sys.h"

#include <errno.h>
#include <sys/mman.h>

#define DRIVER(symbol) TS_CUDA_DRIVER(symbol)

/* Faulting pages in is most of the work and the part that can be interrupted. */
#define PIECE_BYTES (UINT64_C(16) << 20)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* An event of a GPU that goes: nobody gets it any more. */
#define NOTE_GONE (-1)

struct notes {
	_Atomic int made; /* the events are there */
	struct ts_place_note notes[TS_PLACE_NOTES];
};

static struct notes all_notes[TS_GPUS];

static struct notes *notes_of(const struct ts_gpu *gpu)
{
	return &all_notes[gpu - ts_gpus];
}

/* ---- events ----------------------------------------------------------------------------- */

struct ts_place_note *ts_place_note(struct ts_gpu *gpu)
{
	struct notes *notes = notes_of(gpu);
	if (!ts_load_acquire(&notes->made))
		return NULL;
	for (unsigned i = 0; i < TS_PLACE_NOTES; i++) {
		int unused = TS_NOTE_FREE;
		if (ts_load_relaxed(&notes->notes[i].state) == TS_NOTE_FREE &&
			ts_cas(&notes->notes[i].state, &unused, TS_NOTE_HELD))
			return &notes->notes[i];
	}
	return NULL;
}

static ts_cu_result make_events(struct notes *notes)
{
	ts_cu_result result = TS_CU_SUCCESS;
	if (ts_load_relaxed(&notes->made))
		return result;
	for (unsigned i = 0; i < TS_PLACE_NOTES && result == TS_CU_SUCCESS; i++)
		result = DRIVER(cuEventCreate)(
			&notes->notes[i].event, TS_CU_EVENT_DISABLE_TIMING);
	/* Pairs with the load in ts_place_note(). */
	if (result == TS_CU_SUCCESS)
		ts_store_release(&notes->made, 1);
	return result;
}

/* Returns whether some are left; an error leaves its place pending for ever. */
static bool end_notes(struct notes *notes, ts_cu_result *ret_result)
{
	bool left = false;
	for (unsigned i = 0; i < TS_PLACE_NOTES; i++) {
		struct ts_place_note *note = &notes->notes[i];
		int state = ts_load_acquire(&note->state);
		left |= state == TS_NOTE_HELD || state == TS_NOTE_ENQUEUED;
		if (state != TS_NOTE_ENQUEUED)
			continue;
		ts_cu_result result = DRIVER(cuEventQuery)(note->event);
		if (result == TS_CU_NOT_READY)
			continue;
		if (result != TS_CU_SUCCESS) {
			*ret_result = result;
			continue;
		}
		if (note->begin_ns)
			ts_cost_learn_known(note->bytes, ts_now_ns() - note->begin_ns);
		/* Pairs with the load in tsshim_pinned_done(). */
		(void)atomic_fetch_sub_explicit(&note->place->pending, 1, memory_order_release);
		ts_store_release(&note->state, TS_NOTE_FREE);
	}
	return left;
}

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
		ts_pinned_stop();
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
		ts_pinned_stop();
		return;
	}
	place->device = gpu->device;
	/* Pairs with the load in tsshim_pinned_take(). */
	ts_store_release(&place->state, TS_PLACE_READY);
}

/* Unmapped only when the driver has let go of it. */
static void unpin(struct ts_place *place, bool unmap)
{
	void *begin = (void *)ts_load_relaxed(&place->begin);
	if (place->device >= 0 && DRIVER(cuMemHostUnregister)(begin) != TS_CU_SUCCESS) {
		ts_pinned_stop();
		ts_store_relaxed(&place->doubt, 1);
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
	if (ts_load_relaxed(&ts_pinned_high) == 0)
		return false;
	struct notes *notes = notes_of(gpu);
	bool left = end_notes(notes, ret_result);
	if (*ret_result == TS_CU_SUCCESS)
		*ret_result = make_events(notes);
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
	struct notes *notes = notes_of(gpu);
	bool quiet = true;
	if (ts_load_relaxed(&ts_pinned_high) == 0)
		return true;
	ts_pinned_stop();
	for (unsigned i = 0; i < TS_PLACE_NOTES; i++) {
		struct ts_place_note *note = &notes->notes[i];
		int unused = TS_NOTE_FREE;
		if (ts_cas(&note->state, &unused, NOTE_GONE) && note->event)
			(void)DRIVER(cuEventDestroy_v2)(note->event);
		quiet &= ts_load_relaxed(&note->state) == NOTE_GONE;
	}
	ts_fence_full(); /* stopped before looking what is taken: see tsshim_pinned_take() */
	for (unsigned i = 0; i < TS_PLACES && quiet; i++)
		let_go(gpu, &ts_places[i]);
	return quiet;
}
