/* SPDX-License-Identifier: MIT */
/* What decides whether this process may open a file. */
#ifndef TS_SHIM_RIGHTS_H
#define TS_SHIM_RIGHTS_H

#include "shim/base.h"

/**
 * A number that two processes have in common if they have the same effective user, groups and
 * capabilities: one of them may open what the other one may (capabilities(7),
 * path_resolution(7); not asked: security modules, and what only one thread has).  Looked up
 * again after a second; until then a change is not seen.
 *
 * Threads: any.  Keeps errno.  0: it could not be found out, or the process has another root
 * or other mounts than when it asked first, so that paths lead elsewhere.
 */
uint64_t ts_rights(void);

#endif
