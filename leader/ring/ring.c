/* SPDX-License-Identifier: MIT */
/* The ring as an object: making one, checking one that was found, mapping it. */
#include "leader/group/store_private.h"
#include "leader/group/words.h"

#include <sys/mman.h>

/* ---- ring ---- */

static void fill_ring(void *context, void *start)
{
	const struct ts_store *store = context;
	struct ts_ring_header *header = start;

	header->total_bytes = store->shape.total_bytes;
	header->members_at = store->shape.members_at;
	header->segments_at = store->shape.segments_at;
	header->directory_at = store->shape.directory_at;
	header->data_at = store->shape.data_at;
	header->segment_bytes = store->shape.segment_bytes;
	header->member_count = TS_MEMBER_MAX;
	header->segment_count = store->shape.segment_count;
	header->set_count = store->shape.set_count;
	ts_object_head_fill(header, TS_RING_MAGIC, TS_ABI, &store->scope,
		offsetof(struct ts_ring_header, check));
}

static bool is_power(uint64_t value)
{
	return value != 0 && (value & (value - 1)) == 0;
}

/* Everything the header says must follow from three sizes, which must be within bounds. */
static int check_shape(const struct ts_ring_header *header, struct ts_shape *ret_shape)
{
	struct ts_shape shape = {.segment_bytes = header->segment_bytes,
		.segment_count = header->segment_count,
		.set_count = header->set_count};

	if (!is_power(shape.segment_bytes) || shape.segment_bytes < (1u << 20) ||
		shape.segment_bytes > (1u << 26) || shape.segment_count == 0 ||
		shape.segment_count > TS_SEGMENT_MAX || !is_power(shape.set_count) ||
		shape.set_count > (1u << 20) || header->member_count != TS_MEMBER_MAX)
		return -EBADMSG;
	ts_limits_offsets(&shape);
	if (header->members_at != shape.members_at ||
		header->segments_at != shape.segments_at ||
		header->directory_at != shape.directory_at ||
		header->data_at != shape.data_at || header->total_bytes != shape.total_bytes)
		return -EBADMSG;
	*ret_shape = shape;
	return 0;
}

int ts_ring_check(
	const struct ts_scope *scope, struct ts_object *ring, struct ts_shape *ret_shape)
{
	struct ts_ring_header header;
	struct ts_shape shape;
	int r = ts_object_read_start(ts_load_relaxed(&ring->fd), &header, sizeof(header));

	if (r == 0)
		r = ts_object_head_check(
			&header, TS_RING_MAGIC, TS_ABI, offsetof(struct ts_ring_header, check));
	if (r == 0)
		r = ts_scope_check(scope, &header.head);
	if (r == 0)
		r = check_shape(&header, &shape);
	if (r != 0)
		return r;
	if (ring->bytes != shape.total_bytes)
		return -EBADMSG;
	if (shape.total_bytes > ts_limits_address_space())
		return -ENOSPC;
	*ret_shape = shape;
	return 0;
}

void ts_ring_unmap(struct ts_store *store)
{
	if (store->header)
		munmap(store->header, store->shape.data_at);
	if (store->data)
		munmap((void *)store->data, store->shape.total_bytes - store->shape.data_at);
	store->header = NULL;
	store->data = NULL;
}

int ts_ring_map(struct ts_store *store)
{
	const struct ts_shape *shape = &store->shape;
	int fd = ts_load_relaxed(&store->ring.fd);
	char *control = mmap(NULL, shape->data_at, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (control == MAP_FAILED)
		return -ENOMEM;
	store->header = (struct ts_ring_header *)control;
	store->members = (struct ts_member *)(control + shape->members_at);
	store->segments = (struct ts_segment *)(control + shape->segments_at);
	store->entries = (struct ts_entry *)(control + shape->directory_at);
	store->data = ts_pages_map(fd, shape);
	if (!store->data) {
		ts_ring_unmap(store);
		return -ENOMEM;
	}
	madvise(control, shape->data_at, MADV_DONTDUMP);
	return 0;
}

int ts_ring_make(struct ts_store *store, uint64_t wanted)
{
	uint64_t limit = ts_limits_machine(ts_load_relaxed(&store->book.fd), 0);
	int r = ts_limits_shape(ts_min_u64(wanted, limit), &store->shape);

	if (r == 0)
		r = ts_object_make(&store->ring, store->shape.total_bytes,
			store->shape.control_bytes, fill_ring, store);
	if (r < 0)
		return r;
	r = ts_ring_map(store);
	if (r < 0)
		ts_object_close(&store->ring);
	return r;
}
