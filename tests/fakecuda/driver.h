/* SPDX-License-Identifier: MIT */
/*
 * Inside the stand-in for libcuda.so.1: a driver in software for tests, not a GPU.  It computes
 * nothing; it moves bytes with the ordering, the errors and the lifetimes of the real driver.
 * What it shows holds for itself; whether a GPU does the same, only a GPU can say.
 *
 * To use it, put the directory of its libcuda.so.1 into LD_LIBRARY_PATH; fake_settings.h says
 *what it can be told, counters.h (and counters.py) what it counts, functions.h what it has, and
 * cuda_abi.h, with the two checks, whose interface that is.  From the call to the bytes:
 *
 *	entry -> fake_copy -> capture, or fake_stream
 *	                      memory, ipc, context, fake_clock
 *
 * One lock covers all state.  fake_enter takes it, so every do_ function of what needs cuInit
 * has it.  It is not held while bytes are moved or a host function runs; what these use is
 * kept by references.  Functions ending in _locked want it held.
 *
 * Objects with handles (contexts, streams) are never freed, so a stale handle is an error
 * and not a crash; events are, as soon as nothing refers to them.
 */
#ifndef TS_TESTS_FAKECUDA_DRIVER_H
#define TS_TESTS_FAKECUDA_DRIVER_H

#include "counters.h"
#include "cuda_abi.h"
#include "functions.h"
#include "fake_settings.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FAKE_EXPORT __attribute__((visibility("default")))

/* What freed memory reads as. */
#define FAKE_POISON 0xDB

struct fake_capture;

/* The first things of a do_ function: leave it with an error. */
#define TRY(call)                            \
	do {                                 \
		CUresult result_ = (call);   \
		if (result_ != CUDA_SUCCESS) \
			return result_;      \
	} while (0)
#define INVALID_IF(condition) TRY((condition) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS)
#define WANT_DEVICE(device) \
	TRY(fake_device_is_valid(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE)

/* What each exported function does once fake_enter has let it in; the table's parameters,
 * for the synchronous ones with the default stream that they mean. */
#define X(symbol, base, since, arguments, ...) CUresult do_##symbol(__VA_ARGS__);
FAKE_PLAIN(X)
FAKE_PTSZ(X)
#undef X
#define X(symbol, base, since, arguments, ...) \
	CUresult do_##symbol(__VA_ARGS__, CUstream stream);
FAKE_PTDS(X)
#undef X

struct CUctx_st {
	struct CUctx_st *next;
	int device; /* ordinal among the visible */
	unsigned flags;
	bool primary, alive;
	unsigned life;     /* a primary context may have several, by one handle */
	unsigned retained; /* a primary context's users */
	CUresult broken;   /* an error that stays: all calls give it */
	uint64_t peers;    /* bit per visible device that it may reach */
	struct CUstream_st *streams;
};

enum fake_stream_kind {
	FAKE_STREAM_LEGACY,
	FAKE_STREAM_PER_THREAD,
	FAKE_STREAM_CREATED,
};

struct CUstream_st {
	struct CUstream_st *next; /* of its context */
	struct CUctx_st *context;
	unsigned life; /* of the context, in which it was made */
	enum fake_stream_kind kind;
	uint64_t thread; /* whose default stream it is */
	unsigned flags;
	int priority;
	bool destroyed, running;
	bool executing;          /* an operation that is not in the queue any more */
	int64_t wakes_ns;        /* when that ends, VIRTUAL_CLOCK; else 0 */
	uint64_t enqueued, done; /* operations, in order: done <= enqueued */
	struct fake_op *first, **last;
	pthread_cond_t news; /* for its thread, which can go on or is to end */
	/* What it takes part in, or NULL; how much it recorded there; whether that was joined.
	 */
	struct fake_capture *capture;
	uint64_t captured;
	bool joined;
};

/* A point in a stream: reached when its @sequence-th operation is done. */
struct fake_point {
	struct CUstream_st *stream;
	uint64_t sequence;
};

struct CUevent_st {
	unsigned magic;
	struct CUevent_st *next, **place; /* in the list of all */
	struct CUctx_st *context;
	unsigned flags;
	unsigned pending; /* operations that will write to it */
	bool destroyed;
	struct fake_point point; /* stream NULL: never recorded, which counts as complete */
	int64_t time_ns;
	uint64_t capture_id; /* the capture it was last recorded in, or 0 */
};

enum fake_memory_kind {
	FAKE_MEMORY_DEVICE,
	FAKE_MEMORY_IMPORTED, /* another process's, opened by its handle */
	FAKE_MEMORY_HOST,     /* cuMemHostAlloc */
	FAKE_MEMORY_PINNED,   /* cuMemHostRegister */
};

/* One context that has an allocation of another process mapped; 0: nobody. */
struct fake_importer {
	_Atomic int32_t pid;
	_Atomic uint64_t start; /* 0: not said yet */
};

#define FAKE_IMPORTERS 64

/* Lies behind the bytes of an allocation, for all processes that have it mapped. */
struct fake_shared {
	uint64_t magic, id;
	uint32_t generation;
	_Atomic uint32_t freed;
	struct fake_importer importers[FAKE_IMPORTERS];
};

/*
 * A range of addresses that the driver knows.  A device address is one that the host cannot
 * touch: it lies in a reservation without access, and @bytes is where the contents are.
 */
struct fake_memory {
	struct fake_memory *next;
	enum fake_memory_kind kind;
	uintptr_t address;
	size_t size, mapped; /* as asked for; with the page of @shared */
	unsigned char *bytes;
	struct CUctx_st *context;
	int physical; /* the machine's device, for the kinds of a device */
	unsigned flags;
	unsigned refs; /* one of the list, one per operation */
	bool gone;     /* not in the list any more */
	int fd;
	uint64_t id;
	uintptr_t handle; /* of cuMemCreate and the like: the first address, or 0 */
	struct fake_shared *shared;
	/* imported: */
	unsigned opens;
	struct fake_importer *importer;
	pid_t owner;
	uint64_t owner_start;
};

/* Rows of bytes from one place to another; a plain copy is one row. */
struct fake_side {
	unsigned char *bytes;
	size_t pitch;
	struct fake_memory *memory; /* holds a reference, or NULL for pageable memory */
};

enum fake_op_kind {
	FAKE_OP_NOTHING, /* only its place in the order counts */
	FAKE_OP_COPY,
	FAKE_OP_FILL,
	FAKE_OP_CALL,
	FAKE_OP_EVENT,
};

enum fake_direction {
	FAKE_H2D,
	FAKE_D2H,
	FAKE_D2D,
	FAKE_PEER,
	FAKE_H2H,
};

struct fake_op {
	struct fake_op *next;
	enum fake_op_kind kind;
	enum fake_direction direction;
	struct fake_side dst, src;
	size_t width, height;
	unsigned char fill;
	void *staging; /* owned: what a copy from pageable memory took at the call */
	CUhostFn function;
	void *data;
	struct CUevent_st *event;
	struct fake_point *after; /* owned */
	size_t after_count;
};

extern pthread_mutex_t fake_lock;

/* entry.c */

/** First in every exported function. False: return *ret_error instead.  True: what needs
 * cuInit has the lock, until fake_leave().  Any thread. */
bool fake_enter(enum fake_call call, CUresult *ret_error);
void fake_leave(enum fake_call call);

/** Whether call number @nth of what FAKECUDA_FAIL calls @name is to fail, with *ret_error. */
bool fake_fails_locked(const char *name, uint64_t nth, CUresult *ret_error);
/** The process is ending: streams stop where they are. */
bool fake_is_ending_locked(void);
/** Field 22 of /proc/PID/stat, or 0 without such a process. */
uint64_t fake_start_of(pid_t pid);

/* context.c */

bool fake_device_is_valid(CUdevice device);
/** The 16 bytes that tell GPUs, and GPU instances, apart over processes. */
void fake_uuid_of(int physical, CUuuid *ret_uuid);

/** The current context, alive and unbroken. */
CUresult fake_current_locked(CUcontext *ret_context);
/** 0, or why @context cannot be used. */
CUresult fake_context_check_locked(CUcontext context);
/** All contexts ever made. */
CUcontext fake_contexts_locked(void);
/** Make an error stick to the context. */
void fake_context_break_locked(CUcontext context, CUresult error);

/* memory.c */

/** The memory that has all of @bytes at @address (at least its first byte if 0), or NULL. */
struct fake_memory *fake_memory_find_locked(uintptr_t address, size_t bytes);
/** The memory of this kind that begins at @address, or NULL. */
struct fake_memory *fake_memory_at_locked(uintptr_t address, enum fake_memory_kind kind);
/** The memory of this handle of cuMemCreate or cuMemImportFromShareableHandle, or NULL. */
struct fake_memory *fake_memory_of_handle_locked(uint64_t handle);
/** The list of all. */
struct fake_memory *fake_memory_first_locked(void);
/** Enter memory with one reference; takes the struct over. */
void fake_memory_add_locked(struct fake_memory *memory);
/** Take memory out: its address means nothing any more, its contents are poisoned. */
void fake_memory_remove_locked(struct fake_memory *memory);
void fake_memory_release_locked(struct fake_memory *memory);
/** Map @fd's bytes behind a fresh device address. False without memory. */
bool fake_memory_map(struct fake_memory *memory);
/** What a context leaves behind. */
void fake_memory_drop_context_locked(CUcontext context);
bool fake_memory_is_device(const struct fake_memory *memory);
bool fake_memory_overlaps_locked(uintptr_t address, size_t bytes);
/** Say in @memory's page that this process has it mapped. */
void fake_memory_import(struct fake_memory *memory);
/** The driver of this process ends: nothing of others is mapped any more. */
void fake_memory_end_imports_locked(void);
/** Whether @shared is still what a handle was made of. */
bool fake_memory_is_export(const struct fake_shared *shared, uint64_t id, uint32_t generation);
/** Bytes that end with a page border. */
size_t fake_page_round(size_t bytes);

/* fake_stream.c */

/** A stream by its handle, 1 and 2 being the current context's default streams. */
CUresult fake_stream_find_locked(CUstream handle, CUstream *ret_stream);
/** Whether a stream waits for, and is waited for by, the legacy default stream. */
bool fake_stream_is_blocking(const struct CUstream_st *stream);
/** Append an operation (from fake_op_new); takes it over. */
void fake_enqueue_locked(CUstream stream, struct fake_op *op);
/** Wait for all that was enqueued so far. Gives up the lock meanwhile. */
CUresult fake_wait_stream_locked(CUstream stream);
CUresult fake_wait_point_locked(struct fake_point point);
CUresult fake_wait_context_locked(CUcontext context);
bool fake_point_reached_locked(struct fake_point point);
/** Whether its next operation has nothing to wait for. */
bool fake_stream_can_go_on_locked(const struct CUstream_st *stream);
/** A number that no other thread has had. */
uint64_t fake_this_thread(void);
void fake_stream_drop_context_locked(CUcontext context);

/* capture.c */

/** An error if the thread must not make calls now that a capture could not record. */
CUresult fake_capture_forbids_locked(void);
/** An error, and the end of the capture, if the host must not wait for this stream now. */
CUresult fake_capture_check_stream_locked(CUstream stream);
/** An error if @stream is the legacy one and would make a capture depend on it. */
CUresult fake_capture_check_legacy_locked(CUstream stream);
/** An error, and the end of its captures, if the host must not wait for a context now. */
CUresult fake_capture_check_context_locked(CUcontext context);
/** Record an operation; takes it over.  @now: it wants the bytes of its source at the call. */
CUresult fake_capture_op_locked(CUstream stream, struct fake_op *op, bool now);
CUresult fake_capture_record_event_locked(CUstream stream, CUevent event);
CUresult fake_capture_wait_event_locked(CUstream stream, CUevent event);
/** The host asks for an event that was recorded in a capture. */
CUresult fake_capture_break_by_event_locked(CUevent event);
/** Put any operation into a stream, or into its capture; takes it over. */
CUresult fake_submit_locked(CUstream stream, struct fake_op *op);

/* fake_copy.c */

/** Memory that the device cannot reach: its bytes go through the driver's own. */
bool fake_is_pageable(const struct fake_side *side);
/** Count what a copy or a fill moves. */
void fake_count_copy(const struct fake_op *op);

/** An operation with this event is done. */
void fake_event_unuse_locked(CUevent event);

/** Never NULL: ends the process without memory. */
struct fake_op *fake_op_new(enum fake_op_kind kind);
/** Make it run after @point as well. */
void fake_op_after(struct fake_op *op, struct fake_point point);
/** Take as long as @op takes, then do it unless @stream's context has ended. Without the lock.
 */
void fake_op_run(struct fake_op *op, CUstream stream);
void fake_op_free_locked(struct fake_op *op);

/* fake_clock.c */

int64_t fake_now_ns(void);
/** A thread of the program takes so long in a call.  Gives up the lock meanwhile. */
void fake_sleep_us_locked(int64_t us);
/** An operation of @stream, in its thread, takes so long.  Takes the lock if time is virtual.
 */
void fake_work_us(CUstream stream, int64_t us);
/** A thread of the program waits for a change, until @point is reached. */
void fake_clock_wait_locked(struct fake_point point);
/** A stream's thread waits for a change that concerns it. */
void fake_clock_idle_locked(CUstream stream);
/** Wake whom a change concerns: every thread of the program, and streams that can go on. */
void fake_news_locked(void);

/* Never NULL. */
void *fake_alloc(size_t bytes);

#endif
