/* SPDX-License-Identifier: MIT */
/* What the two ways of making a copy share: at once (fetch.c), in the background. */
#ifndef TS_LEADER_FILES_STAGE_PRIVATE_H
#define TS_LEADER_FILES_STAGE_PRIVATE_H

#include "leader/files/stage.h"
#include "shim/sys.h"

#define TS_STAGE_NAP_MIN_NS UINT64_C(200000)
#define TS_STAGE_NAP_MAX_NS UINT64_C(2000000)

/* Longest path of a copy, or of its .part. */
#define TS_STAGE_PATH (TS_STAGE_STEM + 32 + 8)

/* ---- leader/files/stage.c --------------------------------------------------------------- */

/** The digits in the name of the copy of @source. */
struct ts_hash128 ts_stage_digits_of(const struct ts_stage_source *source);

/** Path of the complete copy with these digits, of a group whose copies begin with @stem. */
void ts_stage_path_with(
	const char *stem, struct ts_hash128 digits, char ret_path[TS_STAGE_PATH]);

/** Path of the complete copy of @source. */
void ts_stage_path_of(const struct ts_stage *stage, const struct ts_stage_source *source,
	char ret_path[TS_STAGE_PATH]);

/** What the bytes of @source are called on all nodes. */
struct ts_hash128 ts_stage_name_across(const struct ts_stage_source *source);

/** What of @was decides the name of a copy. */
void ts_stage_stat_of(const struct ts_stage_attributes *was, struct stat *ret_stat);

/** Whether @path leads to the file with attributes @st. */
bool ts_stage_is_named(const char *path, const struct stat *st);

/**
 * Open and lock the file @part_path, making it when it is not there; *ret_part is the caller's,
 * to be ended with ts_stage_release_part().  Errors: -EBUSY somebody has it; -EAGAIN look
 * again; -EPERM no file of ours; others of open(2).
 */
int ts_stage_lock_part(const char *part_path, int *ret_part);

/**
 * The same for the .part of the copy @path, which is not there yet.  Errors: as above; -EAGAIN
 * also where the copy has come meanwhile.
 */
int ts_stage_take_part(const char *part_path, const char *path, int *ret_part);

/** Unlock and close it. */
void ts_stage_release_part(int part);

/**
 * Take room for @bytes as ts_stage_index_admit() does; where there is none, what dead makers of
 * copies have left is removed first, at most every few seconds.  The caller may hold the lock
 * of a .part, which is not looked at.  Errors: -ENOSPC.
 */
int ts_stage_admit(struct ts_stage *stage, uint64_t bytes);

/** Nap until another process may have made what is looked for: longer each time, by *nap_ns. */
static inline void ts_stage_nap(uint64_t *nap_ns)
{
	uint32_t never_woken = 0;

	ts_sys_futex_wait(&never_woken, 0, *nap_ns);
	*nap_ns = ts_min_u64(*nap_ns * 2, TS_STAGE_NAP_MAX_NS);
}

/* ---- leader/files/fetch.c --------------------------------------------------------------- */

/** What other nodes have said of a value that this process makes: ts_stage_tell_others(). */
struct ts_stage_errand {
	uint32_t index;
	bool is_won;
};

/** A range of an original, and the .part that it belongs into. */
struct ts_stage_range {
	int part;
	uint32_t piece; /* of a large file: which chunk of TS_STAGER_CHUNK; else 0 */
	uint64_t at, bytes;
};

/**
 * Get @range of @source from another node: whether it is there now, proven.  Where it is not,
 * *ret_errand may say that all nodes wait for ours: then ts_stage_tell_others() must follow.
 *
 * Waits about TS_MAIL_WAIT_NS at most.  Errors: -ETIME the .part must not be used any more.
 */
int ts_stage_ask_others(struct ts_stage *stage, const struct ts_stage_source *source,
	const struct ts_stage_range *range, struct ts_stage_errand *ret_errand);

/** The range of @errand is in the copy or its .part, @is_made; or will not be. */
void ts_stage_tell_others(struct ts_stage *stage, struct ts_stage_errand *errand, bool is_made);

/** See that there is a helper soon, for who asks in the background. */
void ts_stage_call_helper(struct ts_stage *stage);

/** How a small copy is made. */
struct ts_stage_making {
	bool alone; /* other nodes are not asked */
	bool got;   /* from one of them */
	struct ts_stage_errand errand;
};

/**
 * Fill the .part behind @part, which this process has locked and which has the name @part_path,
 * with @source, and give it the name @path.  On failure the .part is removed.
 * Errors: as for ts_stage_open(); -ETIME begin with another .part, alone.
 */
int ts_stage_fetch(struct ts_stage *stage, const struct ts_stage_source *source, int part,
	const char *part_path, const char *path, struct ts_stage_making *making);

/** All attributes of @source, if it is what it was. Errors: -ESTALE; those of statx(2). */
int ts_stage_look(const struct ts_stage_source *source, int sync, struct statx *ret_attributes);

/** Whether the path still leads to it: users go back to the original by its path.
 * Errors: -ESTALE; those of stat(2). */
int ts_stage_check_path(const struct ts_stage_source *source);

/**
 * Memory for @bytes behind @part.  *admitted: room is counted for them, before or now.
 * Errors: -ENOSPC; those of ftruncate(2) and fallocate(2).
 */
int ts_stage_make_room(struct ts_stage *stage, int part, uint64_t bytes, bool *admitted);

/** The same as the index keeps them. */
void ts_stage_attributes_of(
	const struct statx *stx, struct ts_stage_attributes *ret_attributes);

/**
 * Give the .part, whose bytes are all there, mode and times of a copy, and note it in the
 * index as that of the file that @was at @path.  Errors: those of the system calls and of
 * ts_stage_index_add().
 */
int ts_stage_finish(struct ts_stage *stage, const char *path, int part,
	const struct ts_stage_attributes *was);

/**
 * With @error 0 give the .part the name @path; else, and where that cannot be, remove it and
 * give back the @admitted bytes of room.  Errors: @error; those of rename(2).
 */
int ts_stage_settle_part(struct ts_stage *stage, const char *part_path, const char *path,
	int error, uint64_t admitted);

#endif
