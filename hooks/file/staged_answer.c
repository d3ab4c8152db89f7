/* SPDX-License-Identifier: MIT */
/* Answering for the originals of copies: attributes and names. */
#include "hooks/file/staged.h"

#include "hooks/file/staged_private.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/sysmacros.h>

static void fill(const struct ts_stage_attributes *was, struct stat *stat)
{
	stat->st_dev = makedev(was->device_major, was->device_minor);
	stat->st_ino = was->inode;
	stat->st_mode = was->mode;
	stat->st_nlink = was->links;
	stat->st_uid = was->uid;
	stat->st_gid = was->gid;
	stat->st_size = (off_t)was->bytes;
	stat->st_blksize = (blksize_t)was->block_bytes;
	stat->st_blocks = (blkcnt_t)was->blocks;
	stat->st_atim =
		(struct timespec){was->accessed.seconds, (long)was->accessed.nanoseconds};
	stat->st_mtim =
		(struct timespec){was->modified.seconds, (long)was->modified.nanoseconds};
	stat->st_ctim = (struct timespec){was->changed.seconds, (long)was->changed.nanoseconds};
}

void ts_staged_fill(const struct ts_stage_attributes *was, struct stat *ret_stat)
{
	memset(ret_stat, 0, sizeof(*ret_stat));
	fill(was, ret_stat);
}

void ts_staged_answer(struct stat *stat)
{
	struct ts_stage_attributes was;
	if (ts_staged_find(stat, &was, NULL))
		fill(&was, stat);
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

static TS_NOINLINE int64_t original_name(const struct stat *copy, char *buffer, size_t bytes)
{
	struct ts_stage_attributes was;
	char path[PATH_MAX];
	if (!ts_staged_find(copy, &was, path))
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
