/* SPDX-License-Identifier: MIT */
/*
 * Notes of what was enqueued, each with an event that says when the GPU has done it:
 *
 *   FREE ──program──> HELD ──event recorded──> ENQUEUED ──service, event completed──> FREE
 *
 * A note of which nobody knows what the GPU did stays.  Of a GPU that goes nobody gets any more
 * (GONE).  The event is made before the first hold.
 */
#ifndef TS_HOOKS_CUDA_GPU_NOTE_H
#define TS_HOOKS_CUDA_GPU_NOTE_H

#include "hooks/cuda/library.h"

enum ts_note_state { TS_NOTE_GONE = -1, TS_NOTE_FREE, TS_NOTE_HELD, TS_NOTE_ENQUEUED };

struct ts_note {
	_Atomic int state;
	ts_cu_event event;
};

/** Hold @note; false: it is not free.  Threads: any. */
static inline bool ts_note_hold(struct ts_note *note)
{
	int unused = TS_NOTE_FREE;
	return ts_load_relaxed(&note->state) == TS_NOTE_FREE &&
	       ts_cas(&note->state, &unused, TS_NOTE_HELD);
}

/** Who holds @note, or has seen its event complete, has done all with it. */
static inline void ts_note_free(struct ts_note *note)
{
	ts_write_release(&note->state, TS_NOTE_FREE);
}

/** The event of @note, which is held, was recorded: all else that it says is there. */
static inline void ts_note_enqueue(struct ts_note *note)
{
	/* Pairs with the load in ts_note_is_done(). */
	ts_write_release(&note->state, TS_NOTE_ENQUEUED);
}

/**
 * Whether the event of @note has completed, so that what it is for is to be ended, and the note
 * freed.  *ret_left is set if it is in use; *ret_result to an error of the driver, which leaves
 * it as it is.  Service only, in the context of the event.
 */
static inline bool ts_note_is_done(
	struct ts_note *note, bool *ret_left, ts_cu_result *ret_result)
{
	int state = ts_load_acquire(&note->state);
	*ret_left |= state == TS_NOTE_HELD || state == TS_NOTE_ENQUEUED;
	if (state != TS_NOTE_ENQUEUED)
		return false;
	ts_cu_result result = TS_CUDA_DRIVER(cuEventQuery)(note->event);
	if (result != TS_CU_SUCCESS && result != TS_CU_NOT_READY)
		*ret_result = result;
	return result == TS_CU_SUCCESS;
}

/** Make the event of @note. */
static inline ts_cu_result ts_note_make(struct ts_note *note)
{
	note->event = NULL;
	return TS_CUDA_DRIVER(cuEventCreate)(&note->event, TS_CU_EVENT_DISABLE_TIMING);
}

#endif
