/* SPDX-License-Identifier: MIT */
/*
 * Who this process is: itself, its job, and whether it still is who it was (fork, vfork).
 */
#ifndef TS_SHIM_IDENTITY_H
#define TS_SHIM_IDENTITY_H

#include "shim/base.h"

#include <sys/types.h>

/*
 * A process as one number that does not repeat: start time in clock ticks since boot
 * (low 40 bits) << 24 | pid.  0 is nobody.
 */
#define TS_PROCESS_PID(id) ((pid_t)((id)&0xffffff))

/**
 * The id of @pid in our PID namespace, or 0 when there is no such process.  A zombie without
 * other threads counts as gone when @zombie_is_gone.  Reads /proc/<pid>/stat; without /proc any
 * existing process has start time 0.  Async-signal-safe.
 */
uint64_t ts_process_id(pid_t pid, bool zombie_is_gone);

enum ts_continuity {
	TS_SAME_PROCESS,
	TS_FORK_CHILD,  /* of a real fork since ts_identity_settle(): call that again */
	TS_VFORK_CHILD, /* running in its parent's memory: touch nothing */
};

/** Remember this process; called by the constructor and, in the child, after a fork. */
void ts_identity_init(void);
void ts_identity_settle(void);

/**
 * What happened since ts_identity_settle().  A page the kernel wipes at fork tells forks
 * that run no atfork handlers as well (_Fork, clone); getpid() tells vfork.
 * Some 60 ns (one getpid system call) where the page is intact.
 */
enum ts_continuity ts_identity_check(void);

/** Number that changes at every fork this process went through; 0 work, no system call. */
bool ts_identity_forked(void);

/**
 * A number that is another one in every fork child: what was held under an older number
 * (a lease, a reservation, a place in the ring) is the parent's.  Two loads, no system call.
 */
uint32_t ts_identity_serial(void);

/** ts_process_id() of this process, and of the job it works for (docs/design.md, jobs). */
uint64_t ts_identity_self(void);
uint64_t ts_identity_job(void);

#endif
