/* SPDX-License-Identifier: MIT */
/* A trainer's data path in C: batches from host memory to a device; see trainer.c. */
#ifndef TS_TESTS_VICTIMS_TRAINER_H
#define TS_TESTS_VICTIMS_TRAINER_H

#include "minicudart.h"

#include <stdbool.h>
#include <stddef.h>

#define MOST_SLOTS 64

enum trainer_memory {
	PAGEABLE,
	PINNED,
	REGISTERED,
};

enum trainer_stream {
	LEGACY,        /* 0 */
	THREAD,        /* 0 with the per-thread variants */
	LEGACY_HANDLE, /* CU_STREAM_LEGACY */
	THREAD_HANDLE, /* CU_STREAM_PER_THREAD */
	BLOCKING,
	NON_BLOCKING,
};

enum trainer_call {
	HTOD,
	UNIFIED, /* cuMemcpy */
	BATCH,   /* cuMemcpyBatchAsync of 13.0 */
	BATCH_12,
	ROWS,
	GRAPH, /* captured once per slot, then launched */
};

struct settings {
	long bytes, count, start, seed, slots, streams, parts, threads, delay_us, device;
	enum trainer_memory memory;
	enum trainer_stream stream;
	enum trainer_call call;
	bool sync, print, own_context;
	const char *gate, *ready, *warm;
};

/** Read the command line; ends the program with 2 where it is wrong. */
void trainer_options(int argc, char **argv, struct settings *ret_settings);

/**
 * The driver as this program reaches it: linked, by dlsym, or through a runtime. One of
 * trainer_*.c has it.  @per_thread: variants with the thread's default stream.  Ends the
 * program if there is no driver.
 */
const struct mini_driver *trainer_driver(bool per_thread);

#endif
