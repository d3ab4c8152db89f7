/* SPDX-License-Identifier: MIT */
/*
 * Staging: complete copies of files of slow storage, made once per group and node.
 *
 * A copy is an ordinary file, so its users need nothing but its descriptor.  Its name is that
 * of the group and a 128-bit hash of what the original is: device, inode, size, times, path.
 * States of a copy, all of them visible in the directory:
 *
 *	ABSENT    no name
 *	PART      <name>.part, 0600; its maker is the holder of an exclusive flock(2) on it
 *	COMPLETE  <name>, 0400, renamed from .part; never changes any more
 *
 * ABSENT -> PART by O_CREAT and the lock; then the holder looks again whether .part is still
 * the file it locked and whether <name> has come meanwhile (the rename of another holder may
 * lie between open and lock), allocates all its memory, reads the original, compares what the
 * kernel knows of the original with what it knew before, notes that in the index
 * (leader/files/index.h), and renames.  If a step fails, the maker removes the .part under the
 * lock: ABSENT again.
 *
 * The maker gets what it would have read itself.  The first user after the maker asks the
 * storage anew, once for all others, whether the original still is what it was: the time of
 * its last change lies well before the copy was begun (the caller's rule), so if it is the
 * same after the copy was made, nothing changed in between.  If the maker asked, this would be
 * one request more for each file that is read once.  On FUSE, where an open does not ask for
 * attributes, each later user asks as well.
 *
 * The kernel drops the lock of a killed process: the next one that opens the file takes the
 * .part over, and with it the room it takes up, if it has its size already.  (A fork child of
 * the killed one that was forked while it copied keeps the lock: then everybody reads the
 * original until that child ends.)  A process that finds the lock taken waits for the copy, at
 * most until a deadline, and then reads the original.
 *
 * Copies larger than TS_STAGE_AT_ONCE are used but not made here: that is the work of a stager
 * in the background (leader/files/stager.h), for which nobody waits.
 */
#ifndef TS_LEADER_FILES_STAGE_H
#define TS_LEADER_FILES_STAGE_H

#include "leader/files/index.h"
#include "leader/files/names.h"
#include "leader/mail/mail.h"

/* Largest file that is copied while its first reader waits. */
#define TS_STAGE_AT_ONCE (UINT64_C(16) << 20)

/* What a .part of a larger one has behind its bytes while it grows; see leader/files/stager.h.
 */
#define TS_STAGER_MARK sizeof(uint64_t)

struct ts_stage {
	struct ts_stage_index index;
	uint64_t capacity;
	struct ts_mail mail; /* .table NULL: no other node is asked */
};

/** An original: open, and what it was when it was opened. */
struct ts_stage_source {
	int fd; /* its position does not move */
	const struct stat *stat;
	const char *path; /* absolute, without links */
	bool is_fuse;     /* the kernel may keep pages and attributes of what has changed: see
			   * fill() and confirm() */
};

/** An open copy; the descriptor is the caller's. */
struct ts_stage_copy {
	int fd;            /* read-only, close-on-exec */
	uint64_t inode;    /* of the copy */
	bool fetched;      /* the caller made it */
	uint64_t fetch_ns; /* in that time */
};

/**
 * Join the copies of @group at @directory, or in shared memory when that is NULL, of at most
 * @capacity bytes.  This process is a member of @store, which is the group's: that keeps the
 * copies.  Ownership: *ret_stage is the caller's for the rest of the process; fork children
 * use it as well.  Threads: one at a time.  Never waits longer than 50 ms.
 * Errors: those of ts_stage_index_init(); -EAGAIN somebody holds the group's lock.
 */
int ts_stage_attach(struct ts_store *store, const char *group, const char *directory,
	uint64_t capacity, struct ts_stage **ret_stage);

/**
 * Ask other nodes, too, before the storage.  Errors: those of ts_mail_attach(); then none is.
 */
int ts_stage_use_others(struct ts_stage *stage, struct ts_store *store);

/** A path below the data set's directory, as it is asked for and told of. */
struct ts_stage_path {
	struct ts_hash128 across, here; /* its names: on all nodes, in the index */
	uint64_t root_device;           /* of the directory */
	uint64_t seconds;               /* for which it may be known */
};

/**
 * Ask other nodes where @path leads: whether the group knows it now, with a copy.  Waits about
 * TS_MAIL_WAIT_NS at most.  Threads: any, but a vfork child's.  Keeps errno.
 */
bool ts_stage_ask_path(struct ts_stage *stage, const struct ts_stage_path *path);

/** Tell them that it leads to what the copy with inode @copy is of; nobody waits for it. */
void ts_stage_tell_path(
	struct ts_stage *stage, const struct ts_stage_path *path, uint64_t copy);

/** Join only what is there: for asking the index, not for opening. Errors: -ENOENT and others.
 */
int ts_stage_attach_existing(const char *group, struct ts_stage **ret_stage);

/** Forget about it; copies stay. Accepts NULL. For tests: in a host others may still ask. */
void ts_stage_destroy(struct ts_stage *stage);

/**
 * Open the copy of @source with those of the open(2) @flags that matter, making it when it is
 * not there; while another process makes it, wait @wait_ns.
 *
 * Threads: any.  Not for a vfork child.  Keeps errno, allocates nothing, is no cancellation
 * point.  Errors: -EFBIG too large to be made while somebody waits; -ENOSPC no room; -EBUSY
 * waited in vain; -ESTALE the original is another one now; others: it cannot be had.
 */
int ts_stage_open(struct ts_stage *stage, const struct ts_stage_source *source, int flags,
	uint64_t wait_ns, struct ts_stage_copy *ret_copy);

/**
 * Open the copy that @name leads to, as ts_stage_name_find() finds it (leader/files/names.h),
 * with those of the open(2) @flags that matter and without asking the file's storage.  Returns
 * a descriptor with exactly the caller's flags, and the file's size.
 *
 * Also a copy that nobody has confirmed yet: who allows that a change is seen @seconds late
 * allows that one which came while the copy was made is seen in part for so long.
 *
 * Threads: any.  Keeps errno, allocates nothing, is no cancellation point.
 * Errors: -ENOENT nothing is known, or there is no copy; others: it cannot be had.
 */
int ts_stage_open_known(struct ts_stage *stage, struct ts_hash128 name, uint64_t seconds,
	int flags, uint64_t *ret_bytes);

/** Ask the storage whether @source still is what it was. Errors: -ESTALE; those of statx(2). */
int ts_stage_check(const struct ts_stage_source *source);

#endif
