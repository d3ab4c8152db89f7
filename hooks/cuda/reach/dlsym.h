/* SPDX-License-Identifier: MIT */
/*
 * dlsym, which we stand in front of because programs find the CUDA driver through it.
 *
 * The C library takes the object that asks from the return address: for RTLD_NEXT and
 * RTLD_DEFAULT an ordinary wrapper would make every library of the process search behind us
 * instead of behind itself.  So the exported function is a few instructions that end in a jump
 * to the next definition (another preload's, else the C library's): always for these two, and
 * for everything unless copies to a GPU are shared.
 */
#ifndef TS_HOOKS_CUDA_REACH_DLSYM_H
#define TS_HOOKS_CUDA_REACH_DLSYM_H

#include "shim/base.h"

/**
 * From here on look at what is found through handles.  Called once, by our constructor, when
 * sharing of copies is on; lookups before that are none of ours.
 */
void ts_dlsym_begin(void);

#endif
