/* SPDX-License-Identifier: MIT */
/* What places hold, where that is known. */
#include "hooks/cuda/gpu/known.h"

#include "hooks/cuda/gpu/places.h"
#include "shim/identity.h"
#include "shim/written.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* After so many names, is one in so many of those that were written to too much? */
#define EDITS_MIN  4u
#define EDITS_PART 16u

static _Atomic uint32_t names, edits;

/* ---- naming ----------------------------------------------------------------------------- */

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

/* ---- copies ----------------------------------------------------------------------------- */

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
