/* SPDX-License-Identifier: MIT */
/* The places that buffers of the hand-over pool have in this process. */
#include "hooks/cuda/gpu/places.h"

#include "shim/sys.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The program's memory that may be pinned at most: one part in... */
#define MEMORY_PART 16u

/* So many unused buffers, before the first copy from one was seen, say that none is. */
#define UNPROVEN_MAX 4u

struct ts_place ts_places[TS_PLACES];
_Atomic int ts_places_stopped;
_Atomic uintptr_t ts_places_low, ts_places_high;

static _Atomic uint64_t all_bytes;
static _Atomic int proven; /* a copy from a place has come by */
static _Atomic uint32_t unproven;

void ts_places_stop(void)
{
	ts_write_release(&ts_places_stopped, 1);
}

/* ---- mapping ---------------------------------------------------------------------------- */

static uint64_t bytes_limit(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size / MEMORY_PART : 0;
}

/* Whoever looks a copy's address up sees the bounds before the address is known. */
static void widen(uintptr_t begin, uintptr_t end)
{
	uintptr_t low = ts_load_relaxed(&ts_places_low);
	uintptr_t high = ts_load_relaxed(&ts_places_high);
	while ((low == 0 || begin < low) && !ts_cas(&ts_places_low, &low, begin))
		;
	while (end > high && !ts_cas(&ts_places_high, &high, end))
		;
}

static int map(struct ts_place *place, int fd, uint64_t bytes)
{
	struct stat status;
	int r = ts_sys_fstat(fd, &status);
	if (r < 0)
		return r;
	if ((uint64_t)status.st_size < bytes)
		return -EINVAL;
	void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (start == MAP_FAILED)
		return -errno;
	place->bytes = bytes;
	place->populated = 0;
	place->device = -1;
	ts_write_relaxed(&place->taken, 0);
	ts_write_relaxed(&place->copies, 0);
	ts_write_relaxed(&place->pending, 0);
	ts_write_relaxed(&place->doubt, 0);
	place->watched = false;
	ts_place_unname(place);
	/* Pairs with the load in ts_place_find(): how long it is before where. */
	ts_write_release(&place->begin, (uintptr_t)start);
	widen((uintptr_t)start, (uintptr_t)start + bytes);
	return 0;
}

static int make(int fd, uint64_t bytes)
{
	for (unsigned i = 0; i < TS_PLACES; i++) {
		int unused = TS_PLACE_FREE;
		if (!ts_cas(&ts_places[i].state, &unused, TS_PLACE_MAKING))
			continue;
		int r = map(&ts_places[i], fd, bytes);
		/* Pairs with the service's look: the mapping first. */
		ts_write_release(&ts_places[i].state, r < 0 ? TS_PLACE_FREE : TS_PLACE_WANTED);
		return r < 0 ? r : (int)i;
	}
	return -ENOSPC;
}

int ts_place_make(int fd, uint64_t bytes)
{
	int r = -ENOSPC;
	if (ts_add_relaxed(&all_bytes, bytes) + bytes <= bytes_limit())
		r = make(fd, bytes);
	if (r < 0)
		ts_sub_relaxed(&all_bytes, bytes);
	return r;
}

void ts_place_unmap(struct ts_place *place)
{
	void *start = (void *)ts_load_relaxed(&place->begin);
	ts_write_relaxed(&place->begin, 0);
	(void)munmap(start, place->bytes);
	ts_sub_relaxed(&all_bytes, place->bytes);
	ts_write_release(&place->state, TS_PLACE_FREE);
}

bool ts_place_is_wanted(void)
{
	if (ts_load_relaxed(&ts_places_high) == 0 || ts_load_relaxed(&ts_places_stopped))
		return false;
	for (unsigned i = 0; i < TS_PLACES; i++)
		if (ts_load_relaxed(&ts_places[i].state) == TS_PLACE_WANTED)
			return true;
	return false;
}

/* ---- looking ---------------------------------------------------------------------------- */

struct ts_place *ts_place_find(ts_cu_pointer address, size_t bytes)
{
	if (TS_LIKELY(!ts_place_near(address, bytes)))
		return NULL;
	for (unsigned i = 0; i < TS_PLACES; i++) {
		uintptr_t begin = ts_load_acquire(&ts_places[i].begin);
		if (begin != 0 && address < begin + ts_places[i].bytes &&
			address + bytes > begin)
			return &ts_places[i];
	}
	return NULL;
}

void ts_place_unname(struct ts_place *place)
{
	ts_write_relaxed(&place->named, 0);
	/* Whoever looks reads the name between two looks at this. */
	ts_add_relaxed(&place->naming, 1);
}

/* ---- use -------------------------------------------------------------------------------- */

void ts_place_prove(void)
{
	ts_write_relaxed(&proven, 1);
}

void ts_place_doubt(ts_cu_pointer address, size_t bytes)
{
	struct ts_place *place = ts_place_find(address, bytes);
	if (place)
		ts_write_relaxed(&place->doubt, 1);
}

/*
 * Copies by ways that we do not see would leave no trace.  So nothing is believed of a place
 * without copies until one was seen somewhere: an unused batch looks the same.
 */
bool ts_place_is_believed(struct ts_place *place)
{
	if (ts_load_relaxed(&place->copies) != 0 || ts_load_relaxed(&proven))
		return true;
	if (ts_add_relaxed(&unproven, 1) + 1 >= UNPROVEN_MAX)
		ts_places_stop();
	return false;
}
