/* SPDX-License-Identifier: MIT */
/* Answering for the originals of copies: attributes and names. */
#include "hooks/file/staged_answer.h"

#include "hooks/file/look.h"
#include "hooks/file/staged_join.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

void ts_staged_answer(struct stat *stat)
{
	struct ts_stage_attributes was;
	if (ts_staged_find(stat, &was, NULL))
		ts_look_fill(&was, stat);
}

static struct statx_timestamp time_x(int64_t seconds, uint64_t nanoseconds)
{
	return (struct statx_timestamp){.tv_sec = seconds, .tv_nsec = (uint32_t)nanoseconds};
}

static void answer_x(const struct ts_stage_attributes *was, struct statx *stat)
{
	stat->stx_mask &= was->mask;
	stat->stx_blksize = was->block_bytes;
	stat->stx_attributes = was->flags;
	stat->stx_attributes_mask = was->flags_mask;
	stat->stx_nlink = was->links;
	stat->stx_uid = was->uid;
	stat->stx_gid = was->gid;
	stat->stx_mode = (uint16_t)was->mode;
	stat->stx_ino = was->inode;
	stat->stx_size = was->bytes;
	stat->stx_blocks = was->blocks;
	stat->stx_atime = time_x(was->accessed.seconds, was->accessed.nanoseconds);
	stat->stx_mtime = time_x(was->modified.seconds, was->modified.nanoseconds);
	stat->stx_ctime = time_x(was->changed.seconds, was->changed.nanoseconds);
	stat->stx_btime = time_x(was->born.seconds, was->born.nanoseconds);
	stat->stx_dev_major = was->device_major;
	stat->stx_dev_minor = was->device_minor;
}

void ts_staged_answer_x(int fd, const char *path, struct statx *stat)
{
	struct ts_stage_attributes was;
	struct stat copy;
	/* The caller may have asked for less than what tells a copy. */
	if ((!path || path[0] == '\0') && ts_sys_fstat(fd, &copy) == 0 &&
		ts_staged_find(&copy, &was, NULL))
		answer_x(&was, stat);
}

static int64_t original_name(const struct stat *copy, char *buffer, size_t bytes)
{
	struct ts_stage_attributes was;
	char *path TS_SCRATCH = ts_scratch();
	if (!path || !ts_staged_find(copy, &was, path))
		return -ENOENT;
	size_t length = strlen(path);
	if (length > bytes)
		length = bytes;
	/* No NUL, as readlink(2).  NOLINTNEXTLINE(bugprone-not-null-terminated-result) */
	memcpy(buffer, path, length);
	return (int64_t)length;
}

/* Every path of a copy has this in it; it may be cut, but not so early. */
static bool may_be_copy(const char *name, int64_t length)
{
	return length > 0 && memmem(name, (size_t)length, "/tsshim.", 8);
}

int64_t ts_staged_answer_name(
	int directory, const char *path, char *buffer, size_t bytes, int64_t length)
{
	struct stat st;
	if (!may_be_copy(buffer, length) || ts_sys_stat_at(directory, path, &st) < 0)
		return length;
	int64_t r = original_name(&st, buffer, bytes);
	return r < 0 ? length : r;
}
