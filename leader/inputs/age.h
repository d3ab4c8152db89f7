/* SPDX-License-Identifier: MIT */
/*
 * How long ago a file must have been changed before its times can be trusted: samples, copies,
 * known paths and listings all ask here.
 *
 * A file is known by its times.  A write gives it the time of the last tick of a clock, so a
 * second write within the same tick leaves no trace.  As soon as that clock has moved on, each
 * later write gives another time.  Where the clock is this kernel's, that is 10 ms at most;
 * AGE_NS is 200 times as much.  The clock of a server may differ from ours, and may tick in
 * whole seconds; FAR_AGE_NS is for these.
 */
#ifndef TS_LEADER_INPUTS_AGE_H
#define TS_LEADER_INPUTS_AGE_H

#include "shim/base.h"

#include <time.h>

/**
 * Whether files on a file system of @type (ts_sys_file_system()) have times that this machine's
 * kernel gives, to the nanosecond.  False of all that is not known to be so.
 */
bool ts_age_is_near(uint64_t type);

/**
 * Whether a file that had these times at @now_ns was changed so recently that its next change
 * may not show in them; @is_near is the answer of the function above.  So is a file of the
 * future.  All of it in nanoseconds since 1970.
 *
 * Near files are judged by the change of the inode alone, which no program can set.  Elsewhere
 * the time of the last write counts as well, for not each server keeps the other one.
 */
bool ts_age_is_young(bool is_near, int64_t modified_ns, int64_t changed_ns, int64_t now_ns);

/** Nanoseconds since 1970, which last until 2262; what lies outside saturates. */
int64_t ts_age_ns(struct timespec time);

#endif
