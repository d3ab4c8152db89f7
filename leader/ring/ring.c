/* SPDX-License-Identifier: MIT */
/* The ring as an object: its shape, making one, checking one that was found, mapping it. */
#include "leader/group/store_private.h"
#include "shim/sys.h"

#include <sys/mman.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

/* A machine without room is asked again after this. */
#define GROWTH_PAUSE_NS UINT64_C(100000000)

/*
 * One entry of 16 bytes for every KiB of the ring, so that ghosts outnumber the records.  From
 * 4 GiB on there are records enough in 64 MiB of them, as long as these are of 16 KiB and more:
 * whoever makes the ring has to have memory for all entries at once.
 */
#define DIRECTORY_SHARE      64u
#define DIRECTORY_MIN        (1 * MIB)
#define DIRECTORY_MANY       (64 * MIB)
#define DIRECTORY_MANY_SHARE 1024u

/* Fewer could not hold a writer, a reader and something to reclaim at the same time. */
#define SEGMENTS_MIN 4u

/* From here on larger segments serve better than more of them. */
#define SEGMENTS_MANY 256u

/* What the offset of a `where` reaches. */
#define SEGMENT_BYTES_MAX (256 * MIB)

/* ---- shape ---- */

/*
 * A record fits in one segment, every member that produces owns one, and a reader that
 * stops costs one.  So: 16 MiB, which holds a picture of 4 million pixels; smaller while there
 * would be fewer than 32 segments, larger, for larger pictures, where there would be more than
 * 256, up to what a telephone's camera makes (64 MiB: 16 to 22 million pixels).  Beyond that
 * whoever opens a segment would wait for its memory, so only rings of more than 256 GiB, for
 * which there are not segments enough, have larger ones.
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
	while (bytes < SEGMENT_BYTES_MAX && ring / bytes > TS_SEGMENT_MAX)
		bytes *= 2;
	return bytes;
}

/* Segments are mapped apart from what lies before them.  AArch64 has pages of 16 and 64 KiB,
 * too; all members of a ring run on one kernel. */
static uint64_t machine_page(void)
{
	long bytes = sysconf(_SC_PAGESIZE);

	return bytes > (long)TS_PAGE_BYTES ? (uint64_t)bytes : TS_PAGE_BYTES;
}

/* The offsets that follow from segment_bytes, segment_count and set_count. */
static void set_offsets(struct ts_shape *shape)
{
	uint64_t sets = (uint64_t)shape->set_count * TS_WAYS * sizeof(struct ts_entry);

	shape->members_at = TS_PAGE_BYTES;
	shape->segments_at = shape->members_at + TS_MEMBER_MAX * sizeof(struct ts_member);
	shape->directory_at = ts_align_up(
		shape->segments_at + shape->segment_count * sizeof(struct ts_segment),
		TS_PAGE_BYTES);
	shape->control_bytes = ts_align_up(shape->directory_at + sets, TS_PAGE_BYTES);
	shape->data_at = ts_align_up(shape->control_bytes,
		shape->segment_bytes < TS_HUGE_BYTES ? machine_page() : TS_HUGE_BYTES);
	shape->total_bytes = shape->data_at + shape->segment_count * shape->segment_bytes;
}

int ts_limits_shape(uint64_t bytes, struct ts_shape *ret_shape)
{
	struct ts_shape shape = {.segment_bytes = segment_bytes_for(bytes)};
	uint64_t directory = ts_max_u64(bytes / DIRECTORY_SHARE, DIRECTORY_MIN);
	uint64_t sets = 1;

	if (directory > DIRECTORY_MANY)
		directory = ts_max_u64(bytes / DIRECTORY_MANY_SHARE, DIRECTORY_MANY);
	while (sets * 2 * TS_WAYS * sizeof(struct ts_entry) <= directory)
		sets *= 2;
	shape.set_count = (uint32_t)sets;
	shape.segment_count = TS_SEGMENT_MAX;
	set_offsets(&shape);
	if (bytes < shape.data_at + SEGMENTS_MIN * shape.segment_bytes)
		return -ENOSPC;
	shape.segment_count = (uint32_t)ts_min_u64(
		(bytes - shape.data_at) / shape.segment_bytes, TS_SEGMENT_MAX);
	set_offsets(&shape);
	*ret_shape = shape;
	return 0;
}

/* ---- the object ---- */

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
		shape.segment_bytes > SEGMENT_BYTES_MAX || shape.segment_count == 0 ||
		shape.segment_count > TS_SEGMENT_MAX || !is_power(shape.set_count) ||
		shape.set_count > (1u << 23) || header->member_count != TS_MEMBER_MAX)
		return -EBADMSG;
	set_offsets(&shape);
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

/* ---- growing ---- */

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
