/* SPDX-License-Identifier: MIT */
/* Buffers of the hand-over pool as pinned memory: the pool's side, and that of the copies. */
#include "hooks/cuda/pinned_places.h"
#include "hooks/cuda/bell.h"
#include "hooks/cuda/library.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define DRIVER(symbol) TS_CUDA_DRIVER(symbol)

/* More than the largest buffer of the pool there cannot be. */
#define BYTES_MAX (UINT64_C(512) << 20)

/* The program's memory that may be pinned at most: one part in... */
#define MEMORY_PART 16u

/* So many unused buffers, before the first copy from one was seen, say that none is. */
#define UNPROVEN_MAX 4u

struct ts_place ts_places[TS_PLACES];
_Atomic int ts_places_stopped;
_Atomic uintptr_t ts_pinned_low, ts_pinned_high;

static _Atomic int enabled;
static _Atomic uint32_t owner; /* serial of the process, plus one */
static _Atomic uint64_t all_bytes;
static _Atomic int proven; /* a copy from a place has come by */
static _Atomic uint32_t unproven;

void ts_pinned_begin(void)
{
	ts_store_relaxed(&enabled, 1);
}

void ts_pinned_stop(void)
{
	ts_store_release(&ts_places_stopped, 1);
}

/* ---- the pool --------------------------------------------------------------------------- */

/* The process that gave out the first place; its fork children have none. */
static bool is_ours(void)
{
	uint32_t nobody = 0, self = ts_identity_serial() + 1;
	return ts_load_relaxed(&enabled) && !ts_identity_forked() &&
	       (ts_cas(&owner, &nobody, self) || nobody == self);
}

struct ts_place *ts_place_of(int number)
{
	if (number < 0 || (unsigned)number >= TS_PLACES || !is_ours())
		return NULL;
	return &ts_places[number];
}

static uint64_t bytes_limit(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size / MEMORY_PART : 0;
}

/* Whoever looks a copy's address up sees the bounds before the address is known. */
static void widen(uintptr_t begin, uintptr_t end)
{
	uintptr_t low = ts_load_relaxed(&ts_pinned_low);
	uintptr_t high = ts_load_relaxed(&ts_pinned_high);
	while ((low == 0 || begin < low) && !ts_cas(&ts_pinned_low, &low, begin))
		;
	while (end > high && !ts_cas(&ts_pinned_high, &high, end))
		;
}

static int map(struct ts_place *place, int fd, uint64_t bytes)
{
	struct stat status;
	if (fstat(fd, &status) < 0)
		return -errno;
	if ((uint64_t)status.st_size < bytes)
		return -EINVAL;
	void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (start == MAP_FAILED)
		return -errno;
	place->bytes = bytes;
	place->populated = 0;
	place->device = -1;
	ts_store_relaxed(&place->taken, 0);
	ts_store_relaxed(&place->copies, 0);
	ts_store_relaxed(&place->pending, 0);
	ts_store_relaxed(&place->doubt, 0);
	place->watched = false;
	ts_place_unname(place);
	ts_store_relaxed(&place->begin, (uintptr_t)start);
	widen((uintptr_t)start, (uintptr_t)start + bytes);
	return 0;
}

static int offer(int fd, uint64_t bytes)
{
	for (unsigned i = 0; i < TS_PLACES; i++) {
		int unused = TS_PLACE_FREE;
		if (!ts_cas(&ts_places[i].state, &unused, TS_PLACE_MAKING))
			continue;
		int r = map(&ts_places[i], fd, bytes);
		/* Pairs with the service's look: the mapping first. */
		ts_store_release(&ts_places[i].state, r < 0 ? TS_PLACE_FREE : TS_PLACE_WANTED);
		if (r == 0)
			ts_service_wake();
		return r < 0 ? r : (int)i;
	}
	return -ENOSPC;
}

int tsshim_pinned_offer(int fd, uint64_t bytes)
{
	if (!ts_load_relaxed(&enabled) || ts_load_relaxed(&ts_places_stopped))
		return -ENOTSUP;
	if (bytes < TS_COPY_BYTES_MIN || bytes > BYTES_MAX)
		return -EINVAL; /* also how to ask whether there are places at all */
	if (!is_ours())
		return -ENOTSUP;
	int r = -ENOSPC;
	if (ts_add_relaxed(&all_bytes, bytes) + bytes <= bytes_limit())
		r = offer(fd, bytes);
	if (r < 0)
		ts_sub_relaxed(&all_bytes, bytes);
	return r;
}

void *tsshim_pinned_take(int number)
{
	struct ts_place *place = ts_place_of(number);
	if (!place || ts_load_acquire(&place->state) != TS_PLACE_READY ||
		ts_load_acquire(&ts_places_stopped) || ts_load_acquire(&place->pending) != 0 ||
		ts_load_relaxed(&place->doubt))
		return NULL;
	ts_store_relaxed(&place->copies, 0);
	ts_place_unname(place);
	ts_store_relaxed(&place->taken, 1);
	ts_fence_full(); /* taken before looking again: the service looks the other way round */
	if (ts_load_relaxed(&ts_places_stopped)) {
		ts_store_release(&place->taken, 0);
		return NULL;
	}
	return (void *)ts_load_relaxed(&place->begin);
}

/*
 * Copies by ways that we do not see would leave no trace.  So nothing is believed of a place
 * without copies until one was seen somewhere: an unused batch looks the same.
 */
static bool is_believed(struct ts_place *place)
{
	if (ts_load_relaxed(&place->copies) != 0 || ts_load_relaxed(&proven))
		return true;
	if (ts_add_relaxed(&unproven, 1) + 1 >= UNPROVEN_MAX)
		ts_pinned_stop();
	return false;
}

int tsshim_pinned_done(int number)
{
	struct ts_place *place = ts_place_of(number);
	if (!place || ts_load_relaxed(&place->doubt))
		return -EIO;
	/* Pairs with the service's release: the GPU's reading before what the worker writes. */
	if (ts_load_acquire(&place->pending) != 0)
		return ts_load_relaxed(&ts_places_stopped) ? -EIO : 0;
	if (!is_believed(place)) {
		ts_store_relaxed(&place->doubt, 1);
		return -EIO;
	}
	ts_store_release(&place->taken, 0);
	return 1;
}

int tsshim_pinned_drop(int number)
{
	static const int from[] = {TS_PLACE_WANTED, TS_PLACE_READY, TS_PLACE_PLAIN};
	struct ts_place *place = ts_place_of(number);
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

void ts_place_unmap(struct ts_place *place)
{
	void *start = (void *)ts_load_relaxed(&place->begin);
	ts_store_relaxed(&place->begin, 0);
	(void)munmap(start, place->bytes);
	ts_sub_relaxed(&all_bytes, place->bytes);
	ts_store_release(&place->state, TS_PLACE_FREE);
}

bool ts_pinned_is_wanted(void)
{
	if (ts_load_relaxed(&ts_pinned_high) == 0 || ts_load_relaxed(&ts_places_stopped))
		return false;
	for (unsigned i = 0; i < TS_PLACES; i++)
		if (ts_load_relaxed(&ts_places[i].state) == TS_PLACE_WANTED)
			return true;
	return false;
}

/* ---- copies ----------------------------------------------------------------------------- */

struct ts_place *ts_place_find(ts_cu_pointer address, size_t bytes)
{
	if (TS_LIKELY(!ts_pinned_near(address, bytes)))
		return NULL;
	for (unsigned i = 0; i < TS_PLACES; i++) {
		uintptr_t begin = ts_load_relaxed(&ts_places[i].begin);
		if (begin != 0 && address < begin + ts_places[i].bytes &&
			address + bytes > begin)
			return &ts_places[i];
	}
	return NULL;
}

bool ts_pinned_holds(const struct ts_copy *copy)
{
	return ts_place_find(copy->from, copy->bytes) || ts_place_find(copy->to, copy->bytes);
}

void ts_place_prove(void)
{
	ts_store_relaxed(&proven, 1);
}

void ts_pinned_doubt(ts_cu_pointer address, size_t bytes)
{
	struct ts_place *place = ts_place_find(address, bytes);
	if (place)
		ts_store_relaxed(&place->doubt, 1);
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

/*
 * An event behind @copy tells when @place is not used any more.  In another context than the
 * stream's it is refused, which is as good as no event.
 */
static bool follow(struct ts_place *place, const struct ts_copy *copy, struct ts_gpu *gpu,
	uint64_t begin_ns)
{
	struct ts_place_note *note = ts_place_note(gpu);
	if (!note)
		return false;
	ts_cu_result result = copy->per_thread
				      ? DRIVER(cuEventRecord_ptsz)(note->event, copy->stream)
				      : DRIVER(cuEventRecord)(note->event, copy->stream);
	if (result != TS_CU_SUCCESS) {
		ts_store_release(&note->state, TS_NOTE_FREE);
		return false;
	}
	note->place = place;
	note->begin_ns = begin_ns;
	note->bytes = copy->bytes;
	ts_store_release(&note->state, TS_NOTE_ENQUEUED);
	return true;
}

/* A call that takes no stream has waited for its copy when it returns. */
static void copied(
	struct ts_place *place, const struct ts_copy *copy, bool certain, uint64_t begin_ns)
{
	struct ts_gpu *gpu = certain && copy->async ? current_gpu() : NULL;
	if (!certain || (copy->async && !(gpu && follow(place, copy, gpu, begin_ns))))
		ts_store_relaxed(&place->doubt, 1);
	else if (copy->async)
		ts_service_wake();
}

ts_cu_result ts_pinned_copy(const struct ts_copy *copy, bool captured)
{
	struct ts_place *places[] = {
		ts_place_find(copy->from, copy->bytes), ts_place_find(copy->to, copy->bytes)};
	for (unsigned i = 0; i < TS_ARRAY_SIZE(places); i++) {
		if (!places[i])
			continue;
		ts_add_relaxed(&places[i]->copies, 1);
		if (copy->async)
			ts_add_relaxed(&places[i]->pending, 1);
	}
	ts_place_prove();
	if (places[1])
		ts_place_unname(places[1]);
	/* What a transfer takes is known where nothing was queued before it. */
	uint64_t begin_ns = copy->known && copy->known->at_once ? ts_now_ns() : 0;
	/* It may fail for what was enqueued before it, and be enqueued all the same. */
	ts_cu_result result = ts_copy_real(copy);
	bool certain = result == TS_CU_SUCCESS && !captured;
	if (certain && begin_ns && !copy->async)
		ts_cost_learn_known(copy->bytes, ts_now_ns() - begin_ns);
	for (unsigned i = 0; i < TS_ARRAY_SIZE(places); i++)
		if (places[i])
			copied(places[i], copy, certain, begin_ns);
	return result;
}
