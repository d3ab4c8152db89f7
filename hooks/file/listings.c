/* SPDX-License-Identifier: MIT */
/* Listings at the border to the program: the streams that are ours, and reading them. */
#include "hooks/file/listings.h"

#include "hooks/file/known.h"
#include "hooks/file/staged_root.h"
#include "leader/files/listing.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/rights.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* Streams open at once that are noted, and where one of them may stand.  The next one is read
 * as without us. */
#define READERS 64u
#define PROBES  8u

/* How long a thread sleeps before it looks again whether another one still starts. */
#define NAP_NS UINT64_C(10000000)

enum state { FRESH, STARTING, SERVED, REAL };

struct reader {
	DIR *_Atomic stream; /* NULL: free; TAKEN: being noted or forgotten */
	_Atomic uint32_t state;
	_Atomic uint32_t starter; /* ts_identity_serial() of who made it STARTING */
	uint32_t serial;          /* of who opened it */
	int fd;
	bool is_given;
	struct stat stat; /* since it was opened */
	struct ts_stage_listing listing;
	_Atomic uint64_t at; /* of the next entry */
	_Atomic long place;  /* behind the last one, as telldir(3) tells it */
};

static_assert(sizeof(((struct dirent64 *)0)->d_ino) == 8 &&
		      offsetof(struct dirent64, d_reclen) == 16 &&
		      offsetof(struct dirent64, d_type) == 18,
	"the kernel's entries are the C library's");

_Atomic uint32_t ts_listings_open;

static struct reader readers[READERS];

/* The address of something that no stream is. */
#define TAKEN ((DIR *)(void *)readers)

/* ---- the table -------------------------------------------------------------------------- */

static struct reader *place_of(const DIR *stream, uint32_t probe)
{
	/* Streams are far apart and aligned. */
	uint64_t hash = ((uintptr_t)stream >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 40;
	return &readers[(hash + probe) % READERS];
}

static struct reader *find(const DIR *stream)
{
	for (uint32_t i = 0; i < PROBES; i++) {
		struct reader *reader = place_of(stream, i);
		if (ts_load_acquire(&reader->stream) == stream)
			return reader;
	}
	return NULL;
}

static struct reader *take(const DIR *stream)
{
	for (uint32_t i = 0; i < PROBES; i++) {
		struct reader *reader = place_of(stream, i);
		DIR *none = NULL;
		if (ts_cas(&reader->stream, &none, TAKEN))
			return reader;
	}
	return NULL;
}

static void forget(DIR *stream)
{
	/* closedir(NULL) is an error and no more; a free place has that address, too. */
	struct reader *reader = stream ? find(stream) : NULL;
	if (!reader || !ts_cas(&reader->stream, &stream, TAKEN))
		return;
	ts_stage_listing_finish(&reader->listing);
	ts_write_release(&reader->stream, NULL);
	ts_sub_relaxed(&ts_listings_open, 1);
}

/* ---- opening ---------------------------------------------------------------------------- */

/*
 * opendir(3) has just asked for the attributes, so what the kernel knows of them is as fresh as
 * that; the storage need not be asked again.
 */
static bool is_ours(int fd, struct stat *ret_stat)
{
	char *path TS_SCRATCH = ts_scratch();
	return ts_sys_look(fd, AT_STATX_DONT_SYNC, ret_stat) == 0 &&
	       S_ISDIR(ret_stat->st_mode) && ts_staged_root_has_device(fd, ret_stat->st_dev) &&
	       !ts_staged_root_is_young(ret_stat) && ts_staged_root_path(fd, path);
}

static void note(DIR *stream, int fd, bool is_given, const struct stat *stat)
{
	struct reader *reader = take(stream);
	if (!reader)
		return;
	reader->serial = ts_identity_serial();
	reader->fd = fd;
	reader->is_given = is_given;
	reader->stat = *stat;
	ts_write_relaxed(&reader->state, FRESH);
	ts_write_relaxed(&reader->at, 0);
	ts_write_relaxed(&reader->place, 0);
	ts_add_relaxed(&ts_listings_open, 1);
	ts_write_release(&reader->stream, stream); /* pairs with find() */
}

void ts_listings_opened(DIR *stream, bool is_given)
{
	int saved = errno;
	struct stat st;
	if (!stream || ts_identity_check() == TS_VFORK_CHILD)
		return;
	if (ts_load_relaxed(&ts_listings_open) > 0)
		forget(stream);
	int fd = dirfd(stream);
	if (is_ours(fd, &st))
		note(stream, fd, is_given, &st);
	errno = saved;
}

/* ---- getting the listing ---------------------------------------------------------------- */

static bool get(struct reader *reader)
{
	char *path TS_SCRATCH = ts_scratch();
	struct ts_stage_directory directory = {
		.fd = reader->fd,
		.stat = &reader->stat,
		.path = path,
		.rights = ts_rights(),
		.seconds = ts_load_relaxed(&ts_known_seconds),
		.may_make = !reader->is_given && reader->serial == ts_identity_serial(),
	};
	/* It has moved, or somebody has read from its descriptor. */
	if (!path || directory.rights == 0 || directory.seconds == 0 ||
		!ts_staged_root_path(reader->fd, path) ||
		ts_sys_seek(reader->fd, 0, SEEK_CUR) != 0)
		return false;
	struct ts_stage *table = ts_known_table();
	return table && ts_stage_listing_open(
				table, &directory, TS_STAGE_LISTING_NS, &reader->listing) == 0;
}

/* Another thread is at it, or was, when this process was forked. */
static enum state wait_for_start(struct reader *reader)
{
	uint32_t starting = STARTING;
	if (ts_load_relaxed(&reader->starter) == ts_identity_serial())
		ts_sys_futex_wait(&reader->state, STARTING, NAP_NS);
	else
		(void)ts_cas(&reader->state, &starting, REAL);
	return (enum state)ts_load_acquire(&reader->state);
}

static enum state start(struct reader *reader)
{
	uint32_t state = FRESH;
	/* Who starts says so first: a fork child between the two finds its parent's number. */
	uint32_t serial = ts_identity_serial();
	if (ts_load_relaxed(&reader->state) == FRESH)
		ts_write_relaxed(&reader->starter, serial);
	if (ts_cas(&reader->state, &state, STARTING)) {
		enum state reached = get(reader) ? SERVED : REAL;
		ts_write_release(&reader->state, (uint32_t)reached); /* pairs with state_of() */
		ts_sys_futex_wake(&reader->state);
		return reached;
	}
	while (state == STARTING)
		state = wait_for_start(reader);
	return (enum state)state;
}

/* The reader of @stream, if it is in such a state that it can be served. */
static struct reader *served(DIR *stream)
{
	struct reader *reader = find(stream);
	if (!reader || ts_load_acquire(&reader->state) != SERVED)
		return NULL;
	return reader->fd == dirfd(stream) ? reader : NULL;
}

/* ---- reading ---------------------------------------------------------------------------- */

static struct dirent64 *entry_at(const struct reader *reader, uint64_t at)
{
	return (struct dirent64 *)(reader->listing.map + at);
}

/* NULL at the end.  Two threads never get the same one. */
static struct dirent64 *next_entry(struct reader *reader)
{
	uint64_t at = ts_load_relaxed(&reader->at);
	while (at < reader->listing.bytes) {
		struct dirent64 *entry = entry_at(reader, at);
		if (!ts_cas(&reader->at, &at, at + entry->d_reclen))
			continue;
		ts_write_relaxed(&reader->place, entry->d_off);
		return entry;
	}
	return NULL;
}

bool ts_listings_read(DIR *stream, void **ret_entry)
{
	struct reader *reader = find(stream);
	if (!reader || reader->fd != dirfd(stream))
		return false;
	int saved = errno;
	enum state state = (enum state)ts_load_acquire(&reader->state);
	if (TS_UNLIKELY(state < SERVED))
		state = start(reader);
	errno = saved;
	if (state != SERVED)
		return false;
	*ret_entry = next_entry(reader);
	if (*ret_entry)
		return true;
	if (!reader->listing.is_complete) {
		ts_write_release(&reader->state, REAL);
		return false;
	}
	/* Where the descriptor would stand if it had been read from. */
	(void)ts_sys_seek(reader->fd, ts_load_relaxed(&reader->place), SEEK_SET);
	return true;
}

/* Without what aligns the longest names: callers have room for these and no more. */
static void copy_entry(const struct dirent64 *from, struct dirent64 *to)
{
	const uint64_t most = offsetof(struct dirent, d_name) + NAME_MAX + 1;
	uint16_t bytes = (uint16_t)ts_min_u64(from->d_reclen, most);
	memcpy(to, from, bytes);
	to->d_reclen = bytes;
}

bool ts_listings_read_into(DIR *stream, void *entry, void **ret_entry)
{
	void *found;
	if (!ts_listings_read(stream, &found))
		return false;
	if (found)
		copy_entry(found, entry);
	*ret_entry = found ? entry : NULL;
	return true;
}

bool ts_listings_tell(DIR *stream, long *ret_place)
{
	const struct reader *reader = served(stream);
	if (!reader)
		return false;
	*ret_place = ts_load_relaxed(&reader->place);
	return true;
}

/* Behind the entry that says so; or at the end of the listing. */
static uint64_t find_place(const struct reader *reader, long place)
{
	uint64_t at = 0;
	while (place != 0 && at < reader->listing.bytes) {
		const struct dirent64 *entry = entry_at(reader, at);
		at += entry->d_reclen;
		if (entry->d_off == place)
			return at;
	}
	return place == 0 ? 0 : UINT64_MAX;
}

bool ts_listings_seek(DIR *stream, long place)
{
	struct reader *reader = served(stream);
	if (!reader) {
		ts_listings_rewind(stream);
		return false;
	}
	uint64_t at = find_place(reader, place);
	if (at == UINT64_MAX) {
		ts_write_release(&reader->state, REAL);
		return false;
	}
	ts_write_relaxed(&reader->place, place);
	ts_write_relaxed(&reader->at, at);
	return true;
}

void ts_listings_rewind(DIR *stream)
{
	struct reader *reader = find(stream);
	if (!reader)
		return;
	enum state state = (enum state)ts_load_acquire(&reader->state);
	while (state == STARTING)
		state = wait_for_start(reader);
	ts_write_release(&reader->state, REAL);
}

void ts_listings_close(DIR *stream)
{
	if (ts_identity_check() != TS_VFORK_CHILD)
		forget(stream);
}
