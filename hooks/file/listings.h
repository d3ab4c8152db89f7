/* SPDX-License-Identifier: MIT */
/*
 * Listings at the border to the program: for --stage-metadata the entries of a directory of the
 * data set come from memory where another job of the group has read them
 * (leader/files/listing.h).
 *
 *	program's opendir -> the real one -> ts_listings_opened(): one of ours is noted
 *	first readdir     -> the group's listing, taken over or made; else the real one
 *
 * The stream is the C library's and stays what it is: its descriptor, its closedir, its errors.
 * States of a noted stream:
 *
 *	FRESH     nothing was read
 *	STARTING  one thread gets the listing; others wait, as they would for the stream's lock
 *	SERVED    entries come from the listing
 *	REAL      the real calls do all from here on
 *
 * FRESH -> STARTING -> SERVED or REAL by one thread.  SERVED -> REAL by rewinddir, by seekdir
 * to a place that the listing does not have, and behind an incomplete listing: the descriptor
 * then stands where the next entry is.  A fork child goes on with a listing of its own; what
 * was STARTING in the parent is REAL there.
 *
 * Streams that the C library opens for itself (scandir, glob, nftw, fts of glibc) never come
 * here.  One of ours that is closed past us leaves its note behind: it goes when the same
 * address is opened again, and answers nothing for a stream with another descriptor.
 *
 * Nothing here prints or allocates from the program's heap; errno stays.
 */
#ifndef TS_HOOKS_FILE_LISTINGS_H
#define TS_HOOKS_FILE_LISTINGS_H

#include "shim/atomic.h"
#include "shim/base.h"

#include <dirent.h>

/** How many streams are noted. While it is 0 none of the calls below has anything to do. */
extern _Atomic uint32_t ts_listings_open;

static inline bool ts_listings_are_open(void)
{
	return TS_UNLIKELY(ts_load_relaxed(&ts_listings_open));
}

/**
 * opendir(3), or with @is_given fdopendir(3), gave @stream (NULL: nothing).  A listing is made
 * only for the first: of a descriptor that the program has anyway somebody else may read.
 * Threads: any.  A vfork child passes.
 */
void ts_listings_opened(DIR *stream, bool is_given);

/**
 * The next entry of @stream, a struct dirent64 as readdir(3) gives it, or NULL at the end.
 * False: the real call has to be made.  Waits for the storage as readdir(3) does, and at most
 * TS_STAGE_LISTING_NS for another process.  Threads: any.
 */
bool ts_listings_read(DIR *stream, void **ret_entry);

/** The same as readdir_r(3) does it: with the entry in @entry, *ret_entry is @entry or NULL. */
bool ts_listings_read_into(DIR *stream, void *entry, void **ret_entry);

/** Where @stream stands; and: let it stand at @place.  False: the real call has to be made. */
bool ts_listings_tell(DIR *stream, long *ret_place);
bool ts_listings_seek(DIR *stream, long place);

/** Before rewinddir(3) and closedir(3). The second forgets @stream, and the entries it gave. */
void ts_listings_rewind(DIR *stream);
void ts_listings_close(DIR *stream);

#endif
