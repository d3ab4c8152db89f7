/* SPDX-License-Identifier: MIT */
/*
 * As much of a driver and of the service as hooks/cuda/pinned.c and copy.c call, in this
 * process: events complete when a test says so, and every call can be made to fail.
 */
#ifndef TS_TESTS_UNIT_CUDA_FAKE_DRIVER_H
#define TS_TESTS_UNIT_CUDA_FAKE_DRIVER_H

#include "hooks/cuda/copy.h"
#include "hooks/cuda/pinned.h"

struct fake_driver {
	bool complete;          /* what was recorded has completed */
	ts_cu_result copy;      /* what the driver's own copy says */
	ts_cu_result record;    /* of an event */
	ts_cu_result query;     /* of one that has completed */
	ts_cu_result registers; /* memory */
	unsigned registered;    /* so often, less what was taken back */
	uint64_t registered_bytes;
	unsigned copies, recorded, woken;
};

extern struct fake_driver fake_driver;

/** A driver that does everything at once, and a GPU 0 whose service is this process. */
void fake_driver_init(void);

/** A copy that this driver makes. */
struct ts_copy fake_copy(ts_cu_pointer to, ts_cu_pointer from, size_t bytes, bool async);

#endif
