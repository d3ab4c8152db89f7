/* SPDX-License-Identifier: MIT */
/* The part of `tsrun gc` that is about servers (shim/tsrun/server.h). */
#ifndef TS_TSRUN_GC_SERVERS_H
#define TS_TSRUN_GC_SERVERS_H

#include "shim/base.h"

/**
 * Remove, or with @dry_run list, the files of this user's servers on this node whose process is
 * gone, with what they kept values in; and what a killed `tsrun cluster up` has left.  Which
 * other tsruns work at stays.  Prints each; returns how many there were.
 */
unsigned ts_gc_collect_servers(bool dry_run);

#endif
