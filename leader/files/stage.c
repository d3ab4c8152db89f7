/* SPDX-License-Identifier: MIT */
/* Joining the copies of files, the name of each, the lock of its .part, room for it. */
#include "leader/files/stage.h"
#include "leader/files/index_private.h"
#include "leader/files/stage_private.h"
#include "leader/group/attach.h"
#include "shim/hash.h"
#include "shim/log.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* ---- joining ---------------------------------------------------------------------------- */

static int join(const char *group, const char *directory, uint64_t capacity,
	struct ts_stage **ret_stage)
{
	/* Not from malloc: the host may be inside its own allocator's hooks. Zeroed, too. */
	struct ts_stage *stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stage == MAP_FAILED)
		return -ENOMEM;
	stage->capacity = capacity;
	int r = ts_stage_index_init(&stage->index, group, directory, capacity);
	if (r < 0) {
		munmap(stage, sizeof(*stage));
		return r;
	}
	*ret_stage = stage;
	return 0;
}

int ts_stage_attach(struct ts_store *store, const char *group, const char *directory,
	uint64_t capacity, struct ts_stage **ret_stage)
{
	int r = ts_store_lock(store);

	if (r < 0)
		return r;
	r = join(group, directory, capacity, ret_stage);
	ts_store_unlock(store);
	return r;
}

int ts_stage_attach_existing(const char *group, struct ts_stage **ret_stage)
{
	return join(group, NULL, 0, ret_stage);
}

void ts_stage_destroy(struct ts_stage *stage)
{
	if (!stage)
		return;
	ts_stage_index_finish(&stage->index);
	munmap(stage, sizeof(*stage));
}

/* ---- names ------------------------------------------------------------------------------ */

/* In two pieces: no path fits on a small stack (shim/scratch.h). */
static struct ts_hash128 hash_with_path(const uint64_t *numbers, size_t bytes, const char *path)
{
	struct ts_hasher hasher;

	ts_hasher_init(&hasher);
	ts_hasher_add(&hasher, numbers, bytes);
	ts_hasher_add(&hasher, path, strnlen(path, PATH_MAX));
	return ts_hasher_digest(&hasher);
}

struct ts_hash128 ts_stage_digits_of(const struct ts_stage_source *source)
{
	const struct stat *st = source->stat;
	const uint64_t numbers[] = {st->st_dev, st->st_ino, (uint64_t)st->st_size,
		(uint64_t)st->st_mtim.tv_sec, (uint64_t)st->st_mtim.tv_nsec,
		(uint64_t)st->st_ctim.tv_sec, (uint64_t)st->st_ctim.tv_nsec};
	return hash_with_path(numbers, sizeof(numbers), source->path);
}

void ts_stage_path_with(const char *stem, struct ts_hash128 hash, char path[TS_STAGE_PATH])
{
	static const char digits[] = "0123456789abcdef";
	size_t at = ts_format(path, TS_STAGE_PATH, "%s", stem);

	for (int i = 60; i >= 0; i -= 4) {
		path[at] = digits[hash.hi >> i & 15];
		path[at + 16] = digits[hash.lo >> i & 15];
		at++;
	}
	path[at + 16] = '\0';
}

void ts_stage_path_of(const struct ts_stage *stage, const struct ts_stage_source *source,
	char path[TS_STAGE_PATH])
{
	ts_stage_path_with(stage->index.stem, ts_stage_digits_of(source), path);
}

/*
 * What @source is called on all nodes.  Without device and inode, which a mount of another node
 * numbers in its own way: another file at this path has another time of change, to the
 * nanosecond, or another size.
 */
struct ts_hash128 ts_stage_name_across(const struct ts_stage_source *source)
{
	const struct stat *st = source->stat;
	const uint64_t numbers[] = {(uint64_t)st->st_size, (uint64_t)st->st_mtim.tv_sec,
		(uint64_t)st->st_mtim.tv_nsec, (uint64_t)st->st_ctim.tv_sec,
		(uint64_t)st->st_ctim.tv_nsec};
	return hash_with_path(numbers, sizeof(numbers), source->path);
}

/* What ts_stage_open() would have been asked for. */
void ts_stage_stat_of(const struct ts_stage_attributes *was, struct stat *ret_stat)
{
	*ret_stat = (struct stat){
		.st_dev = makedev(was->device_major, was->device_minor),
		.st_ino = was->inode,
		.st_size = (off_t)was->bytes,
		.st_mtim = {was->modified.seconds, (long)was->modified.nanoseconds},
		.st_ctim = {was->changed.seconds, (long)was->changed.nanoseconds},
	};
}

/* ---- the .part of a copy and its lock --------------------------------------------------- */

bool ts_stage_is_named(const char *path, const struct stat *st)
{
	struct stat named;

	return ts_sys_stat(path, &named) == 0 && named.st_dev == st->st_dev &&
	       named.st_ino == st->st_ino;
}

void ts_stage_release_part(int part)
{
	/* Said, not left to the close: a child forked meanwhile has this descriptor, too. */
	(void)ts_sys_flock(part, LOCK_UN);
	ts_sys_close(part);
}

/*
 * Lock the open file @part, unless it is locked, and see that it is what @part_path means.
 * Errors: -EBUSY; -EAGAIN another one has that name; -EPERM a file that is none of ours.
 */
static int hold_part(int part, const char *part_path, struct stat *ret_stat)
{
	int r = ts_sys_flock(part, LOCK_EX | LOCK_NB);

	if (r < 0)
		return r == -EWOULDBLOCK ? -EBUSY : r;
	r = ts_sys_fstat(part, ret_stat);
	if (r < 0)
		return r;
	if (!S_ISREG(ret_stat->st_mode) || ret_stat->st_uid != geteuid())
		return -EPERM;
	return ts_stage_is_named(part_path, ret_stat) ? 0 : -EAGAIN;
}

/* One that was killed just before the rename is read-only, and we may not be root. */
static int reopen_finished(const char *part_path)
{
	struct stat st;
	int part = ts_sys_open(part_path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0);

	if (part < 0)
		return part == -ENOENT ? -EAGAIN : part;
	int r = hold_part(part, part_path, &st);
	if (r == 0)
		r = ts_sys_fchmod(part, 0600);
	ts_stage_release_part(part);
	return r < 0 ? r : -EAGAIN;
}

int ts_stage_lock_part(const char *part_path, int *ret_part)
{
	const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
	struct stat st;
	int part = ts_sys_open(part_path, flags, 0600);

	if (part == -EACCES)
		return reopen_finished(part_path);
	if (part < 0)
		return part;
	TS_KILLPOINT(stage_made);
	int r = hold_part(part, part_path, &st);
	if (r < 0) {
		ts_stage_release_part(part);
		return r;
	}
	*ret_part = part;
	return 0;
}

int ts_stage_take_part(const char *part_path, const char *path, int *ret_part)
{
	struct stat other;
	int part;
	TS_KILLPOINT(stage_looked);
	int r = ts_stage_lock_part(part_path, &part);
	TS_KILLPOINT(stage_locked);
	if (r < 0)
		return r;
	if (ts_sys_stat(path, &other) == 0) {
		/* Renamed between our look and our open: what we made is an empty file. */
		ts_sys_unlink(part_path);
		ts_stage_release_part(part);
		return -EAGAIN;
	}
	*ret_part = part;
	return 0;
}

/* ---- room that dead makers have left taken ---------------------------------------------- */

/*
 * A .part of a killed process keeps what it has, and the room that was counted for it, for
 * whoever opens the same file next.  Nobody may ever do so; then another file that finds no
 * room makes use of it: the .part is removed and its room given back, under its lock, which is
 * free only when no process makes that copy.
 */

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

	if (ts_sys_fstat(part, &st) < 0 || st.st_size <= 0 || hold_part(part, path, &st) < 0)
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
