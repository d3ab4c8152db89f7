/* SPDX-License-Identifier: MIT */
/* What pinned.c and pinned_serve.c have in common. */
#ifndef TS_HOOKS_CUDA_PINNED_PLACES_H
#define TS_HOOKS_CUDA_PINNED_PLACES_H

#include "hooks/cuda/pinned.h"

#define TS_PLACES 256u

/* Copies under way per GPU that are followed; a place of one more is in doubt. */
#define TS_PLACE_NOTES 64u

enum ts_place_state {
	TS_PLACE_FREE,
	TS_PLACE_MAKING,
	TS_PLACE_WANTED,
	TS_PLACE_PINNING,
	TS_PLACE_READY,
	TS_PLACE_PLAIN,
	TS_PLACE_LEAVING
};

struct ts_place {
	_Atomic int state;
	_Atomic uintptr_t begin;  /* 0: nothing is mapped */
	uint64_t bytes;           /* constant while mapped */
	_Atomic int taken;        /* the program may refer to it */
	_Atomic uint32_t copies;  /* since it was taken */
	_Atomic uint32_t pending; /* copies of which the event has not completed */
	_Atomic int doubt;        /* never taken back while mapped */
	_Atomic uint32_t naming;  /* changes with each name, and when it is lost */
	_Atomic int named;
	_Atomic uint64_t name[2];
	_Atomic int guarded;    /* writes to it are noticed since it was named */
	_Atomic uint32_t forks; /* of this process, when it was named */
	bool watched;           /* by shim/written.h; of who takes it */
	/* The service's own. */
	uint64_t populated;
	ts_cu_device device; /* whose context it was registered in, or -1 */
};

/* Of hooks/cuda/gpu.h, FREE to FREE; the event is made before the first use. */
struct ts_place_note {
	_Atomic int state;
	ts_cu_event event;
	struct ts_place *place;
	uint64_t begin_ns, bytes; /* of a copy of which the time is learned; or 0 */
};

extern struct ts_place ts_places[TS_PLACES];
extern _Atomic int ts_places_stopped;

/** What is there is not what it was called any more. */
void ts_place_unname(struct ts_place *place);

/** A copy from or to a place was seen: there are no ways past us. */
void ts_place_prove(void);

/** The place that some of these bytes are in, or NULL. */
struct ts_place *ts_place_find(ts_cu_pointer address, size_t bytes);

/** Of the pool's calls: the place, in the process that has them; else NULL. */
struct ts_place *ts_place_of(int number);

/** A note with an event of @gpu's, HELD, or NULL. Threads: any. */
struct ts_place_note *ts_place_note(struct ts_gpu *gpu);

/** Unmap what is LEAVING and not registered. Service only. */
void ts_place_unmap(struct ts_place *place);

#endif
