/* SPDX-License-Identifier: MIT */
/*
 * What a group knows of paths, for a time that the user allows (--stage-metadata): that a path
 * led to a file with these attributes.  A table in the index of copies
 * (leader/files/index.h), found by a 128-bit hash that the caller makes of the path and of all
 * that decides where it leads and who may follow it.
 *
 * States of a name:
 *
 *	FREE      the first half of its hash is 0
 *	TAKEN     both halves are there, the word is 0: nothing is known
 *	KNOWN(w)  w: the row of the attributes, and when the file system was asked
 *
 * FREE -> TAKEN by CAS of the first half.  Each process that finds the second half 0 stores
 * it, all with the same value.  TAKEN or KNOWN(w) -> KNOWN(v) by CAS, only if v is of a later
 * moment than w: a late process cannot bring an old answer back.  Row and moment are one word,
 * so no reader ever sees the row of one answer with the time of another (N1, release; B1 is
 * the reader's acquire, after which it reads the row).
 *
 * The user has promised that no job changes what is there.  A job that opens a file there for
 * writing breaks the promise.  The index notes the job, whose processes ask the table no more.
 * The job sets @forgotten, a moment: all names that were known then are unknown, for all jobs.
 * @forgotten only grows.
 *
 * Killed between the steps a process leaves a name that is TAKEN: the next answer completes
 * it. A moment is one before the file system was asked, in milliseconds since boot; so what is
 * known is at most that much older than it looks.
 */
#ifndef TS_LEADER_FILES_NAMES_H
#define TS_LEADER_FILES_NAMES_H

#include "leader/files/index.h"
#include "shim/hash.h"

/* What a hash is of, its third word. */
enum ts_stage_name_kind {
	TS_STAGE_NAME_FOLLOWED = 1,
	TS_STAGE_NAME_LINK,
	TS_STAGE_NAME_ACROSS = 4, /* of a path, for other nodes */
};

/** This moment. As a clock it also counts what the machine sleeps. */
uint64_t ts_stage_now_ms(void);

/** An answer: attributes, the path that leads to the file, and the row they are from. */
struct ts_stage_known {
	struct ts_stage_attributes attributes;
	const char *path; /* in the index; NULL where only the attributes are known */
	uint64_t row;
};

/**
 * What is known of @name, if that was found out less than @seconds ago and no job has left
 * since.  Changes nothing; async-signal-safe.  Threads and processes: any.
 */
bool ts_stage_name_find(const struct ts_stage_index *index, struct ts_hash128 name,
	uint64_t seconds, struct ts_stage_known *ret_known);

/** Whether what was found out at @asked_ms still counts.  As above. */
bool ts_stage_names_still_hold(
	const struct ts_stage_index *index, uint64_t asked_ms, uint64_t seconds);

/**
 * At the moment @asked_ms, or after it, @name led to what the copy with inode @inode is a copy
 * of.  No room in the table: nothing is noted.
 */
void ts_stage_name_note(struct ts_stage_index *index, struct ts_hash128 name, uint64_t asked_ms,
	uint64_t inode);

/** The same for a file or directory without a copy, which had @attributes then. */
void ts_stage_name_note_attributes(struct ts_stage_index *index, struct ts_hash128 name,
	uint64_t asked_ms, const struct ts_stage_attributes *attributes);

/**
 * The job with the id @job (ts_identity_job(); 0: not known) changes what is there: from now on
 * nothing is known to it, and nothing to anybody of what was known until now.  With more such
 * jobs alive than the index can note nothing is known to any job, for good.
 * Threads and processes: any, also a vfork child.
 */
void ts_stage_names_leave(struct ts_stage_index *index, uint64_t job);

/** Whether that job has left; 0 always has.  Async-signal-safe.  Threads and processes: any. */
bool ts_stage_names_were_left(const struct ts_stage_index *index, uint64_t job);

#endif
