/* SPDX-License-Identifier: MIT */
/*
 * When a request may go on, and whether it fails: latency, bandwidth, stalls, faults.
 *
 * A request waits for its latency first and is then carried out, so what is stalled has not
 * touched the source.  Bytes of reads and writes then pass one link that all share.  Each
 * request waits in a thread of its own: latencies overlap, transfers queue.
 */
#ifndef TS_TESTS_STORAGE_PACE_H
#define TS_TESTS_STORAGE_PACE_H

#include "counts.h"

#define FUSE_USE_VERSION 35
#include <fuse_lowlevel.h>

/** Once, before the first thread. Errors: of pthread_condattr_setclock(3). */
int slow_pace_init(void);

/**
 * A request has arrived: count it, wait out its latency and stalls.
 * @record: as for slow_count_arrival().  Any thread that serves requests.
 * Errors, to be answered as such: -EINTR the process that asked is being killed (only then:
 * network storage mounted hard heeds no other signal); -EIO slowfs is ending.
 */
int slow_pace_begin(fuse_req_t req, enum slow_kind kind, struct slow_record *record);

/** Send @bytes over the link; waits, and fails, like slow_pace_begin(). */
int slow_pace_transfer(fuse_req_t req, uint64_t bytes);

/** -EIO if an open is to fail now, else 0. */
int slow_pace_open_fault(void);

/** -EIO if a read whose last byte lies before offset @end is to fail now, else 0. */
int slow_pace_read_fault(uint64_t end);

/** Settings have changed: let waiting requests see it. Not from a signal handler. */
void slow_pace_wake(void);

/** slowfs is ending: every waiting or later request fails. */
void slow_pace_stop(void);

/** Requests that wait now. */
uint64_t slow_pace_waiting(void);

#endif
