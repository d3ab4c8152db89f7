/* SPDX-License-Identifier: MIT */
/*
 * The bell of the service, the thread that looks after the GPUs of this process: who has
 * something for it starts it and wakes it here, and knows nothing of what it does.  That is
 * handed over once, so that nothing below the service calls it.
 *
 * Fork: a child has no service, and starts none.
 */
#ifndef TS_HOOKS_CUDA_GPU_BELL_H
#define TS_HOOKS_CUDA_GPU_BELL_H

#include "leader/group/session.h"

/* The thread's function, with the store that it looks at. */
typedef void *ts_service_run(void *store);

/** What the service does.  Called once, by our constructor. */
void ts_service_is(ts_service_run *run);

/** Start the service if it is not there yet; false: there is none.  Threads: any. */
bool ts_service_start(const struct ts_session *session);

/** Wake the service.  Threads: any. */
void ts_service_wake(void);

/** Whether this process has a service: not a fork child of one that has. */
bool ts_service_is_ours(void);

/** Whether it has ended, because the driver is being torn down. */
bool ts_service_has_ended(void);

/* ---- for the service -------------------------------------------------------------------- */

/** It ends: nobody shall wait for it. */
void ts_service_ends(void);

/** How often it was woken, to look at before a round. */
uint32_t ts_service_woken(void);

/**
 * Wait until woken, @most_ns at most; not at all where that has been since @seen.  @deep: for
 * so long that whoever wakes the service has to end the wait.
 */
void ts_service_sleep(uint32_t seen, uint64_t most_ns, bool deep);

#endif
