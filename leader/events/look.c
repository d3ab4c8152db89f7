/* SPDX-License-Identifier: MIT */
/* One look at a group's ring, for an event log. */
#include "leader/events/look.h"

#include "leader/group/store_private.h"
#include "leader/group/words.h"

#include <string.h>
#include <sys/mman.h>

static void look_at(
	const struct ts_shape *shape, const char *control, struct ts_event_ring *ring)
{
	const struct ts_ring_header *header = (const struct ts_ring_header *)control;
	struct ts_member *members =
		(struct ts_member *)(uintptr_t)(control + shape->members_at);
	struct ts_segment *segments =
		(struct ts_segment *)(uintptr_t)(control + shape->segments_at);
	uint32_t high = ts_load_relaxed(&header->member_high);

	ring->capacity = shape->segment_count * shape->segment_bytes;
	ring->used = ts_segments_used(segments, shape->segment_count, shape->segment_bytes);
	for (uint32_t i = 0; i < high && i < TS_MEMBER_MAX; i++) {
		uint64_t word = ts_load_relaxed(&members[i].word);
		if (ts_member_state(word) != TS_MEMBER_LIVE)
			continue;
		ring->members[ring->count].pid = ts_member_pid(word);
		ring->members[ring->count++].job = ts_load_relaxed(&members[i].job);
	}
}

void ts_event_ring_look(
	const struct ts_scope *scope, const char *group, struct ts_event_ring *ret_ring)
{
	struct ts_object object = {.fd = -1};
	struct ts_shape shape;

	ret_ring->capacity = ret_ring->used = 0;
	ret_ring->count = 0;
	if (ts_object_path(object.path, sizeof(object.path), group, "ring") < 0 ||
		ts_object_open(&object) < 0)
		return;
	if (ts_ring_check(scope, &object, &shape) == 0) {
		/* All that is read here lies before the directory. */
		char *control = mmap(NULL, shape.directory_at, PROT_READ, MAP_SHARED,
			ts_load_relaxed(&object.fd), 0);
		if (control != MAP_FAILED) {
			look_at(&shape, control, ret_ring);
			(void)munmap(control, shape.directory_at);
		}
	}
	ts_object_close(&object);
}
