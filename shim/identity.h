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
#define TS_PROCESS_PID_BITS 24
#define TS_PROCESS_PID(id)  ((pid_t)((id)&0xffffff))

/**
 * The id of @pid in our PID namespace, or 0 when there is no such process.  A zombie without
 * other threads counts as gone when @zombie_is_gone.  Reads /proc/<pid>/stat; without /proc any
 * existing process has start time 0.  Async-signal-safe.
 */
uint64_t ts_process_id(pid_t pid, bool zombie_is_gone);

/** Whether the process with this id lives; nobody does not.  As above. */
bool ts_process_is_alive(uint64_t id);

enum ts_continuity {
	TS_SAME_PROCESS,
	TS_FORK_CHILD,  /* of a real fork since ts_identity_settle(): call that again */
	TS_VFORK_CHILD, /* running in its parent's memory: touch nothing */
};

/**
 * Remember this process: the first once, from the constructor, the second after a fork, by
 * one thread of the child.  A program that never calls them is taken for one process.
 */
void ts_identity_init(void);
void ts_identity_settle(void);

/**
 * What happened since ts_identity_settle().  A page the kernel wipes at fork tells forks
 * that run no atfork handlers as well (_Fork, clone); getpid() tells vfork.
 * Some 115 ns (one getpid system call) where the page is intact.
 */
enum ts_continuity ts_identity_check(void);

/**
 * Whether this is a fork child in which ts_identity_settle() was not called yet.  One load
 * (acquire: when it says no, all that was stored before the settling is seen).
 */
bool ts_identity_forked(void);

/**
 * A number that is another one in every fork child: what was held under an older number
 * (a lease, a reservation, a place in the ring) is the parent's.  Two loads, no system call.
 */
uint32_t ts_identity_serial(void);

/**
 * How often this process has forked by fork(3), once before and once after each; what others
 * may have got a share in meanwhile is told by a number that was noted earlier.
 */
uint32_t ts_identity_forks(void);

/**
 * ts_process_id() of this process, and of the job it works for (docs/rooms/store.md).
 *
 * Fork children work for who was started by exec; a child that Python's multiprocessing
 * started by exec (spawn, forkserver) for the parent that runs the same program file, which
 * may be process 1 of a container.  Read from /proc at the first call, then remembered.
 */
uint64_t ts_identity_self(void);
uint64_t ts_identity_job(void);

#endif
