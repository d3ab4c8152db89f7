/* SPDX-License-Identifier: MIT */
/* Telling other nodes of paths, and making copies of what they have told. */
#include "leader/files/remote.h"

#include "leader/files/index_private.h"
#include "leader/files/stage_private.h"
#include "shim/log.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* ---- telling ---------------------------------------------------------------------------- */

static uint64_t device_of(const struct ts_stage_attributes *was)
{
	return makedev(was->device_major, was->device_minor);
}

int ts_stage_tell(
	const struct ts_stage *stage, uint64_t inode, uint64_t root_device, void *buffer)
{
	const struct ts_stage_row *row = ts_stage_index_row_at(
		&stage->index, ts_stage_index_row_of(&stage->index, inode));
	const char *path = row ? ts_stage_index_path(&stage->index, row) : NULL;
	struct ts_stage_told told = {.version = TS_STAGE_TOLD_VERSION};

	if (!path || device_of(&row->attributes) != root_device)
		return -ENOENT;
	told.path_bytes = (uint32_t)strnlen(path, PATH_MAX - 1);
	told.attributes = row->attributes;
	told.attributes.device_major = told.attributes.device_minor = 0;
	memcpy(buffer, &told, sizeof(told));
	memcpy((char *)buffer + sizeof(told), path, told.path_bytes);
	return (int)(sizeof(told) + told.path_bytes);
}

/* ---- bringing --------------------------------------------------------------------------- */

static int read_told(
	const void *bytes, size_t count, uint64_t root_device, struct ts_stage_remote *ret)
{
	struct ts_stage_told told;

	if (count < sizeof(told))
		return -EBADMSG;
	memcpy(&told, bytes, sizeof(told));
	if (told.version != TS_STAGE_TOLD_VERSION || told.path_bytes == 0 ||
		told.path_bytes >= PATH_MAX || count != sizeof(told) + told.path_bytes)
		return -EBADMSG;
	memcpy(ret->path, (const char *)bytes + sizeof(told), told.path_bytes);
	ret->path[told.path_bytes] = '\0';
	if (ret->path[0] != '/' || memchr(ret->path, '\0', told.path_bytes) ||
		!S_ISREG(told.attributes.mode) || told.attributes.bytes == 0)
		return -EBADMSG;
	ret->was = told.attributes;
	ret->was.device_major = major(root_device);
	ret->was.device_minor = minor(root_device);
	return 0;
}

/* An original that nobody has open. */
static struct ts_stage_source source_of(
	const struct ts_stage_remote *bringing, struct stat *stat)
{
	ts_stage_stat_of(&bringing->was, stat);
	return (struct ts_stage_source){.fd = -1, .stat = stat, .path = bringing->path};
}

static int take_room(struct ts_stage *stage, struct ts_stage_remote *bringing)
{
	uint64_t bytes = bringing->was.bytes;
	struct stat st = {.st_ino = 0};
	int r = ts_sys_fchmod(bringing->part, 0600);

	if (r == 0)
		r = ts_sys_fstat(bringing->part, &st);
	if (r < 0)
		return r;
	bringing->inode = st.st_ino;
	bringing->is_admitted = (uint64_t)st.st_size == bytes;
	return ts_stage_make_room(stage, bringing->part, bytes, &bringing->is_admitted);
}

int ts_stage_remote_begin(struct ts_stage *stage, const void *told, size_t bytes,
	uint64_t root_device, struct ts_stage_remote *ret)
{
	char *path TS_SCRATCH = ts_scratch(), *part_path TS_SCRATCH = ts_scratch();
	struct stat stat, copy;

	*ret = (struct ts_stage_remote){.part = -1};
	if (!path || !part_path)
		return -ENOMEM;
	int r = read_told(told, bytes, root_device, ret);
	if (r < 0)
		return r;
	if (ret->was.bytes > TS_STAGE_AT_ONCE)
		return -EFBIG;
	struct ts_stage_source source = source_of(ret, &stat);
	ret->name = ts_stage_name_across(&source);
	ret->copy = ts_stage_digits_of(&source);
	ts_stage_path_with(stage->index.stem, ret->copy, path);
	if (ts_sys_lstat(path, &copy) == 0) {
		ret->inode = copy.st_ino;
		return ts_stage_index_find(
			       &stage->index, &copy, &(struct ts_stage_attributes){0}, NULL)
			       ? 0
			       : -EBUSY;
	}
	ts_format(part_path, TS_STAGE_PATH, "%s.part", path);
	r = ts_stage_take_part(part_path, path, &ret->part);
	if (r < 0)
		return r == -EAGAIN ? -EBUSY : r;
	r = take_room(stage, ret);
	return r < 0 ? ts_stage_remote_end(stage, ret, r) : 0;
}

int ts_stage_remote_end(struct ts_stage *stage, struct ts_stage_remote *bringing, int error)
{
	char path[TS_STAGE_PATH], part_path[TS_STAGE_PATH];
	int r = error;

	if (bringing->part < 0)
		return r;
	ts_stage_path_with(stage->index.stem, bringing->copy, path);
	ts_format(part_path, sizeof(part_path), "%s.part", path);
	if (r == 0)
		r = ts_stage_finish(stage, bringing->path, bringing->part, &bringing->was);
	r = ts_stage_settle_part(
		stage, part_path, path, r, bringing->is_admitted ? bringing->was.bytes : 0);
	ts_stage_release_part(bringing->part);
	bringing->part = -1;
	return r;
}

int ts_stage_remote_note(struct ts_stage *stage, const struct ts_stage_remote *bringing,
	struct ts_hash128 known_as, uint64_t seconds)
{
	uint64_t now = ts_stage_now_ms(), age = (uint64_t)ts_stage_told_for(seconds) * 1000;

	if (age == 0 || age >= now)
		return -EBUSY;
	ts_stage_name_note(&stage->index, known_as, now - age, bringing->inode);
	return 0;
}
