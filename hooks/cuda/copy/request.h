/* SPDX-License-Identifier: MIT */
/* A copy that a program asked its driver for, the driver's own call for it, and its stream. */
#ifndef TS_HOOKS_CUDA_COPY_REQUEST_H
#define TS_HOOKS_CUDA_COPY_REQUEST_H

#include "hooks/cuda/abi.h"

/* Values of ts_copy.per_thread, by the tables of hooks/cuda/abi.h. */
#define TS_COPY_LEGACY false
#define TS_COPY_THREAD true

struct ts_copy;
struct ts_known;

/* What is copied from, as far as is known. */
enum ts_source {
	TS_SOURCE_PLAIN,  /* whatever the driver says of it */
	TS_SOURCE_PINNED, /* a buffer of the hand-over pool at either end: it is followed */
	TS_SOURCE_NAMED   /* such a buffer, of which is known what it holds */
};

/* Of a copy that is one of several that a program asked for by one call (batch.h). */
struct ts_part {
	/* The driver's own call, for @copy alone, whatever it says of that. */
	ts_cu_result (*bring)(const struct ts_part *part, const struct ts_copy *copy);
	int order;           /* in which its source may be read: TS_CU_ORDER_* */
	bool may_be_left;    /* for the call that brings all that is left */
	bool left;           /* and was: nothing is done */
	uint64_t *waited_ns; /* for others, in all of that call */
};

struct ts_copy {
	ts_cu_pointer to, from;
	size_t bytes;
	ts_cu_stream stream; /* as the caller gave it; 0 where the call takes none */
	bool per_thread;     /* 0 means the thread's stream: the calls _ptds and _ptsz */
	bool async;          /* the call takes a stream */
	bool untyped;        /* cuMemcpy, which may be a copy of any direction */
	bool back;           /* from the device */
	bool alone;          /* is brought by a call of its own, also where it may be left */
	union {
		ts_cu_result(*htod) TS_CU_TAKES_htod;
		ts_cu_result(*htod_async) TS_CU_TAKES_htod_async;
		ts_cu_result(*any) TS_CU_TAKES_any;
		ts_cu_result(*any_async) TS_CU_TAKES_any_async;
		ts_cu_result(*dtoh) TS_CU_TAKES_dtoh;
		ts_cu_result(*dtoh_async) TS_CU_TAKES_dtoh_async;
	} real; /* by @async, @untyped and @back */
	enum ts_source source;
	struct ts_known *known; /* of a source that is named (known.h) */
	struct ts_part *part;   /* by which it is brought in the place of @real; or NULL */
};

/** Whether what @copy reads is known by a name. */
static inline bool ts_copy_is_named(const struct ts_copy *copy)
{
	return copy->source == TS_SOURCE_NAMED;
}

/** The driver's own call, with what the program gave it. */
ts_cu_result ts_copy_real(const struct ts_copy *copy);

/* ---- the driver, in the stream of a copy.  Threads: any --------------------------------- */

/** Whether it may be captured: then nothing is asked of it, nor added. */
bool ts_copy_may_be_captured(const struct ts_copy *copy);

/** As many bytes as @copy has, within the GPU. */
ts_cu_result ts_copy_within(const struct ts_copy *copy, ts_cu_pointer to, ts_cu_pointer from);

/** An event behind what was put there so far. */
ts_cu_result ts_copy_record(const struct ts_copy *copy, ts_cu_event event);

/** Wait for all that was put there. */
ts_cu_result ts_copy_synchronize(const struct ts_copy *copy);

/** Whether all that was put there is done; an error is a "no". */
bool ts_copy_is_idle(const struct ts_copy *copy);

/** Also what streams that do not say otherwise wait for, without having anything themselves. */
bool ts_copy_is_all_idle(const struct ts_copy *copy);

#endif
