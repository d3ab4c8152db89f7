/* SPDX-License-Identifier: MIT */
/* Copies from and to places, followed by an event behind each. */
#include "hooks/cuda/gpu/follow.h"

#include "hooks/cuda/gpu/bell.h"
#include "hooks/cuda/gpu/note.h"
#include "hooks/cuda/library.h"
#include "shim/sys.h"

#define DRIVER(symbol) TS_CUDA_DRIVER(symbol)

/* Copies under way per GPU that are followed; a place of one more is in doubt. */
#define NOTES 64u

/* A copy that the GPU is not done with. */
struct note {
	struct ts_note note;
	struct ts_place *place;
	uint64_t begin_ns, bytes; /* of a copy of which the time is learned; or 0 */
};

struct notes {
	_Atomic int made; /* the events are there */
	struct note notes[NOTES];
};

static struct notes all_notes[TS_GPUS];

static struct notes *notes_of(const struct ts_gpu *gpu)
{
	return &all_notes[gpu - ts_gpus];
}

/* ---- copies ----------------------------------------------------------------------------- */

/* One with an event of @gpu's, HELD, or NULL. */
static struct note *free_note(struct ts_gpu *gpu)
{
	struct notes *notes = notes_of(gpu);
	if (!ts_load_acquire(&notes->made))
		return NULL;
	for (unsigned i = 0; i < NOTES; i++)
		if (ts_note_hold(&notes->notes[i].note))
			return &notes->notes[i];
	return NULL;
}

/* The GPU of the current context, where it is one that the service looks after. */
static struct ts_gpu *current_gpu(void)
{
	ts_cu_context context = NULL;
	ts_cu_device device = -1;
	if (!ts_service_is_ours() || DRIVER(cuCtxGetCurrent)(&context) != TS_CU_SUCCESS ||
		!context || DRIVER(cuCtxGetDevice)(&device) != TS_CU_SUCCESS || device < 0 ||
		(unsigned)device >= TS_GPUS)
		return NULL;
	struct ts_gpu *gpu = &ts_gpus[device];
	return ts_load_acquire(&gpu->state) == TS_GPU_READY && gpu->context == context ? gpu
										       : NULL;
}

bool ts_follow(struct ts_place *place, ts_cu_stream stream, bool per_thread, uint64_t bytes,
	uint64_t begin_ns)
{
	struct ts_gpu *gpu = current_gpu();
	struct note *note = gpu ? free_note(gpu) : NULL;
	if (!note)
		return false;
	if (TS_CUDA_DRIVER_OF(per_thread, cuEventRecord)(note->note.event, stream) !=
		TS_CU_SUCCESS) {
		ts_note_free(&note->note);
		return false;
	}
	note->place = place;
	note->begin_ns = begin_ns;
	note->bytes = bytes;
	ts_note_enqueue(&note->note);
	ts_service_wake();
	return true;
}

/* ---- for the service -------------------------------------------------------------------- */

ts_cu_result ts_follow_begin(struct ts_gpu *gpu)
{
	struct notes *notes = notes_of(gpu);
	ts_cu_result result = TS_CU_SUCCESS;
	if (ts_load_relaxed(&notes->made))
		return result;
	for (unsigned i = 0; i < NOTES && result == TS_CU_SUCCESS; i++)
		result = ts_note_make(&notes->notes[i].note);
	/* Pairs with the load in free_note(). */
	if (result == TS_CU_SUCCESS)
		ts_write_release(&notes->made, 1);
	return result;
}

/* An error leaves its place pending for ever. */
bool ts_follow_end(struct ts_gpu *gpu, ts_cu_result *ret_result)
{
	struct notes *notes = notes_of(gpu);
	bool left = false;
	for (unsigned i = 0; i < NOTES; i++) {
		struct note *note = &notes->notes[i];
		if (!ts_note_is_done(&note->note, &left, ret_result))
			continue;
		if (note->begin_ns)
			ts_cost_learn_known(note->bytes, ts_now_ns() - note->begin_ns);
		/* Pairs with the load in tsshim_pinned_done(). */
		(void)atomic_fetch_sub_explicit(&note->place->pending, 1, memory_order_release);
		ts_note_free(&note->note);
	}
	return left;
}

bool ts_follow_finish(struct ts_gpu *gpu)
{
	struct notes *notes = notes_of(gpu);
	bool quiet = true;
	for (unsigned i = 0; i < NOTES; i++) {
		struct ts_note *note = &notes->notes[i].note;
		int unused = TS_NOTE_FREE;
		if (ts_cas(&note->state, &unused, TS_NOTE_GONE) && note->event)
			(void)DRIVER(cuEventDestroy_v2)(note->event);
		quiet &= ts_load_relaxed(&note->state) == TS_NOTE_GONE;
	}
	return quiet;
}
