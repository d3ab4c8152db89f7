/* SPDX-License-Identifier: MIT */
/*
 * What `tsrun doctor --gpu` has found out of the GPUs of this node, in a file of the user's:
 * whether bytes were right and sharing copies pays.  shim/tsrun/gpu writes it, whole and at
 *once.
 *
 *	tsshim-gpu 1
 *	gpu UUID CUDA DRIVER yes      32 hexadecimal digits; what cuDriverGetVersion says;
 *version say TEXT                      of the kernel module, or "software" where there is none
 *	...                           more GPUs, yes or no
 *	end DIGEST                    FNV-1a of all before this line
 *
 * A verdict holds for that GPU (or part of one) with that driver.  One of a driver made of
 * software holds in builds for tests only.
 */
#ifndef TS_SHIM_VERDICT_H
#define TS_SHIM_VERDICT_H

#include "shim/state.h"

/** Room for a file with a NUL behind it; a larger one is none of ours. */
#define TS_VERDICT_BYTES 8192u

/** What the file is called (ts_state_path()). */
#define TS_VERDICT_NAME "gpu"
#define TS_VERDICT_KIND "verdict"

#define TS_VERDICT_DRIVER 64

/** In the place of the version of the kernel module, where there is none. */
#define TS_VERDICT_SOFTWARE "software"

/** Version of the kernel module of the driver, "software" where there is none.  Threads: any.
 */
void ts_verdict_driver(char ret_version[TS_VERDICT_DRIVER]);

/**
 * Read the file at @path, as a string.  Threads: any; neither allocates nor locks, keeps errno.
 * Errors: those of open(2); -EPERM it is another user's, or others may write to it; -EBADMSG it
 * is no such file, or damaged; -EPROTO it is of another version.
 */
int ts_verdict_read(const char *path, char ret_text[TS_VERDICT_BYTES]);

/**
 * Whether @text of ts_verdict_read() says yes for the GPU of @uuid with the driver of this
 * machine, which says that it is @cuda.  Threads: any; keeps errno.
 */
bool ts_verdict_allows(const char *text, const unsigned char uuid[16], int cuda);

#endif
