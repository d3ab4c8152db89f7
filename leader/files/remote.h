/* SPDX-License-Identifier: MIT */
/*
 * Known paths of other nodes (--stage-metadata, --cluster).  The maker of a copy tells other
 * nodes where its path leads.  The helper of another node makes the same copy from these
 * attributes and from bytes that come from other nodes: the storage hears nothing.  It does so
 * for a job that is about to open the path.
 *
 * A path from another node is known here for less than SECONDS.  A server keeps it for half of
 * SECONDS, and it counts here as if all of that half had passed.  So nobody compares two
 * clocks.
 *
 * The inode and the rest of the attributes are those that the other node saw, the device is
 * that of the data set's directory here.
 */
#ifndef TS_LEADER_FILES_REMOTE_H
#define TS_LEADER_FILES_REMOTE_H

#include "leader/files/stage.h"

#include <assert.h>
#include <limits.h>

#define TS_STAGE_TOLD_VERSION 1

/* Below, a path is known for too short a time to tell others of it. */
#define TS_STAGE_TELL_SECONDS 4

/** What one node tells others of a path; little-endian.  Followed by the path, without a NUL.
 */
struct ts_stage_told {
	uint32_t version;
	uint32_t path_bytes; /* of the file's path: absolute, without links; 1 ... PATH_MAX - 1
			      */
	struct ts_stage_attributes attributes; /* the device is 0 */
};
static_assert(sizeof(struct ts_stage_told) == 8 + 136, "what other nodes read");

#define TS_STAGE_TOLD_BYTES (sizeof(struct ts_stage_told) + PATH_MAX)

/**
 * For how many seconds a server keeps what is told of a path that may be known for @seconds; 0:
 * nothing is told.
 */
static inline uint32_t ts_stage_told_for(uint64_t seconds)
{
	return seconds < TS_STAGE_TELL_SECONDS ? 0 : (uint32_t)(seconds / 2);
}

/**
 * What there is to tell of the copy with inode @inode, whose original lies on device
 * @root_device, into @buffer of TS_STAGE_TOLD_BYTES; how many bytes.  Errors: -ENOENT there is
 * no such copy, or it lies elsewhere.
 */
int ts_stage_tell(
	const struct ts_stage *stage, uint64_t inode, uint64_t root_device, void *buffer);

/** A copy that is being brought.  The caller's memory. */
struct ts_stage_remote {
	struct ts_stage_attributes was; /* here */
	char path[PATH_MAX];            /* of the original */
	struct ts_hash128 name;         /* of its bytes, the same on all nodes */
	struct ts_hash128 copy;
	uint64_t inode; /* of the copy or its .part */
	int part;       /* locked; -1: the copy is there */
	bool is_admitted;
};

/**
 * Begin with the copy that the @bytes at @told speak of: take its .part and room for it.  Where
 * the copy is there, ret->part is -1.  Whatever is returned but an error, ts_stage_remote_end()
 * must follow.
 *
 * Errors: -EBADMSG @told is not what is told; -EFBIG a large file, which nobody waits for;
 * -EBUSY it is being made; -ENOSPC; others of open(2).
 */
int ts_stage_remote_begin(struct ts_stage *stage, const void *told, size_t bytes,
	uint64_t root_device, struct ts_stage_remote *ret);

/**
 * With @error 0 all bytes are in the .part: it becomes the copy.  Else it is removed.
 * Errors: @error; those of making a copy.
 */
int ts_stage_remote_end(struct ts_stage *stage, struct ts_stage_remote *bringing, int error);

/**
 * The path with the name @known_as leads to what was brought, known for @seconds at most from
 * when another node had asked.  Errors: -EBUSY that is for no time at all.
 */
int ts_stage_remote_note(struct ts_stage *stage, const struct ts_stage_remote *bringing,
	struct ts_hash128 known_as, uint64_t seconds);

#endif
