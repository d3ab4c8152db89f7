/* SPDX-License-Identifier: MIT */
/* One look at a group's ring, for an event log. */
#ifndef TS_LEADER_EVENTS_LOOK_H
#define TS_LEADER_EVENTS_LOOK_H

#include "leader/group/layout.h"

/** The ring at one time; @count of the members are filled in. */
struct ts_event_ring {
	uint64_t capacity, used; /* bytes of all segments, and of what they hold; 0: no ring */
	uint32_t count;
	struct {
		uint64_t job; /* ts_process_id() of the one it works for */
		int pid;
	} members[TS_MEMBER_MAX];
};

/**
 * Look at the ring of @group.  Nothing of it stays open or mapped, as memory of a ring that was
 * removed lives as long as somebody has it.  Without one that is ours all is zero.
 */
void ts_event_ring_look(
	const struct ts_scope *scope, const char *group, struct ts_event_ring *ret_ring);

#endif
