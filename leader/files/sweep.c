/* SPDX-License-Identifier: MIT */
/*
 * Room that dead makers of copies have left taken.
 *
 * A .part of a killed process keeps what it has, and the room that was counted for it, for
 * whoever opens the same file next.  Nobody may ever do so; then another file that finds no
 * room makes use of it: the .part is removed and its room given back, under its lock, which is
 * free only when no process makes that copy.
 */
#include "leader/files/index_private.h"
#include "leader/files/stage_private.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <string.h>

/* A group that is full for good asks with every file, and there may be a million names. */
#define SWEEP_PAUSE_NS UINT64_C(5000000000)
#define SWEEP_MOST_NS  UINT64_C(20000000)

struct sweep {
	struct ts_stage *stage;
	uint64_t end; /* ts_now_ns() at which the opener has waited long enough */
	bool has_found;
};

/*
 * What was counted for a .part of @size.  A large one that is GROWING is larger than that by
 * its mark and one that is FILLED is not, which cannot be told; the rest stays taken.
 */
static uint64_t room_of(uint64_t size)
{
	return size > TS_STAGE_AT_ONCE ? size - TS_STAGER_MARK : size;
}

/* Empty ones have no room to give, and may be on their way to their lock. */
static void remove_dead(struct sweep *sweep, int part, const char *path)
{
	struct stat st;

	if (ts_sys_fstat(part, &st) < 0 || st.st_size <= 0 ||
		ts_stage_hold_part(part, path, &st) < 0)
		return;
	/* In this order: killed between the two we leave room unused, and never count it twice.
	 */
	if (st.st_size <= 0 || ts_sys_unlink(path) < 0)
		return;
	ts_stage_index_return(&sweep->stage->index, room_of((uint64_t)st.st_size));
	sweep->has_found = true;
}

static bool look_at(void *context, const char *path)
{
	struct sweep *sweep = context;
	size_t length = strlen(path);

	if (length < 5 || strcmp(path + length - 5, ".part") != 0)
		return ts_now_ns() < sweep->end;
	/* Read-only: that is what one is just before it gets its name. */
	int part = ts_sys_open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0);
	if (part >= 0) {
		remove_dead(sweep, part, path);
		/* A lock that is not ours is not touched: each open has its own. */
		ts_stage_release_part(part);
	}
	return ts_now_ns() < sweep->end;
}

/* Whether there is more room than before. */
static bool sweep_now(struct ts_stage *stage)
{
	_Atomic uint64_t *at = &stage->index.head->sweep_at;
	uint64_t now = ts_now_ns(), due = ts_load_relaxed(at);
	struct sweep sweep = {.stage = stage, .end = now + SWEEP_MOST_NS};

	if (now < due || !ts_cas(at, &due, now + SWEEP_PAUSE_NS))
		return false;
	ts_stage_each_copy(stage->index.stem, look_at, &sweep);
	if (sweep.has_found)
		ts_write_relaxed(&stage->index.full_until, 0);
	return sweep.has_found;
}

int ts_stage_admit(struct ts_stage *stage, uint64_t bytes)
{
	int r = ts_stage_index_admit(&stage->index, stage->capacity, bytes);

	if (r == -ENOSPC && bytes <= stage->capacity && sweep_now(stage))
		r = ts_stage_index_admit(&stage->index, stage->capacity, bytes);
	return r;
}
