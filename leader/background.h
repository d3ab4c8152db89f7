/* SPDX-License-Identifier: MIT */
/* What processes of ours do first that a job has started (shim/helper.h). */
#ifndef TS_LEADER_BACKGROUND_H
#define TS_LEADER_BACKGROUND_H

/**
 * Have the signals of a new program, but for those that are errors of write(2) anyway; be in
 * nobody's session or directory, for it may outlive the job; run at most as urgently as the
 * host, less by @nice, and never in real time.  Ends the process where it cannot.
 */
void ts_background_enter(int nice);

#endif
