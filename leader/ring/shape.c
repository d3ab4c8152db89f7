/* SPDX-License-Identifier: MIT */
/* How a ring is cut, and when it may still grow. */
#include "leader/group/store_private.h"
#include "shim/sys.h"

#define MIB (UINT64_C(1) << 20)

/* A machine without room is asked again after this. */
#define GROWTH_PAUSE_NS UINT64_C(100000000)

/* One entry of 16 bytes for every KiB of the ring, so that ghosts outnumber the records. */
#define DIRECTORY_SHARE 64u
#define DIRECTORY_MIN   (1 * MIB)
#define DIRECTORY_MAX   (64 * MIB)

/* Fewer could not hold a writer, a reader and something to reclaim at the same time. */
#define SEGMENTS_MIN 4u

/* From here on larger segments serve better than more of them. */
#define SEGMENTS_MANY 256u

/*
 * A record fits in one segment, every member that produces owns one, and a reader that
 * stops costs one.  So: 16 MiB, which holds a picture of 4 million pixels; smaller while there
 * would be fewer than 32 segments, larger, for larger pictures, where there would be more than
 * 256, up to what a telephone's camera makes (64 MiB: 16 to 22 million pixels).
 */
static uint64_t segment_bytes_for(uint64_t ring)
{
	uint64_t bytes = 16 * MIB;

	if (ring < 64 * MIB)
		return 1 * MIB;
	while (bytes > 4 * MIB && ring / bytes < 32)
		bytes /= 2;
	while (bytes < 64 * MIB && ring / bytes >= SEGMENTS_MANY)
		bytes *= 2;
	return bytes;
}

void ts_limits_offsets(struct ts_shape *shape)
{
	uint64_t sets = (uint64_t)shape->set_count * TS_WAYS * sizeof(struct ts_entry);

	shape->members_at = TS_PAGE_BYTES;
	shape->segments_at = shape->members_at + TS_MEMBER_MAX * sizeof(struct ts_member);
	shape->directory_at = ts_align_up(
		shape->segments_at + shape->segment_count * sizeof(struct ts_segment),
		TS_PAGE_BYTES);
	shape->control_bytes = ts_align_up(shape->directory_at + sets, TS_PAGE_BYTES);
	shape->data_at = ts_align_up(shape->control_bytes,
		shape->segment_bytes < TS_HUGE_BYTES ? TS_PAGE_BYTES : TS_HUGE_BYTES);
	shape->total_bytes = shape->data_at + shape->segment_count * shape->segment_bytes;
}

int ts_limits_shape(uint64_t bytes, struct ts_shape *ret_shape)
{
	struct ts_shape shape = {.segment_bytes = segment_bytes_for(bytes)};
	uint64_t directory = ts_max_u64(bytes / DIRECTORY_SHARE, DIRECTORY_MIN);
	uint64_t sets = 1;

	directory = ts_min_u64(directory, DIRECTORY_MAX);
	while (sets * 2 * TS_WAYS * sizeof(struct ts_entry) <= directory)
		sets *= 2;
	shape.set_count = (uint32_t)sets;
	shape.segment_count = TS_SEGMENT_MAX;
	ts_limits_offsets(&shape);
	if (bytes < shape.data_at + SEGMENTS_MIN * shape.segment_bytes)
		return -ENOSPC;
	shape.segment_count = (uint32_t)ts_min_u64(
		(bytes - shape.data_at) / shape.segment_bytes, TS_SEGMENT_MAX);
	ts_limits_offsets(&shape);
	*ret_shape = shape;
	return 0;
}

bool ts_limits_may_grow(struct ts_store *store)
{
	uint64_t allocated = store->shape.data_at, now = ts_now_ns();

	/* Counted afresh: a counter would be wrong for ever after a crash between two steps. */
	for (uint32_t i = 0; i < store->shape.segment_count; i++) {
		if (ts_load_relaxed(&store->segments[i].allocated))
			allocated += store->shape.segment_bytes;
	}
	/* The usual case is a complete ring, and asking the machine takes dozens of files. */
	if (allocated == store->shape.total_bytes || now < ts_load_relaxed(&store->grow_at))
		return false;
	int fd = ts_member_ring_fd(store);
	if (fd < 0)
		return false;
	uint64_t limit = ts_limits_growth(ts_limits_machine(fd, allocated));
	bool may = allocated + store->shape.segment_bytes <= limit;
	if (!may)
		ts_write_relaxed(&store->grow_at, now + GROWTH_PAUSE_NS);
	return may;
}
