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
 * Where the bytes are wanted on several GPUs, the ring of one may serve others (peer.c).
 *
 * Memory of ours is freed when no other process has it mapped (leader/slots/device.h, map
 * words).  A service that is stopped, or inside a driver call, may have it for long: then our
 * memory is set aside, one at a time, so that somebody may offer another ring meanwhile.
 *
 * Fork: a child has no service thread and, like the driver, no GPUs of its parent's; there
 * everything works as without us.  A crash leaves nothing that leader/slots/device.h does not
 * know.
 */
#ifndef TS_HOOKS_CUDA_GPU_GPU_H
#define TS_HOOKS_CUDA_GPU_GPU_H

#include "hooks/cuda/abi.h"
#include "hooks/cuda/gpu/cost.h"
#include "hooks/cuda/gpu/known.h"
#include "hooks/cuda/gpu/note.h"
#include "hooks/cuda/gpu/sizes.h"
#include "leader/slots/device.h"
#include "leader/group/session.h"

#include <stdatomic.h>

#define TS_GPUS      16u
#define TS_GPU_NOTES 8u

enum ts_gpu_state {
	TS_GPU_UNUSED,
	TS_GPU_WANTED,
	TS_GPU_READY,
	TS_GPU_LEAVING,
	TS_GPU_BROKEN,
	TS_GPU_ENDING,
	TS_GPU_OFF
};

/* What is offered to find out who reaches it has fewer slots than any ring. */
#define TS_TRIAL_SLOTS 1u

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

/* What the program's threads say to the service, and what they learn. */
struct ts_gpu_program {
	_Atomic int asked;     /* another job brings the same here */
	_Atomic int asked_far; /* another job does, maybe to another GPU */
	_Atomic uint64_t seen; /* generation + 1 of a ring that it was told of, or 0 */
	_Atomic int kept;      /* memory was asked back and did not come: not again */
	struct ts_sizes sizes; /* of copies that could be shared */
	struct ts_cost_found found;
};

/* The ring that is used. Constant while @mapped. */
struct ts_gpu_mapping {
	uint32_t ring; /* the row whose memory is used: @home, or another GPU's (peer.c) */
	ts_cu_pointer base;
	uint32_t generation;
	uint64_t slot_bytes;
	uint32_t slot_count;
	bool mine;
};

/* Memory of ours. The service's own, as is the next one. */
struct ts_gpu_offer {
	bool has_memory;       /* @mapping.base is an allocation of ours, offered or not */
	bool closing;          /* what we offered is being withdrawn */
	uint64_t withdrawn_ns; /* since when nobody holds any of it, or 0 */
	ts_cu_pointer aside;   /* was offered, and others still have it mapped; or 0 */
	uint32_t aside_generation;
	uint64_t again_ns, wait_ns; /* when to try to offer again, and how long to wait */
	uint64_t made_ns;           /* when what we have was allocated */
	uint64_t most;              /* what a slot may have, as we saw last */
	uint32_t judged;            /* copies there were when its shape was judged last */
};

/* Whether the ring of a GPU would do for others (peer.c). */
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

/** Have the service look after @device, if there is a primary context. Threads: any. */
void ts_gpu_want(const struct ts_session *session, ts_cu_device device);

/**
 * This job has met another one that brings the same to @device (@here), or to whatever GPU
 * (@anywhere), or neither: then others may have.  A ring is worth having for who has met
 * somebody here, and for who has met somebody elsewhere that can reach it.
 */
void ts_gpu_meet(ts_cu_device device, bool here, bool anywhere);

/** A free note, HELD, or NULL. The caller makes it FREE again or ENQUEUED. */
struct ts_gpu_note *ts_gpu_note(struct ts_gpu *gpu);

/** What @note was for will not be: its hold ends, and it is FREE. */
void ts_gpu_note_give_up(struct ts_gpu *gpu, struct ts_gpu_note *note);

/**
 * What @note was for is done, now that its event has completed or its stream was waited for:
 * what is brought is published, if that is known to be what it is called.  The note stays.
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

/* ---- for the service -------------------------------------------------------------------- */

/** All of them, by ordinal. */
extern struct ts_gpu ts_gpus[TS_GPUS];

#endif
