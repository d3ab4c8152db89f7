/* SPDX-License-Identifier: MIT */
/*
 * Starting a program of ours that the host never notices: no child that wait(2) could find, no
 * SIGCHLD, no handlers of pthread_atfork(3), no copy of the host's memory.
 *
 *	host thread --clone(VM, VFORK, no signal)--> middle --the same--> helper --execve-->
 *
 * The middle process is ours to wait for (__WCLONE) and ends at once, so the helper's parent is
 * whoever takes orphans.  Where that is the host itself (process 1 of a container, a
 * subreaper), none is started: it would find a child that it did not make.
 */
#ifndef TS_SHIM_HELPER_H
#define TS_SHIM_HELPER_H

#include "shim/base.h"

/* The programs: (name, file beside the library). */
#define TS_HELPERS(X)              \
	X(STAGER, "tsshim-stager") \
	X(PEER, "tsshim-peer") /* built where there is OpenSSL */

enum ts_helper {
#define TS_X(name, file) TS_HELPER_##name,
	TS_HELPERS(TS_X)
#undef TS_X
};

/** Most descriptors that a helper is given; they get the numbers from TS_HELPER_FD on. */
#define TS_HELPER_FDS 2
#define TS_HELPER_FD  3

/**
 * From the constructor: see where helpers are, beside the library.  Takes the loader's lock
 * for a moment.
 */
void ts_helper_find(void);

/** Whether one may be started here. Some 200 ns; any thread; keeps errno. */
bool ts_helper_is_possible(void);

/**
 * Start @which with @arguments (the first one is its name, the last one NULL) and @count of
 * @fds (at most TS_HELPER_FDS) under the numbers said above; it has no other descriptors but
 * /dev/null for 0 to 2, an empty environment, and all signals blocked.  Takes as long as
 * execve(2), but no longer than half a second, where a signal ends the wait for the library's
 * file system at all (on NFS and FUSE it does); after that none is possible any more.
 *
 * Threads: any.  Not for a signal handler or a vfork child.  Keeps errno, allocates nothing.
 * Errors: -ENOENT no such helper, or none is possible here; -EMFILE, -EAGAIN, -ENOMEM;
 * -ETIMEDOUT; those of execve(2).
 */
int ts_helper_start(enum ts_helper which, char *const arguments[], const int *fds, int count);

#endif
