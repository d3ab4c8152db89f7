/* SPDX-License-Identifier: MIT */
/* A look at an original. */
#include "hooks/file/look.h"

#include "leader/inputs/age.h"
#include "shim/sys.h"

#include <string.h>
#include <sys/sysmacros.h>

bool ts_look_is_young(const struct stat *st, uint64_t type)
{
	return ts_age_is_young(ts_age_is_near(type), ts_age_ns(st->st_mtim),
		ts_age_ns(st->st_ctim), ts_real_ns());
}

/* ---- attributes ------------------------------------------------------------------------- */

void ts_look_fill(const struct ts_stage_attributes *was, struct stat *stat)
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

/* What stat(2) tells, which is all but the time of birth and the flags. */
void ts_look_attributes(const struct stat *stat, struct ts_stage_attributes *ret_attributes)
{
	memset(ret_attributes, 0, sizeof(*ret_attributes)); /* it is compared as a whole */
	ret_attributes->inode = stat->st_ino;
	ret_attributes->bytes = (uint64_t)stat->st_size;
	ret_attributes->blocks = (uint64_t)stat->st_blocks;
	ret_attributes->mode = stat->st_mode;
	ret_attributes->uid = stat->st_uid;
	ret_attributes->gid = stat->st_gid;
	ret_attributes->links = (uint32_t)stat->st_nlink;
	ret_attributes->block_bytes = (uint32_t)stat->st_blksize;
	ret_attributes->device_major = major(stat->st_dev);
	ret_attributes->device_minor = minor(stat->st_dev);
	ret_attributes->mask = STATX_BASIC_STATS;
	ret_attributes->accessed.seconds = stat->st_atim.tv_sec;
	ret_attributes->accessed.nanoseconds = (uint64_t)stat->st_atim.tv_nsec;
	ret_attributes->modified.seconds = stat->st_mtim.tv_sec;
	ret_attributes->modified.nanoseconds = (uint64_t)stat->st_mtim.tv_nsec;
	ret_attributes->changed.seconds = stat->st_ctim.tv_sec;
	ret_attributes->changed.nanoseconds = (uint64_t)stat->st_ctim.tv_nsec;
}
