/* SPDX-License-Identifier: MIT */
/* Where copies to a GPU begin to be looked at. */
#ifndef TS_HOOKS_CUDA_REACH_START_H
#define TS_HOOKS_CUDA_REACH_START_H

/** From our constructor: two stores where copies are shared, else nothing. */
void ts_cuda_begin(void);

/** At the end of the process, before it leaves the store. */
void ts_cuda_end(void);

#endif
