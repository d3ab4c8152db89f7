/* SPDX-License-Identifier: MIT */
/* The ring as an object: its shape, making, checking and mapping it, the memory of segments. */
#include "leader/group/store_private.h"
#include "shim/sys.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

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
#define SEGMENTS_MANY 1024u

/* What the offset of a `where` reaches. */
#define SEGMENT_BYTES_MAX (256 * MIB)

/* ---- shape ------------------------------------------------------------------------------ */

/*
 * Most records fit in one segment, every member that produces owns one, and a reader that
 * stops costs one.  So: 16 MiB, which holds a picture of 4 million pixels; smaller while there
 * would be fewer than 32 segments, larger, for larger pictures, where there would be 1,024: 32
 * jobs with eight workers each need 256, and twice as many for the ring to be full of records.
 * They grow up to what a telephone's camera makes (64 MiB: 16 to 22 million pixels).  Beyond
 * that whoever opens a segment would wait for its memory, so only rings of more than 256 GiB,
 * for which there are not segments enough, have larger ones.
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

/* ---- mapping ---------------------------------------------------------------------------- */

/* @bytes of address space, at a multiple of @align (a power of two), or NULL. */
static unsigned char *reserve_aligned(uint64_t bytes, uint64_t align)
{
	unsigned char *all = mmap(NULL, bytes + align, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (all == MAP_FAILED)
		return NULL;
	unsigned char *start =
		(unsigned char *)(uintptr_t)ts_align_up((uint64_t)(uintptr_t)all, align);
	if (start > all)
		munmap(all, (size_t)(start - all));
	munmap(start + bytes, (size_t)(all + align - start));
	return start;
}

/* Map all segments of the ring @fd, read-only, where huge pages fit. NULL: no address space.
 */
static const unsigned char *map_segments(int fd, const struct ts_shape *shape)
{
	uint64_t bytes = shape->total_bytes - shape->data_at;
	/* Huge pages need the address and the place in the file to agree in their low bits. */
	unsigned char *start = reserve_aligned(bytes, TS_HUGE_BYTES);

	if (!start)
		return NULL;
	void *data = mmap(
		start, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, (off_t)shape->data_at);
	if (data == MAP_FAILED) {
		munmap(start, bytes);
		return NULL;
	}
	/* The ring is no part of a crashed host's story, and large. */
	madvise(data, bytes, MADV_DONTDUMP);
	return data;
}

/* ---- the object ------------------------------------------------------------------------- */

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
	header->why = store->why;
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
	store->data = map_segments(fd, shape);
	if (!store->data) {
		ts_ring_unmap(store);
		return -ENOMEM;
	}
	madvise(control, shape->data_at, MADV_DONTDUMP);
	return 0;
}

int ts_ring_make(struct ts_store *store, uint64_t wanted)
{
	uint64_t limit = ts_limits_machine(ts_load_relaxed(&store->ledger_object.fd), 0);
	uint64_t bytes = ts_limits_ring(wanted, ts_limits_memory(), &store->why);
	int r = ts_limits_shape(ts_min_u64(bytes, limit), &store->shape);

	if (limit < bytes)
		store->why |= TS_RING_CUT;

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

static unsigned char *segment_at(const struct ts_store *store, uint32_t segment)
{
	return (unsigned char *)store->data + segment * store->shape.segment_bytes;
}

/* ---- memory ----------------------------------------------------------------------------- */

/* Not in older headers. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

/*
 * CPU time that an opening costs for every piece of small pages in a ring that all have mapped:
 * two changes of protection of 40 us (Zen 3, eight jobs on two cores).  A huge page costs 0.5
 * ms where one is at hand, 1 ms on a busy machine, and 10 ms where the kernel has to move
 * memory for it or the hypervisor to find some.  The next is made when openings have cost
 * HUGE_PART times as much: where they are dear, and pay only after a hundred openings of their
 * segment, a short job loses no more than that part; where they are not, a ring of 256 MiB
 * has all of its own after a few hundred openings, a few thousand samples.
 */
#define SMALL_PIECE_NS UINT64_C(80000)
#define HUGE_PART      4u

/* Openings that go by after a piece that somebody held. */
#define HELD_PAUSE 16u

bool ts_pages_exist(const struct ts_store *store, uint32_t segment)
{
	return ts_load_acquire(&store->segments[segment].allocated) != 0;
}

int ts_pages_allocate(struct ts_store *store, int fd, uint32_t segment)
{
	uint64_t bytes = store->shape.segment_bytes;

	if (ts_pages_exist(store, segment))
		return 0;
	int r = ts_sys_fallocate(fd, store->shape.data_at + segment * bytes, bytes);
	if (r < 0)
		return r;
	ts_write_release(&store->segments[segment].allocated, 1); /* R4, pairs with A4 */
	ts_add_relaxed(&store->header->allocated_bytes, bytes);
	TS_KILLPOINT(segment_allocated);
	return 0;
}

/* Error of madvise(2) on a piece of an OPEN segment, 0 if it is a huge page now. */
static int collapse(const struct ts_store *store, uint32_t segment, uint32_t piece)
{
	void *at = segment_at(store, segment) + piece * TS_HUGE_BYTES;
	int saved = errno;
	int error = madvise(at, TS_HUGE_BYTES, MADV_COLLAPSE) < 0 ? errno : 0;

	errno = saved;
	return error;
}

/* Whether this opening is one of those that go by; other threads may count it down, too. */
static bool is_pause(struct ts_store *store)
{
	uint32_t pause = ts_load_relaxed(&store->huge_pause);

	return pause > 0 && (ts_cas(&store->huge_pause, &pause, pause - 1) || pause > 0);
}

/*
 * Exchange the small pages of an OPEN segment for huge ones, piece by piece: for every process
 * one fault then takes the place of 512 / 16, and changing the protection costs next to
 * nothing.  Takes 0.5 ms a piece where huge pages are at hand.  MADV_COLLAPSE works whatever
 * is set for transparent huge pages; a kernel without it says EINVAL.
 */
static void make_huge(struct ts_store *store, uint32_t segment)
{
	struct ts_segment *words = &store->segments[segment];
	uint32_t pieces = (uint32_t)(store->shape.segment_bytes / TS_HUGE_BYTES);
	uint32_t done = ts_load_relaxed(&words->huge);

	if (done >= pieces || ts_load_relaxed(&store->no_huge) || is_pause(store))
		return;
	/* Never 0, for one is missing at least; the analyzer cannot tell from the product. */
	uint64_t piece_ns = SMALL_PIECE_NS / HUGE_PART;
	uint64_t opening_ns = ts_max_u64((pieces - done) * piece_ns, piece_ns);
	uint64_t start = ts_thread_cpu_ns(), spent_ns = 0;
	int error = 0;
	while (done < pieces && !error && spent_ns < opening_ns) {
		error = collapse(store, segment, done);
		done += !error;
		spent_ns = ts_thread_cpu_ns() - start;
	}
	uint32_t pause = (uint32_t)(spent_ns / opening_ns);
	/* EAGAIN, EBUSY: somebody holds a page at this moment.  Others: not here, or no more.
	 */
	if (error && error != EAGAIN && error != EBUSY)
		ts_write_relaxed(&store->no_huge, 1);
	ts_write_relaxed(&store->huge_pause, error && pause < HELD_PAUSE ? HELD_PAUSE : pause);
	ts_write_relaxed(&words->huge, done);
}

int ts_pages_open(
	struct ts_store *store, uint32_t segment, uint32_t count, unsigned char **ret_map)
{
	uint64_t bytes = store->shape.segment_bytes;
	unsigned char *map = segment_at(store, segment);

	if (mprotect(map, count * bytes, PROT_READ | PROT_WRITE) < 0)
		return -ENOMEM;
	*ret_map = map;
	/* The first one of a process may be the only one: a worker that lives for an epoch of a
	 * small data set fills a part of it, and has a fault for each page of that. */
	if (count == 1 && ts_load_relaxed(&store->openings) <= 1)
		return 0;
	for (uint32_t i = segment; i < segment + count; i++) {
		uint64_t seen = UINT64_C(1) << i % 64;
		make_huge(store, i);
		/* All pages in one go, the first time: cheaper than a fault for each.  Kernels
		 * before 5.14 say EINVAL and fault. */
		if (!(ts_load_relaxed(&store->populated[i / 64]) & seen)) {
			(void)madvise(segment_at(store, i), bytes, MADV_POPULATE_WRITE);
			ts_or_relaxed(&store->populated[i / 64], seen);
		}
	}
	return 0;
}

void ts_pages_close(const struct ts_store *store, unsigned char *map, uint32_t count)
{
	(void)mprotect(map, count * store->shape.segment_bytes, PROT_READ);
}

void ts_pages_forget(struct ts_store *store)
{
	for (uint32_t i = 0; i < TS_ARRAY_SIZE(store->populated); i++)
		ts_write_relaxed(&store->populated[i], 0);
}
