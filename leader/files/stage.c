/* SPDX-License-Identifier: MIT */
/* Joining the copies of files, and the name of each. */
#include "leader/files/stage.h"

#include "leader/files/stage_private.h"
#include "leader/group/attach.h"
#include "shim/hash.h"
#include "shim/log.h"

#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

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
