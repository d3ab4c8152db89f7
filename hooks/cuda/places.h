/* SPDX-License-Identifier: MIT */
/*
 * The places that buffers of the hand-over pool have in this process (hooks/cuda/pinned.h
 * says what for): a table that the pool, the copies and the service look into.  Nothing here
 * calls the driver.  Threads: any, where nothing else is said.
 */
#ifndef TS_HOOKS_CUDA_PLACES_H
#define TS_HOOKS_CUDA_PLACES_H

#include "hooks/cuda/cuda_driver.h"

#define TS_PLACES 256u

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

extern struct ts_place ts_places[TS_PLACES];
extern _Atomic int ts_places_stopped;
extern _Atomic uintptr_t ts_places_low, ts_places_high;

/** No more places, for good. */
void ts_places_stop(void);

/**
 * A place that is WANTED, with @bytes of the memory file @fd mapped.  Returns its number;
 * -ENOSPC: as much as may be is pinned; -EINVAL: the file is smaller; or what mmap() says.
 */
int ts_place_make(int fd, uint64_t bytes);

/** Unmap what is LEAVING and not registered. Service only. */
void ts_place_unmap(struct ts_place *place);

/** Whether a place waits for a GPU's service to pin it. */
bool ts_place_is_wanted(void);

/** Whether some of these bytes may be in a place. */
static inline bool ts_place_near(ts_cu_pointer address, size_t bytes)
{
	return address < ts_load_relaxed(&ts_places_high) &&
	       address + bytes > ts_load_relaxed(&ts_places_low);
}

/** The place that some of these bytes are in, or NULL. */
struct ts_place *ts_place_find(ts_cu_pointer address, size_t bytes);

/** A place that these bytes are in is in doubt: something that has no event uses it. */
void ts_place_doubt(ts_cu_pointer address, size_t bytes);

/** The contents of @place have no name any more. */
void ts_place_unname(struct ts_place *place);

/** A copy from or to a place was seen: there are no ways past us. */
void ts_place_prove(void);

/** Whether a place without copies since it was taken is one that nothing was copied from. */
bool ts_place_is_believed(struct ts_place *place);

/* ---- what places hold -------------------------------------------------------------------- */

/*
 * The contents of pinned memory, without a look at all of it.
 *
 * The GPU reads a place later than it is asked to, so what it will bring is known only where
 * nobody writes to the source meanwhile.  The pool may say by which name the contents of a
 * place are known, before the program gets its address: equal names, equal bytes.  From then
 * on the kernel notices who writes there (shim/written.h), and copies back from the GPU are
 * met:
 *
 *   nameless ──pool: protected, named──> NAMED ──taken anew, copied to, in doubt, a fork──>
 *
 * A name holds for a copy if it was not lost, and nothing was written, when the copy is done.
 * tests/models/known.pml says the same to Spin.
 *
 * A program that writes to its batches pays a fault for each page; when it has done so a few
 * times nothing is named any more.  Nobody notices writes of GPU kernels to host memory, so
 * both ends of the copied bytes are part of a copy's name.
 *
 * Threads: any.  Fork: a child can write to what it shares with its parent, so all names that
 * were given before are lost.  A crash leaves nothing.
 */

/** The bytes that a copy reads from a place, by their name. */
struct ts_known {
	struct ts_place *place;
	uint64_t name[2];
	uintptr_t from;
	uint64_t bytes, offset; /* from the beginning of the place */
	uint32_t naming, forks; /* of the process, when it was named */
	bool at_once;           /* nothing was queued before the copy; sharing.c says so */
};

/**
 * The contents of @place have the 16 bytes of @name for a name from now on.  @guarded: writes
 * there are noticed.  Errors: those of tsshim_pinned_name().
 */
int ts_known_name(struct ts_place *place, const void *name, bool guarded);

/** Whether these bytes are only what is known. Says nothing of what was written since. */
bool ts_known_of(ts_cu_pointer from, size_t bytes, struct ts_known *ret_known);

/**
 * Whether the source holds what it is known for, still: with what an event behind the copy
 * says, that this is what was copied.  Some 2 us per MiB.  Threads: any.
 */
bool ts_known_holds(const struct ts_known *known);

/** Its bytes came from elsewhere: the program has used it all the same. */
void ts_known_was_used(const struct ts_known *known);

#endif
