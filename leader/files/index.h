/* SPDX-License-Identifier: MIT */
/*
 * What a group knows about its copies of files: how much room they take, and for each copy,
 * found by its inode, the attributes and the path of the original.
 *
 * One object of shared memory, tsshim.<uid>.<scope>.<group>.stage:
 *
 *	head    | slots: inode -> row, open addressing | rows, one behind the other | names
 *
 * Memory comes in chunks that are allocated before they are touched, so that a full file
 * system is an error and no SIGBUS; a chunk that is not there holds nothing.
 *
 * A slot is written by the process that holds the lock of that copy (leader/files/stage.h), and
 * nobody else, in this order: the inode by CAS, the row, the slot's offset of it (I1, release;
 * A1 is the reader's acquire).  Killed between, it leaves a slot without a row, or a row nobody
 * leads to: the next holder of the lock finds the slot by the inode and writes again.  Rows
 * never move and go only with the whole index.
 *
 * Names are paths whose attributes the group knows for a time: leader/files/names.h.
 *
 * @used is added to before a copy takes room and taken from when the copy fails.  A process
 * killed between adding and giving the copy its size, or between removing a failed one and
 * taking from @used, leaves that much room unused until the index goes.  What has its size but
 * no maker any more keeps its room until somebody opens the original again, or lacks room:
 * leader/files/stage.c.
 */
#ifndef TS_LEADER_FILES_INDEX_H
#define TS_LEADER_FILES_INDEX_H

#include "leader/group/store_private.h"

#include <sys/stat.h>

/** Attributes of an original when it was copied; fields as in statx(2). */
struct ts_stage_attributes {
	uint64_t inode, bytes, blocks, flags, flags_mask;
	uint32_t mode, uid, gid, links, block_bytes, device_major, device_minor, mask;
	struct {
		int64_t seconds;
		uint64_t nanoseconds;
	} accessed, modified, changed, born;
};

/** Whether what @now tells of a file has the size and both times of @was. Threads: any. */
bool ts_stage_index_agrees(const struct ts_stage_attributes *was, const struct stat *now);

/** One group's index as this process sees it. The caller's memory. */
struct ts_stage_index {
	struct ts_object object;
	struct ts_stage_head *head; /* mapped for good, also across fork */
	uint64_t slot_count, rows_at, rows_end, name_count, total_bytes; /* checked copies */
	uint64_t device;                                                 /* of the copies */
	uint32_t uid;                                                    /* of the copies */
	bool in_memory;              /* the copies lie in shared memory */
	char stem[TS_STAGE_STEM];    /* path of a copy without its 32 digits */
	_Atomic uint64_t full_until; /* ts_now_ns() before which nobody looks for room again */
};

/** Of the index as a whole, for `tsrun`. */
struct ts_stage_usage {
	uint64_t files, bytes;
};

/**
 * Open the index of @group, making it when it is not there: for copies in @directory, or in
 * shared memory when that is NULL.  Who made it has chosen the place for all.  Copies that an
 * index before it left in that place are removed first.  With a @capacity of 0 nothing is made.
 *
 * The caller holds the ledger's lock (leader/group/attach.h), unless nothing is to be made.  On
 * success end it with ts_stage_index_finish(), which no reader may outlive. Errors: -EPERM
 * foreign; -EBADMSG damaged; -EPROTO another version; -EXDEV another boot or namespace;
 * -ENOSPC, -ENOMEM; others from the system calls.
 */
int ts_stage_index_init(struct ts_stage_index *index, const char *group, const char *directory,
	uint64_t capacity);
void ts_stage_index_finish(struct ts_stage_index *index);

/**
 * Take @bytes of room, within @capacity and what leader/object/limits.c leaves; give them back.
 * Errors: -ENOSPC.  Threads and processes: any.
 */
int ts_stage_index_admit(struct ts_stage_index *index, uint64_t capacity, uint64_t bytes);
void ts_stage_index_return(struct ts_stage_index *index, uint64_t bytes);

/** Whether what was taken is still in order, for who fills it slowly. Errors: -ENOSPC. */
int ts_stage_index_recheck(struct ts_stage_index *index);

/**
 * Note what the copy with inode @inode is a copy of.  The caller holds that copy's lock.
 * Errors: -ENOSPC no room for another row; -EINVAL a path of 0 or of PATH_MAX bytes or more.
 */
int ts_stage_index_add(struct ts_stage_index *index, uint64_t inode,
	const struct ts_stage_attributes *attributes, const char *path);

/**
 * Whether somebody has seen that the original of the copy with inode @inode was the same after
 * the copy was made as before; and: so it was.  Threads and processes: any.
 */
bool ts_stage_index_is_confirmed(const struct ts_stage_index *index, uint64_t inode);
void ts_stage_index_confirm(struct ts_stage_index *index, uint64_t inode);

/** The copy has become visible: count it. */
void ts_stage_index_count(struct ts_stage_index *index);

/**
 * What the file with attributes @copy is a copy of: whether it is one, its attributes, and
 * its path if @ret_path (PATH_MAX bytes) is not NULL.  Some 50 ns; changes nothing, so a vfork
 * child may ask; async-signal-safe.
 */
bool ts_stage_index_find(const struct ts_stage_index *index, const struct stat *copy,
	struct ts_stage_attributes *ret_attributes, char *ret_path);

/**
 * Remove the index at @path and all copies it stands for.  Nobody may use them: the caller
 * holds the ledger's lock and has seen that no member is alive.  With @dry_run only counts.
 * *ret_usage (may be NULL) is what was found.  Errors: -ENOENT no index; -EPERM foreign, and
 * nothing is removed.
 */
int ts_stage_remove(const char *path, bool dry_run, struct ts_stage_usage *ret_usage);

/**
 * Call @visit with the path of every copy, finished (no suffix) or not (".part"), whose path
 * begins with @stem, until it says false.  It may remove the file.
 */
void ts_stage_each_copy(
	const char *stem, bool (*visit)(void *context, const char *path), void *context);

#endif
