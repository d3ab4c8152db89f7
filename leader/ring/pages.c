/* SPDX-License-Identifier: MIT */
/* The memory behind segments: mapping it, making it exist, making it writable for a while. */
#include "leader/group/store_private.h"
#include "shim/sys.h"

#include <errno.h>
#include <sys/mman.h>

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

static unsigned char *segment_at(const struct ts_store *store, uint32_t segment)
{
	return (unsigned char *)store->data + segment * store->shape.segment_bytes;
}

/* ---- mapping ---- */

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

const unsigned char *ts_pages_map(int fd, const struct ts_shape *shape)
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

/* ---- memory ---- */

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

int ts_pages_open(struct ts_store *store, uint32_t segment, unsigned char **ret_map)
{
	uint64_t bytes = store->shape.segment_bytes;
	unsigned char *map = segment_at(store, segment);
	uint64_t seen = UINT64_C(1) << segment % 64;

	if (mprotect(map, bytes, PROT_READ | PROT_WRITE) < 0)
		return -ENOMEM;
	make_huge(store, segment);
	/* All pages in one go, the first time: cheaper than a fault for each.  Kernels before
	 * 5.14 say EINVAL and fault. */
	if (!(ts_load_relaxed(&store->populated[segment / 64]) & seen)) {
		(void)madvise(map, bytes, MADV_POPULATE_WRITE);
		ts_or_relaxed(&store->populated[segment / 64], seen);
	}
	*ret_map = map;
	return 0;
}

void ts_pages_close(const struct ts_store *store, unsigned char *map)
{
	(void)mprotect(map, store->shape.segment_bytes, PROT_READ);
}

void ts_pages_forget(struct ts_store *store)
{
	for (uint32_t i = 0; i < TS_ARRAY_SIZE(store->populated); i++)
		ts_write_relaxed(&store->populated[i], 0);
}
