/* SPDX-License-Identifier: MIT */
/*
 * Named places between two steps of the protocol, where the test build can kill or stop the
 * process: TSSHIM_TEST_KILL=<name>[:<count>] raises SIGKILL when <name> is reached for the
 * <count>-th time, TSSHIM_TEST_STOP=... SIGSTOP.  Nothing at all in the normal build.
 */
#ifndef TS_LEADER_KILLPOINT_H
#define TS_LEADER_KILLPOINT_H

/* Every place, in the order of a record's life; the kill matrix of tests/ runs through it. */
/* clang-format would not come to rest on this list. */
/* clang-format off */
#define TS_KILLPOINTS(X) \
	X(attach_locked) \
	X(attach_made) \
	X(attach_linked) \
	X(join_lock) \
	X(join_word) \
	X(join_done) \
	X(take_ghost) \
	X(take_claim) \
	X(wait_sleep) \
	X(wait_takeover) \
	X(segment_drain) \
	X(segment_scan) \
	X(segment_freed) \
	X(segment_taken) \
	X(segment_open) \
	X(segment_allocated) \
	X(segment_mapped) \
	X(segment_seal) \
	X(reserve_pin) \
	X(reserve_header) \
	X(publish_bytes) \
	X(publish_where) \
	X(publish_ready) \
	X(abandon_word) \
	X(lease_pin) \
	X(lease_checked) \
	X(lease_release) \
	X(clean_word) \
	X(clean_segments) \
	X(clean_leases) \
	X(clean_freed) \
	X(detach_word) \
	X(detach_unlink)
/* clang-format on */

/* Those of a copy of a file, leader/stage.h; tests/stress/stage_kills.c runs through them. */
/* clang-format off */
#define TS_STAGE_KILLPOINTS(X) \
	X(stage_looked) \
	X(stage_made) \
	X(stage_locked) \
	X(stage_admitted) \
	X(stage_allocated) \
	X(stage_filled) \
	X(stage_finished) \
	X(stage_slot) \
	X(stage_row) \
	X(stage_noted) \
	X(stage_renamed)
/* clang-format on */

#ifdef TS_TEST_BUILD
void ts_killpoint_reached(const char *name);
#define TS_KILLPOINT(name) ts_killpoint_reached(#name)
#else
#define TS_KILLPOINT(name) ((void)0)
#endif

#endif
