/* SPDX-License-Identifier: MIT */
/* The places that buffers of the hand-over pool have in this process, and what they hold. */
#include "hooks/cuda/places.h"

#include "shim/identity.h"
#include "shim/sys.h"
#include "shim/written.h"

#include <errno.h>
#include <string.h>
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

/* A copy's thread sees the bounds before the program knows the address. */
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
	/* A reader of the name looks at this before and after. */
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

/* ---- what they hold ---------------------------------------------------------------------- */

/* After so many names, is one in so many of those that were written to too much? */
#define EDITS_MIN  4u
#define EDITS_PART 16u

static _Atomic uint32_t names, edits;

static bool is_edited_too_often(void)
{
	uint32_t count = ts_load_relaxed(&edits);
	return count >= EDITS_MIN && count > ts_load_relaxed(&names) / EDITS_PART;
}

/* Of whole pages, as the mapping is. */
static uint64_t page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Let writes to @place be noticed from now on. */
static int protect(struct ts_place *place)
{
	void *begin = (void *)ts_load_relaxed(&place->begin);
	uint64_t bytes = ts_align_up(place->bytes, page_bytes());
	if (!place->watched) {
		int r = ts_written_watch(begin, bytes);
		if (r < 0)
			return r;
		place->watched = true;
		return ts_written_protect(begin, bytes);
	}
	if (ts_written_since(begin, bytes) == 0)
		return 0;
	ts_add_relaxed(&edits, 1);
	return ts_written_protect(begin, bytes);
}

int ts_known_name(struct ts_place *place, const void *name, bool guarded)
{
	uint64_t words[2];
	if (is_edited_too_often())
		return -EAGAIN;
	int r = guarded ? protect(place) : 0;
	if (r < 0)
		return r;
	ts_add_relaxed(&names, guarded);
	ts_write_relaxed(&place->guarded, guarded);
	memcpy(words, name, sizeof(words));
	ts_write_relaxed(&place->name[0], words[0]);
	ts_write_relaxed(&place->name[1], words[1]);
	ts_write_relaxed(&place->forks, ts_identity_forks());
	/* Pairs with the load in ts_known_of(). */
	ts_write_release(&place->named, 1);
	return 0;
}

/* Still the name that it had, and no child that could write to it. */
static bool is_named_so(const struct ts_known *known)
{
	const struct ts_place *place = known->place;
	return ts_load_acquire(&place->named) && !ts_load_relaxed(&place->doubt) &&
	       ts_load_relaxed(&place->naming) == known->naming &&
	       ts_identity_forks() == known->forks;
}

bool ts_known_of(ts_cu_pointer from, size_t bytes, struct ts_known *ret_known)
{
	struct ts_place *place = ts_place_find(from, bytes);
	if (!place)
		return false;
	uintptr_t begin = ts_load_relaxed(&place->begin);
	struct ts_known known = {.place = place,
		.from = from,
		.bytes = bytes,
		.offset = from - ts_load_relaxed(&place->begin),
		.naming = ts_load_acquire(&place->naming)};
	if (!ts_load_acquire(&place->named) || begin == 0 || from < begin ||
		bytes > place->bytes || from - begin > place->bytes - bytes)
		return false;
	known.name[0] = ts_load_relaxed(&place->name[0]);
	known.name[1] = ts_load_relaxed(&place->name[1]);
	known.forks = ts_load_relaxed(&place->forks);
	ts_fence_full(); /* all of it before looking whether it is the same name still */
	*ret_known = known;
	return is_named_so(ret_known);
}

bool ts_known_holds(const struct ts_known *known)
{
	uint64_t page = page_bytes();
	uintptr_t begin = known->from & ~(uintptr_t)(page - 1);
	uint64_t bytes = ts_align_up(known->from + known->bytes - begin, page);
	return ts_load_relaxed(&known->place->guarded) && is_named_so(known) &&
	       ts_written_since((const void *)begin, bytes) == 0 && is_named_so(known);
}

void ts_known_was_used(const struct ts_known *known)
{
	ts_add_relaxed(&known->place->copies, 1);
	ts_place_prove();
}
