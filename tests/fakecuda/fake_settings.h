/* SPDX-License-Identifier: MIT */
/*
 * What the stand-in can be told to be and to do, by the environment: one table.
 *
 * A setting that is misspelt or out of range ends the process with a message: a test that
 * believed to have set it would test something else.
 */
#ifndef TS_TESTS_FAKECUDA_SETTINGS_H
#define TS_TESTS_FAKECUDA_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#define FAKE_MOST_DEVICES 16

/* What no driver may do; `tsrun doctor --gpu` has to find it. */
enum fake_lie {
	FAKE_LIE_BYTE = 1,    /* the last byte of a large copy to the device is another */
	FAKE_LIE_EVENT = 2,   /* an event is complete as soon as it is recorded */
	FAKE_LIE_LATE = 3,    /* a pageable source is read when the stream comes to the copy */
	FAKE_LIE_PRIVATE = 4, /* memory that was opened is a copy of the owner's */
	FAKE_LIE_ORDER = 5,   /* a stream does not wait for an event of another one */
	FAKE_LIE_HANGS = 6,   /* opening a handle never ends */
	FAKE_LIE_ADDRESS = 7, /* cuGetProcAddress gives a function that is not exported */
	FAKE_LIE_DIES = 8,    /* opening a handle ends the process */
	FAKE_MOST_LIES = FAKE_LIE_DIES,
};

#if defined(FAKE_FUTURE)
#define FAKE_VERSION 14000
#elif defined(FAKE_OLD_RESOLVER)
#define FAKE_VERSION 11080
#else
#define FAKE_VERSION 13000
#endif

/* clang-format off */
/* id               start            least most                text */
#define FAKE_NUMBERS(X) \
	X(DEVICES,               1,   0, FAKE_MOST_DEVICES, "GPUs of this machine") \
	X(MEMORY,  INT64_C(8) << 30,  0, INT64_C(1) << 40,  "bytes of each, per process") \
	X(MEMORY_SHARED,         0,   0, 1,                 "1: of all who count into one file") \
	X(DRIVER_VERSION, FAKE_VERSION, 11030, 99990,       "what cuDriverGetVersion says") \
	X(VIRTUAL_CLOCK,         0,   0, 1,                 "1: see below") \
	X(DELAY_US,              0,   0, 60000000,          "us that each stream operation takes") \
	X(JITTER_US,             0,   0, 60000000,          "and up to so many more, at random") \
	X(JITTER_SEED,           1,   0, INT64_MAX,         "of that randomness") \
	X(BANDWIDTH,             0,   0, INT64_MAX,         "bytes/s host to device; 0: no limit") \
	X(LINK_SHARED,           0,   0, 1,                 "1: one after another, of all who count so") \
	X(STAGING, INT64_C(1) << 40,  0, INT64_C(1) << 40,  "bytes of a pageable copy under way") \
	X(DEVICE_BANDWIDTH,      0,   0, INT64_MAX,         "bytes/s within a device") \
	X(PEER_BANDWIDTH,        0,   0, INT64_MAX,         "bytes/s between devices") \
	X(NO_IPC,                0,   0, 1,                 "1: IPC calls are not supported") \
	X(IPC_OPEN_US,           0,   0, 60000000,          "us that opening a handle takes") \
	X(IPC_CLOSE_US,          0,   0, 60000000,          "us that closing one takes") \
	X(VANISHES,              0,   0, 2,                 "1: memory of the dead faults; 2: is garbage") \
	X(REGISTER_US,           0,   0, 60000000,          "us that pinning memory takes") \
	X(NO_READ_ONLY_REGISTER, 0,   0, 1,                 "1: read-only memory is not pinned") \
	X(REGISTERED_APART,      0,   0, 1,                 "1: the GPU has other addresses for it") \
	X(HOST_PAGE_TABLES,      0,   0, 1,                 "1: it reads pageable memory itself") \
	X(PAGEABLE_LATE,         0,   0, 1,                 "1: it reaches it, and calls read it late") \
	X(BATCHES_LATE,          0,   0, 1,                 "1: batches read as late as they may") \
	X(RESOLVE_THROUGH_SELF,  0,   0, 2,                 "1, 2: see entry.c") \
	X(LIES,                  0,   0, FAKE_MOST_LIES,    "what it does wrong: enum fake_lie")
/* clang-format on */

/* Times are those of one operation: no engine is shared between streams or processes, so
 * nothing here says how fast many are together.  With LINK_SHARED copies from the host go over
 * one link, in the order in which they come to it, also those of other processes that count
 * into one file and to other devices.
 *
 * With VIRTUAL_CLOCK no operation takes time of the machine: fake_clock.c says when time
 * passes, and the counter clock_us how much has.  For one process, as each has a clock of its
 * own.
 *
 * A call that copies from pageable memory returns when it has taken the bytes along; with more
 * of them than STAGING only when they have arrived, as where they go through a small buffer.
 *
 * Lists and paths, also by the environment:
 *   FAKECUDA_COUNTERS  a file to count into, see counters.h
 *   FAKECUDA_FAIL      function:nth:code,...  the process's nth call of that exported name
 *                      (0: every) gives that error and does nothing; an error of the kind that
 *                      stays (700 and the like) stays in the context; "batch_of_one" is
 *                      any call of cuMemcpyBatchAsync for a single copy
 *   FAKECUDA_PEERS     all (default), none, or pairs: 0-1,1-0 (0 can reach 1 and back)
 *   FAKECUDA_MIG       number of the GPU instance of each device: 1,1,2; all are then slices
 *                      of one GPU, and only equal numbers can reach each other
 *   CUDA_VISIBLE_DEVICES  as for the real driver, numbers only
 */

enum fake_number {
#define X(id, start, least, most, text) FAKE_##id,
	FAKE_NUMBERS(X)
#undef X
		FAKE_NUMBER_COUNT
};

/** Read the environment; once, before anything else of this header. Ends the process if wrong.
 */
void fake_settings_init(void);

/** A number of the table. Any thread. */
int64_t fake_number(enum fake_number id);

/** Devices that are visible, and which of the machine's the @ordinal-th of them is. */
int fake_visible_count(void);
int fake_visible(int ordinal);

/** Number of the GPU instance of a device of the machine; 0: not divided. */
int fake_instance(int physical);

/** Whether memory of @peer can be reached from @device, both numbers of the machine. */
bool fake_can_reach(int device, int peer);

/** The error that call number @nth (from 1) of @function is to give, or 0. */
int fake_failure(const char *function, uint64_t nth);

/** Say what is wrong on stderr and end the process: a test that goes on would lie. */
_Noreturn void fake_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
