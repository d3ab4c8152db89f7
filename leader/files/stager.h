/* SPDX-License-Identifier: MIT */
/*
 * Copies of large files, made in the background by a process of their own.
 *
 * A process that opens a file larger than TS_STAGE_AT_ONCE and finds no copy takes the .part
 * and its lock as leader/files/stage.h says.  It takes room for the whole file, hands the
 * locked descriptor to a stager that it starts (shim/helper.h), and reads the original.
 * Nobody waits for a stager.  flock(2) locks the open file, not the process: so the lock is
 * never free on its way from one to the other, and goes with the stager, however that ends.
 *
 * A .part of a large file tells by its size how far it is:
 *
 *	NEW       0
 *	GROWING   size of the original + TS_STAGER_MARK; room is counted for it.  Its last 8
 *	          bytes are how many of its bytes are there, whole chunks from the beginning
 *	FILLED    size of the original; all bytes are there
 *
 * NEW -> GROWING by the process that takes the room.  Then the stager allocates a chunk, reads
 * it, and only then raises the number of bytes.  GROWING -> FILLED by one ftruncate(2) behind
 * the last chunk; then mode, times, index and name as for any copy.  Each step is done under
 * the lock.  A killed stager leaves its .part; the next process that opens the file hands it
 * to another stager, which goes on at that number.  That is right because the name says what
 * the original was.  After the last chunk the stager asks the storage for the attributes once
 * more: if they are the same, all chunks of that name were read of the same content (the time
 * of the last change is older than any open that counts; see leader/files/stage.h).
 *
 * A stager asks the storage itself, freshly, before the first and after the last chunk; so its
 * copies are confirmed from the start.  It is a member of the group while it works, for else
 * the last job out would remove the .part under its name.  It is no job, and leaves when the
 * last job has gone.  It stops, and removes the .part, when the original changes or cannot be
 * read, or when the machine runs out of room.  Unless the original has changed, nobody starts
 * another one for TS_STAGER_PAUSE_NS then.  At most TS_STAGER_SLOTS work in a group at a time,
 * by locks (F_OFD_*) of the index's first bytes, which the kernel drops as well.
 */
#ifndef TS_LEADER_FILES_STAGER_H
#define TS_LEADER_FILES_STAGER_H

#include "leader/files/stage.h"

#define TS_STAGER_CHUNK (UINT64_C(8) << 20)

/* More would take the processors from the trainers, and storage is seldom faster for it. */
#define TS_STAGER_SLOTS 4

/* After a failure that the next stager would meet again. */
#define TS_STAGER_PAUSE_NS UINT64_C(5000000000)

/** What a stager has to do. */
struct ts_stager_task {
	const char *group, *dataset;
	uint64_t ring_bytes; /* for the case that the group has no ring any more */
	const char *path;    /* of the original: absolute, without links */
	const char *copy;    /* path of the copy to make; that of its .part is made from it */
	bool asks_others;    /* nodes, before the storage */
	uint64_t bytes;      /* size of the original when it was opened */
	int source; /* open original; closed when another descriptor of it was opened */
	int part;   /* locked; closed */
};

/**
 * Start a stager for @source, the complete copy of which would be at @path, unless there is
 * one.  What it leaves to be done is done in the background.
 *
 * Threads: any.  Not for a vfork child.  Keeps errno, allocates nothing.
 * Errors: -EFBIG the copy is being made, or cannot be made now; -ENOSPC no room; -EAGAIN look
 * again, the copy may be there; others of open(2).  Never 0.
 */
int ts_stager_begin(
	struct ts_stage *stage, const struct ts_stage_source *source, const char *path);

/**
 * Take the .part of the copy at @path and room for @source, as ts_stager_begin() does.
 * *ret_part is locked and the caller's.  Errors: -EBUSY somebody else has it; -ENOSPC; -EAGAIN.
 */
int ts_stager_take(struct ts_stage *stage, const struct ts_stage_source *source,
	const char *path, int *ret_part);

/**
 * Be the stager: returns when the copy is complete, or cannot be made, or no job is left.
 * For a process that does nothing else; joins and leaves the group.  Errors: as said above;
 * -ECANCELED nobody is left to make it for, or there are stagers enough; -ESTALE the original
 * has changed.
 */
int ts_stager_run(const struct ts_stager_task *task);

/** The program of that process: its exit status. */
int ts_stager_main(int argc, char **argv);

#endif
