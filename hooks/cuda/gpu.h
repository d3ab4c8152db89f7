/* SPDX-License-Identifier: MIT */
/*
 * The GPUs that this process copies to, and the thread that looks after them.
 *
 * The program's threads only look a GPU up, enqueue copies and note what they have enqueued;
 * all that may take long is the service thread's: the first copy that could be shared starts
 * it.  It holds a reference to the GPU's primary context, offers the ring or maps that of
 * another process, and ends claims and leases when the GPU has done what was enqueued.
 *
 * State of a GPU:
 *
 *   UNUSED ──program──> WANTED ──service──> READY ──program──> LEAVING ──service──> OFF
 *                          └───────────────────┴── an error       └── an error       ^
 *                                                      v                 v           │
 *                                                   BROKEN ──program──> ENDING ──service
 *
 * LEAVING and ENDING: the program gives its reference to the primary context back, and waits
 * for us to do the same; after an error without a look at what is in there.
 *
 * A mapping is used by threads that have announced themselves in @inside, and named by notes
 * that are not done.  The service takes @mapped back, fences, and unmaps when there are
 * neither.
 *
 * Where the bytes are wanted on several GPUs, the ring of one may serve others (gpu_ring.c).
 *
 * Memory of ours is freed when no other process has it mapped (leader/slots/device.h, map
 * words).  A service that is stopped, or inside a driver call, may have it for long: then our
 * memory is set aside, one at a time, so that somebody may offer another ring meanwhile.
 *
 * Fork: a child has no service thread and, like the driver, no GPUs of its parent's; there
 * everything works as without us.  A crash leaves nothing that leader/slots/device.h does not
 * know.
 */
#ifndef TS_HOOKS_CUDA_GPU_H
#define TS_HOOKS_CUDA_GPU_H

#include "hooks/cuda/cost.h"
#include "hooks/cuda/places.h"
#include "leader/group/session.h"
#include "leader/slots/device.h"

#include <stdatomic.h>

#define TS_GPUS      16u
#define TS_GPU_NOTES 8u

/* ---- notes ------------------------------------------------------------------------------ */

/*
 * Notes of what was enqueued, each with an event that says when the GPU has done it:
 *
 *   FREE ──program──> HELD ──event recorded──> ENQUEUED ──service, event completed──> FREE
 *
 * A note of which nobody knows what the GPU did stays.  Of a GPU that goes nobody gets any more
 * (GONE).  The event is made before the first hold.
 */
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

/** @note is held, or its event has completed, and all is done with it. */
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

/* ---- a GPU ------------------------------------------------------------------------------ */

enum ts_gpu_state {
	TS_GPU_UNUSED,
	TS_GPU_WANTED,
	TS_GPU_READY,
	TS_GPU_LEAVING,
	TS_GPU_BROKEN,
	TS_GPU_ENDING,
	TS_GPU_OFF
};

/* A trial, which shows whether other GPUs reach the memory, has fewer slots than any ring. */
#define TS_TRIAL_SLOTS 1u

/* Whether copies to a GPU may be shared, by --copies or a verdict (shim/verdict.h). */
enum ts_proof { TS_PROOF_UNKNOWN, TS_PROOF_YES, TS_PROOF_NO };

enum ts_path { TS_PATH_UNKNOWN, TS_PATH_GOOD, TS_PATH_BAD };

/* STAYING ──program──> EXITING ──service, nothing of others mapped──> EXITED */
enum ts_gpu_exit { TS_GPU_STAYING, TS_GPU_EXITING, TS_GPU_EXITED };

/* A claim or a lease in a ring that the GPU is not done with. */
struct ts_gpu_note {
	struct ts_note note;
	bool publish;  /* a claim, else a lease; from the hold on */
	bool is_known; /* @known is what the source has to hold still */
	bool at_once;  /* of a claim: nothing was queued before it */
	uint64_t begin_ns;
	struct ts_device_hold hold;
	struct ts_known known;
};

/* Words of the program's threads to the service, and their findings. */
struct ts_gpu_program {
	_Atomic int asked;     /* another job brings the same here */
	_Atomic int asked_far; /* another job does, maybe to another GPU */
	_Atomic uint64_t seen; /* generation + 1 of a ring that it was told of, or 0 */
	_Atomic int kept;      /* memory was asked back and did not come: not again */
	_Atomic int proof;     /* enum ts_proof */
	struct ts_sizes sizes; /* of copies that could be shared */
	struct ts_cost_found found;
};

/* The ring that is used. Constant while @mapped. */
struct ts_gpu_mapping {
	uint32_t ring; /* the row whose memory is used: @home, or another GPU's (gpu_ring.c) */
	ts_cu_pointer base;
	uint32_t generation;
	uint64_t slot_bytes;
	uint32_t slot_count;
	bool mine;
};

/* Memory of ours. The service's own, as is the next one. */
struct ts_gpu_offer {
	bool has_memory;       /* @mapping.base is an allocation of ours, offered or not */
	bool closing;          /* our ring is being withdrawn */
	uint64_t withdrawn_ns; /* since when nobody holds any of it, or 0 */
	ts_cu_pointer aside;   /* was offered, and others still have it mapped; or 0 */
	uint32_t aside_generation;
	uint64_t again_ns, wait_ns; /* when to try to offer again, and how long to wait */
	uint64_t made_ns;           /* when our memory was allocated */
	uint64_t most;              /* bytes that a slot may have, as we saw last */
	uint32_t judged;            /* copies there were when its shape was judged last */
};

/* Whether the ring of a GPU would do for others (gpu_ring.c). */
struct ts_gpu_trial {
	uint32_t far_met;               /* copies there were when @asked_far was seen... */
	bool is_far;                    /* ...if it was */
	uint64_t begin_ns;              /* since when what we offer is a trial, or 0 */
	uint64_t again_ns;              /* when to try again, after one in vain */
	bool is_reached;                /* from another GPU, as a trial has shown */
	uint8_t paths[TS_DEVICE_RINGS]; /* to other rows: enum ts_path */
};

struct ts_gpu {
	_Atomic int state;
	_Atomic uint32_t inside; /* threads that may use the mapping */
	_Atomic int mapped;
	_Atomic int look;    /* for the service: there is a reason to look now */
	_Atomic int exiting; /* the process ends: enum ts_gpu_exit */
	ts_cu_device device;
	ts_cu_context context; /* constant from READY on, as are the next three */
	bool reaches_host;     /* the GPU does, pageable memory */
	struct ts_device *table;
	uint32_t home; /* its row there */
	struct ts_gpu_program program;
	struct ts_gpu_mapping mapping;
	/* The service's own. */
	struct ts_gpu_offer offer;
	struct ts_gpu_trial trial;
	bool retained;    /* a reference to @context is ours */
	uint32_t said;    /* map word of @mapping.base + 1, if it is another's; or 0 */
	uint64_t refused; /* generation + 1 of a ring that could not be mapped, or 0 */
	uint64_t looked_ns;
	struct ts_gpu_note notes[TS_GPU_NOTES];
};

/**
 * The GPU @device for a copy of @bytes in @context, with its mapping, until ts_gpu_exit().
 * NULL where there is none yet: the service is told, and starts with the first.  *ret_ready:
 * whether all is ready but the ring.  Threads: any.
 */
struct ts_gpu *ts_gpu_enter(const struct ts_session *session, ts_cu_device device,
	ts_cu_context context, uint64_t bytes, bool *ret_ready);
void ts_gpu_exit(struct ts_gpu *gpu);

/** Number of a GPU that is ready in the table of the group: the same for all its processes. */
uint32_t ts_gpu_number(ts_cu_device device);

/** Whether a GPU that is ready reaches pageable memory (attribute 88). Threads: any. */
bool ts_gpu_reaches_host(ts_cu_device device);

/**
 * From our constructor: whether copies may ever be shared in this process.  With --copies auto
 * it asks once whether there is a file of verdicts.
 */
bool ts_gpu_begin(void);

/**
 * Whether copies to @device may be shared.  The first time, with --copies auto, the verdict is
 * read, and the driver asked for its version and the GPU's UUID.  Threads: any.
 */
bool ts_gpu_is_proven(ts_cu_device device);

/** Have the service look after @device, if there is a primary context. Threads: any. */
void ts_gpu_want(const struct ts_session *session, ts_cu_device device);

/**
 * This job has met another one that brings the same to @device (@here), or to whatever GPU
 * (@anywhere), or neither: then others may have.  A ring is worth having for a job that has met
 * another one here, or elsewhere if that one can reach it.
 */
void ts_gpu_meet(ts_cu_device device, bool here, bool anywhere);

/** A free note, HELD, or NULL. The caller makes it FREE again or ENQUEUED. */
struct ts_gpu_note *ts_gpu_note(struct ts_gpu *gpu);

/** The copy of @note is not made: its hold ends, and it is FREE. */
void ts_gpu_note_give_up(struct ts_gpu *gpu, struct ts_gpu_note *note);

/**
 * The copy of @note is done: its event has completed, or its stream was waited for.  A produced
 * copy is published if the source still holds the bytes of its name.  @note is FREE.
 */
void ts_gpu_note_end(struct ts_gpu *gpu, struct ts_gpu_note *note);

/** The event of @note was recorded: the service ends its hold when it has completed. */
void ts_gpu_note_enqueued(struct ts_gpu_note *note);

/** After an error: share no more with this GPU; whatever is held stays. */
void ts_gpu_off(struct ts_gpu *gpu);

/**
 * Give everything back that is @device's, so that its primary context may end: waits for the
 * service, half a second at most.  That is the end of sharing with this GPU: a program that
 * keeps and drops the context over and over must not wait each time.  @resets: what was not
 * given back by then is left alone, for its addresses may soon be the program's.
 */
void ts_gpu_leave(ts_cu_device device, bool resets);

/**
 * The program finds no room on a GPU: have the memory of rings given back, of this process or
 * another one, and wait for that, half a second at most; where it did not come in that time it
 * is not asked for again.  For all GPUs that this process shares copies with; nobody offers a
 * new ring there for ten minutes.  Returns whether any came, so that another try is worth it.
 * Threads: any of the program's.
 */
bool ts_gpu_make_room(void);

/**
 * At the end of the process: nobody shall begin to read memory that goes with it, and nobody
 * keep memory for its sake.  Waits for both, a tenth of a second each at most.
 */
void ts_gpu_finish(void);

/* ---- the service, the thread that looks after the GPUs ----------------------------------- */

/** From our constructor: from here on the service may be started. */
void ts_service_begin(void);

/** Start the service if it is not there yet; false: there is none.  Threads: any. */
bool ts_service_start(const struct ts_session *session);

/** Wake the service.  Threads: any. */
void ts_service_wake(void);

/** Whether this process has a service: not a fork child of one that has. */
bool ts_service_is_ours(void);

/** Whether it has ended, because the driver is being torn down. */
bool ts_service_has_ended(void);

/* ---- for the service --------------------------------------------------------------------- */

/** All of them, by ordinal. */
extern struct ts_gpu ts_gpus[TS_GPUS];

/* The thread's function, with the store that it looks at. */
typedef void *ts_service_run(void *store);

/** The function of the service, handed over so that nothing below calls it. */
void ts_service_is(ts_service_run *run);

/** It ends: nobody shall wait for it. */
void ts_service_ends(void);

/** How often it was woken, to look at before a round. */
uint32_t ts_service_woken(void);

/**
 * Wait until woken, @most_ns at most; not at all where that has been since @seen.  @deep: for
 * so long that ts_service_wake() has to end the wait.
 */
void ts_service_sleep(uint32_t seen, uint64_t most_ns, bool deep);

/* ---- the ring of a GPU: steps of the service, in its primary context where there is one -- */

/** Get @gpu ready to share, in the group's @table.  An error: this GPU is left alone. */
ts_cu_result ts_ring_prepare(struct ts_gpu *gpu, struct ts_device *table);

/** Map or offer what there is to be, and give back what is not wanted any more. */
void ts_ring_look(struct ts_gpu *gpu);

/** Give everything back; false: not yet. */
bool ts_ring_give_back(struct ts_gpu *gpu);

/** The same after an error, when calls in the context fail: of that, only our reference. */
bool ts_ring_let_go(struct ts_gpu *gpu);

#endif
