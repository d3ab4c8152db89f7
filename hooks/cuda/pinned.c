/* SPDX-License-Identifier: MIT */
/* Buffers of the hand-over pool as pinned memory: for the pool, for copies and for the service.
 */
#include "hooks/cuda/pinned.h"

#include "shim/identity.h"
#include "shim/sys.h"

#include <errno.h>
#include <sys/mman.h>

#define DRIVER(symbol) TS_CUDA_DRIVER(symbol)

/* More than the largest buffer of the pool there cannot be. */
#define BYTES_MAX (UINT64_C(512) << 20)

static _Atomic int enabled;
static _Atomic uint32_t owner; /* serial of the process, plus one */

void ts_pinned_begin(void)
{
	ts_write_relaxed(&enabled, 1);
}

/* ---- the pool --------------------------------------------------------------------------- */

/* The process that gave out the first place; its fork children have none. */
static bool is_ours(void)
{
	uint32_t nobody = 0, self = ts_identity_serial() + 1;
	return ts_load_relaxed(&enabled) && !ts_identity_forked() &&
	       (ts_cas(&owner, &nobody, self) || nobody == self);
}

static struct ts_place *place_of(int number)
{
	if (number < 0 || (unsigned)number >= TS_PLACES || !is_ours())
		return NULL;
	return &ts_places[number];
}

int tsshim_pinned_offer(int fd, uint64_t bytes)
{
	if (!ts_load_relaxed(&enabled) || ts_load_relaxed(&ts_places_stopped))
		return -ENOTSUP;
	if (bytes < TS_COPY_BYTES_MIN || bytes > BYTES_MAX)
		return -EINVAL; /* also how to ask whether there are places at all */
	if (!is_ours())
		return -ENOTSUP;
	int number = ts_place_make(fd, bytes);
	if (number >= 0)
		ts_service_wake();
	return number;
}

void *tsshim_pinned_take(int number)
{
	struct ts_place *place = place_of(number);
	if (!place || ts_load_acquire(&place->state) != TS_PLACE_READY ||
		ts_load_acquire(&ts_places_stopped) || ts_load_acquire(&place->pending) != 0 ||
		ts_load_relaxed(&place->doubt))
		return NULL;
	ts_write_relaxed(&place->copies, 0);
	ts_place_unname(place);
	ts_write_relaxed(&place->taken, 1);
	ts_fence_full(); /* taken before looking again: the service looks the other way round */
	if (ts_load_relaxed(&ts_places_stopped)) {
		ts_write_release(&place->taken, 0);
		return NULL;
	}
	return (void *)ts_load_relaxed(&place->begin);
}

/* Whether there is a ring that what is copied from here may come from, or go to. */
static bool is_anything_shared(void)
{
	for (unsigned i = 0; i < TS_GPUS; i++)
		if (ts_load_relaxed(&ts_gpus[i].mapped))
			return true;
	return false;
}

int tsshim_pinned_name(int number, const void *name)
{
	struct ts_place *place = place_of(number);
	if (!place || !ts_load_relaxed(&place->taken))
		return -EINVAL;
	/* Until there is a ring, it is enough to know that such copies are made. */
	return ts_known_name(place, name, is_anything_shared());
}

int tsshim_pinned_done(int number)
{
	struct ts_place *place = place_of(number);
	if (!place || ts_load_relaxed(&place->doubt))
		return -EIO;
	/* Pairs with the service's release: the GPU's reading before what the worker writes. */
	if (ts_load_acquire(&place->pending) != 0)
		return ts_load_relaxed(&ts_places_stopped) ? -EIO : 0;
	if (!ts_place_is_believed(place)) {
		ts_write_relaxed(&place->doubt, 1);
		return -EIO;
	}
	ts_write_release(&place->taken, 0);
	return 1;
}

int tsshim_pinned_drop(int number)
{
	static const int from[] = {TS_PLACE_WANTED, TS_PLACE_READY, TS_PLACE_PLAIN};
	struct ts_place *place = place_of(number);
	if (!place || ts_load_relaxed(&place->doubt))
		return -EIO;
	for (unsigned i = 0; i < TS_ARRAY_SIZE(from); i++) {
		int state = from[i];
		if (!ts_cas(&place->state, &state, TS_PLACE_LEAVING))
			continue;
		ts_service_wake();
		return 0;
	}
	return ts_load_relaxed(&place->state) == TS_PLACE_PINNING ? -EAGAIN : -EINVAL;
}

/* ---- copies, followed by an event behind each -------------------------------------------- */

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

static ts_cu_result make_events(struct ts_gpu *gpu)
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
static bool end_notes(struct ts_gpu *gpu, ts_cu_result *ret_result)
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

static bool finish_notes(struct ts_gpu *gpu)
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

/* ---- pinning ----------------------------------------------------------------------------- */

/* Faulting pages in is most of the work and the part that can be interrupted. */
#define PIECE_BYTES (UINT64_C(16) << 20)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

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
	/* Where kernels must not use its address, it is less than memory of torch's own. */
	if (!ts_cuda_device_is(gpu->device, TS_CU_USE_REGISTERED) ||
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
	bool left = end_notes(gpu, ret_result);
	if (*ret_result == TS_CU_SUCCESS)
		*ret_result = make_events(gpu);
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
	bool quiet = finish_notes(gpu);
	ts_fence_full(); /* stopped before looking what is taken: see tsshim_pinned_take() */
	for (unsigned i = 0; i < TS_PLACES && quiet; i++)
		let_go(gpu, &ts_places[i]);
	return quiet;
}
