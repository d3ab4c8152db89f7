/* SPDX-License-Identifier: MIT */
/* A look at an original. */
#include "hooks/file/look.h"

#include "shim/sys.h"

#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <time.h>

/* A file that was written since cannot have the times it had before, whatever the clock. */
#define AGE_NS INT64_C(600000000000)

static int64_t age_wanted(void)
{
#ifdef TS_TEST_BUILD
	if (getenv("TSSHIM_TEST_YOUNG_INPUTS"))
		return INT64_MIN;
#endif
	return AGE_NS;
}

static int64_t to_ns(struct timespec time)
{
	const int64_t second = 1000000000;
	if (time.tv_sec > INT64_MAX / second - 1 || time.tv_sec < INT64_MIN / second + 1)
		return INT64_MAX; /* of no time that we know: young for ever */
	return (int64_t)time.tv_sec * second + time.tv_nsec;
}

bool ts_look_is_young(const struct stat *st)
{
	struct timespec now;
	int64_t modified = to_ns(st->st_mtim), changed = to_ns(st->st_ctim);
	int64_t wanted = age_wanted();
	if (wanted == INT64_MIN)
		return false;
	if (clock_gettime(CLOCK_REALTIME, &now) < 0)
		return true;
	return (modified > changed ? modified : changed) > to_ns(now) - wanted;
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
