/* SPDX-License-Identifier: MIT */
/* Buffers of the hand-over pool as pinned memory: the pool's side. */
#include "hooks/cuda/gpu/pinned.h"

#include "hooks/cuda/gpu/bell.h"
#include "hooks/cuda/gpu/gpu.h"
#include "hooks/cuda/gpu/known.h"
#include "hooks/cuda/gpu/places.h"
#include "shim/identity.h"

#include <errno.h>

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
