/* SPDX-License-Identifier: MIT */
/*
 * Named places between two steps of the protocol, where the test build can kill or stop the
 * process: TSSHIM_TEST_KILL=<name>[:<count>] raises SIGKILL when <name> is reached for the
 * <count>-th time, TSSHIM_TEST_STOP=... SIGSTOP.  Nothing at all in the normal build.
 */
#ifndef TS_LEADER_OBJECT_KILLPOINT_H
#define TS_LEADER_OBJECT_KILLPOINT_H

/* clang-format would not come to rest on these lists. */
/* clang-format off */

/* Every place, in the order of a record's life; the kill matrix of tests/ runs through it. */
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
	X(segment_tied) \
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
	X(detach_unlink) \
	X(detach_looked)

/* Those of who removes what another group has left, leader/group/left.h;
 * tests/unit/leader/test_left.c. */
#define TS_LEFT_KILLPOINTS(X) \
	X(left_asked) \
	X(left_locked) \
	X(left_dependent) \
	X(left_unlink)

/* Those of a copy of a file, leader/files/stage.h; tests/stress/stage_kills.c. */
#define TS_STAGE_KILLPOINTS(X) \
	X(stage_looked) \
	X(stage_made) \
	X(stage_locked) \
	X(stage_admitted) \
	X(stage_allocated) \
	X(stage_asked) \
	X(stage_filled) \
	X(stage_finished) \
	X(stage_slot) \
	X(stage_row) \
	X(stage_noted) \
	X(stage_renamed)

/* Those of a large one, leader/files/stager.h, before the steps from stage_finished on. */
#define TS_STAGER_KILLPOINTS(X) \
	X(stager_admitted) \
	X(stager_sized) \
	X(stager_started) \
	X(stager_joined) \
	X(stager_allocated) \
	X(stager_chunk) \
	X(stager_marked) \
	X(stager_filled)

/* Those of a path that the group gets to know, leader/files/names.h; tests/e2e/known.py. */
#define TS_NAME_KILLPOINTS(X) \
	X(name_taken) \
	X(name_hashed)

/* Those of a listing, leader/files/listing.h; tests/e2e/listings.py. */
#define TS_LISTING_KILLPOINTS(X) \
	X(listing_locked) \
	X(listing_piece) \
	X(listing_filled) \
	X(listing_admitted) \
	X(listing_sized) \
	X(listing_headed) \
	X(listing_written) \
	X(listing_finished) \
	X(listing_renamed)

/* Those of an event log, shim/tsrun/log_recorder.h; tests/unit/events/test_file.c. */
#define TS_EVENTS_KILLPOINTS(X) \
	X(events_written) \
	X(events_rotated)

/* Those of a note, leader/journal/journal.h; tests/unit/leader/test_journal.c. */
#define TS_JOURNAL_KILLPOINTS(X) \
	X(journal_turn) \
	X(journal_tag) \
	X(journal_made)

/* Those of a slot of a GPU, leader/slots/device.h; tests/stress/gpu_kills.c. */
#define TS_DEVICE_KILLPOINTS(X) \
	X(device_row) \
	X(device_making) \
	X(device_renewed) \
	X(device_live) \
	X(device_looked) \
	X(device_pinned) \
	X(device_checked) \
	X(device_released) \
	X(device_taken) \
	X(device_put_back) \
	X(device_keyed) \
	X(device_writing) \
	X(device_written) \
	X(device_ready) \
	X(device_abandoned) \
	X(device_sleep) \
	X(device_recovered) \
	X(device_retired) \
	X(device_closing) \
	X(device_emptied) \
	X(device_announced) \
	X(device_unmapped)

/* Those of a request to the helper for other nodes, leader/mail/mail.h; tests/unit/mail. */
#define TS_MAIL_KILLPOINTS(X) \
	X(mail_owned) \
	X(mail_posted) \
	X(mail_rung) \
	X(mail_left) \
	X(mail_answered) \
	X(mail_freed)

/* Those of what is said of a loader, leader/group/loaders.h; tests/unit/leader/test_loaders.c. */
#define TS_LOADER_KILLPOINTS(X) \
	X(loader_claimed) \
	X(loader_written) \
	X(loader_detail)

/* Those of one copy to a GPU, hooks/cuda/sharing.c; tests/e2e/copies_jobs.py. */
#define TS_COPY_KILLPOINTS(X) \
	X(copy_leased) \
	X(copy_served) \
	X(copy_claimed) \
	X(copy_done) \
	X(copy_teed) \
	X(copy_waits)

/* Those of the helper for other nodes, leader/peer/transfer.h; tests/e2e/peer_helper.py. */
#define TS_PEER_KILLPOINTS(X) \
	X(peer_entered) \
	X(peer_taken) \
	X(peer_found) \
	X(peer_asked) \
	X(peer_opened) \
	X(peer_written) \
	X(peer_answers) \
	X(peer_answered) \
	X(peer_sealed) \
	X(peer_stored) \
	X(peer_returned) \
	X(room_removed)

/* Those of a path that another node knows, leader/peer/paths.h; tests/e2e/cluster_kills.py. */
#define TS_BRING_KILLPOINTS(X) \
	X(bring_asked) \
	X(bring_opened) \
	X(bring_begun) \
	X(bring_made) \
	X(bring_ends)

/* clang-format on */

#ifdef TS_TEST_BUILD
void ts_killpoint_reached(const char *name);
#define TS_KILLPOINT(name) ts_killpoint_reached(#name)
#else
#define TS_KILLPOINT(name) ((void)0)
#endif

#endif
