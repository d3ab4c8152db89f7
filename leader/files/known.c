/* SPDX-License-Identifier: MIT */
/* Opening the copy of a file whose name the group knows. */
#include "leader/files/known.h"

#include "leader/files/index_private.h"
#include "leader/files/stage_private.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <sys/sysmacros.h>

/* What ts_stage_open() would have been asked for. */
static void fill_stat(const struct ts_stage_attributes *was, struct stat *ret_stat)
{
	*ret_stat = (struct stat){
		.st_dev = makedev(was->device_major, was->device_minor),
		.st_ino = was->inode,
		.st_size = (off_t)was->bytes,
		.st_mtim = {was->modified.seconds, (long)was->modified.nanoseconds},
		.st_ctim = {was->changed.seconds, (long)was->changed.nanoseconds},
	};
}

/*
 * Others can put what they like in the place of a copy that is gone: O_NONBLOCK keeps a pipe
 * from holding us up, and the inode tells a copy.  The flag is taken back, for the program can
 * see it.
 */
static int open_copy(const struct ts_stage *stage, const char *path, int flags, uint64_t row)
{
	struct stat copy;
	int fd = ts_sys_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | (flags & O_CLOEXEC), 0);

	if (fd < 0)
		return fd;
	int r = ts_sys_fstat(fd, &copy);
	if (r == 0 && (copy.st_uid != stage->index.uid || copy.st_nlink != 1 ||
			      copy.st_dev != stage->index.device ||
			      ts_stage_index_row_of(&stage->index, copy.st_ino) != row ||
			      !ts_stage_index_find(&stage->index, &copy,
				      &(struct ts_stage_attributes){0}, NULL)))
		r = -ENOENT;
	if (r == 0 && (flags & O_NONBLOCK) == 0)
		r = ts_sys_fcntl(fd, F_SETFL, NULL);
	if (r < 0) {
		ts_sys_close(fd);
		return r;
	}
	return fd;
}

int ts_stage_open_known(struct ts_stage *stage, struct ts_hash128 name, uint64_t after_ms,
	uint64_t seconds, int flags, uint64_t *ret_bytes)
{
	struct ts_stage_known known;
	struct stat original;
	char path[TS_STAGE_PATH];

	if (!ts_stage_name_find(&stage->index, name, after_ms, seconds, &known) || !known.path)
		return -ENOENT;
	fill_stat(&known.attributes, &original);
	struct ts_stage_source source = {.fd = -1, .stat = &original, .path = known.path};
	ts_stage_path_of(stage, &source, path);
	int fd = open_copy(stage, path, flags, known.row);
	if (fd >= 0)
		*ret_bytes = known.attributes.bytes;
	return fd;
}
