/* SPDX-License-Identifier: MIT */
/*
 * Listings of directories that the jobs of a group share, for --stage-metadata.
 *
 * A listing is a file beside the copies (leader/files/stage.h), with the same names, states
 * and lock: PART while the holder of the lock makes it, COMPLETE by a rename.  It holds all
 * entries of a directory as getdents64(2) gave them, in that order, behind a header with the
 * directory and the moment.  Nothing about it is in the index: a reader copies the whole
 * listing into memory of its own and believes it only if
 *
 *	- it is a file of the group's user, 0400, as long as it says, with the right hashes;
 *	- every entry is one that readdir(3) can hand out;
 *	- it is of the directory that the caller has open, whose times are those of then;
 *	- the moment before the storage was asked lies less than --stage-metadata seconds back,
 *	  and behind what the group forgot (leader/files/names.h).
 *
 * A change of a directory changes its times, and opendir(3) asks the storage for these anyway,
 * so where the storage keeps such times a listing that is given out is always the true one;
 * the seconds are for storage that keeps none.  As for files, a directory whose last change is
 * young is left alone: the next one could have the same time.
 *
 * A new listing replaces the old one by the same rename; readers keep the old one in their
 * memory.  Killed between the steps a maker leaves a .part, which the next maker empties, and
 * at worst the room that was counted for it.
 */
#ifndef TS_LEADER_FILES_LISTING_H
#define TS_LEADER_FILES_LISTING_H

#include "leader/files/stage.h"

#include <dirent.h>

/* Listings that are larger or take longer to make are not shared, and a file without entries
 * says so to the others: they need not try. */
#define TS_STAGE_LISTING_BYTES (UINT64_C(16) << 20)
#define TS_STAGE_LISTING_NS    UINT64_C(2000000000)

/** A directory that somebody has open, and on what terms a listing of it may be used. */
struct ts_stage_directory {
	int fd;
	const struct stat *stat; /* since it was opened */
	const char *path;        /* absolute, without links */
	uint64_t rights;         /* ts_rights() of who opened it */
	uint64_t seconds;
	bool may_make; /* @fd stands at the beginning, and no other thread reads from it */
};

/** A listing in memory of its own, the caller's to unmap. */
struct ts_stage_listing {
	char *map;
	uint64_t map_bytes;
	uint64_t bytes;   /* of entries, struct dirent64 one behind the other, from @map on */
	bool is_complete; /* otherwise @fd stands behind them and has more */
};

/**
 * The listing of @directory, made when there is none; while another process makes it, wait
 * @wait_ns.  A maker that comes to the end of its room or time, or to an error of the storage,
 * hands out what it has as a listing that is not complete, and nobody else gets it.
 *
 * Threads: any.  Not for a vfork child.  Keeps errno.  End the listing with
 * ts_stage_listing_finish().  Errors, after which @fd stands where it stood: -EPERM
 * @directory->may_make is not set and there is none; -EFBIG too large, or too slow, for
 * somebody else; -EBUSY waited in vain; -ENOMEM; -ENOTSUP entries that are no readdir's;
 * others: it cannot be had.
 */
int ts_stage_listing_open(struct ts_stage *stage, const struct ts_stage_directory *directory,
	uint64_t wait_ns, struct ts_stage_listing *ret_listing);

/** Unmap it. Accepts an empty one. Async-signal-safe. Keeps errno. */
void ts_stage_listing_finish(struct ts_stage_listing *listing);

#endif
