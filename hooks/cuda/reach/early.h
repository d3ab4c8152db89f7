/* SPDX-License-Identifier: MIT */
/* Finding a function before this library may call any. */
#ifndef TS_HOOKS_CUDA_REACH_EARLY_H
#define TS_HOOKS_CUDA_REACH_EARLY_H

#include "shim/base.h"

/**
 * Address of function @name in the first object behind this library in load order that
 * defines it, or 0.
 *
 * For calls that come in before our constructor has run, or before the loader has relocated
 * this library (other libraries' constructors and IFUNC resolvers, sanitizers that are just
 * setting themselves up).  So nothing here calls another function or reads a pointer that has
 * to be relocated; what the kernel and the loader know is read in place, by bare system calls.
 * Only while the list of loaded objects does not change: in the loader's own thread.
 * 0 as well where /proc is not mounted, or the loader was run as a program.
 */
uintptr_t ts_early_function(const char *name);

#endif
