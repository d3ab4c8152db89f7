/* SPDX-License-Identifier: MIT */
/* Finding copies of files, by what is open or by a known name, or the right to make them. */
#include "leader/files/index_private.h"
#include "leader/files/stage_private.h"
#include "leader/files/stager.h"
#include "shim/log.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <unistd.h>

/* Times the name may change under our hands before we give up. */
#define TRIES 64

/* Whether the copy with attributes @copy is what the index says, and that is @source. */
static bool is_copy_of(const struct ts_stage *stage, const struct stat *copy,
	const struct ts_stage_source *source)
{
	const struct stat *st = source->stat;
	struct ts_stage_attributes was;

	return copy->st_uid == stage->index.uid && copy->st_nlink == 1 &&
	       ts_stage_index_find(&stage->index, copy, &was, NULL) &&
	       was.inode == st->st_ino && ts_stage_index_agrees(&was, st);
}

/*
 * The first user but the maker asks the storage; see leader/files/stage.h.  On FUSE each user
 * does: an open asks for no attributes there, and those that the kernel has kept may be of a
 * file that was replaced.  After the open, for it is the open that renews what sshfs and s3fs
 * keep.
 */
static int confirm(
	struct ts_stage *stage, const struct stat *copy, const struct ts_stage_source *source)
{
	if (!source->is_fuse && ts_stage_index_is_confirmed(&stage->index, copy->st_ino))
		return 0;
	int r = ts_stage_check(source);
	if (r == 0)
		ts_stage_index_confirm(&stage->index, copy->st_ino);
	return r;
}

/* Errors: -ENOENT no copy; -EPERM a file that is none; -ESTALE one of what is no more. */
static int open_complete(struct ts_stage *stage, const struct ts_stage_source *source,
	const char *path, int flags, struct ts_stage_copy *copy)
{
	const int kept = O_NONBLOCK | O_NOATIME | O_LARGEFILE | O_NOFOLLOW;
	struct stat st;
	/* Flags of ours would be seen in the program's descriptor, so a look comes first:
	 * others cannot put a link or a pipe in the place of a file of ours. */
	int r = ts_sys_lstat(path, &st);
	if (r == 0 && (!S_ISREG(st.st_mode) || st.st_uid != stage->index.uid))
		r = -EPERM;
	if (r < 0)
		return r;
	int fd = ts_sys_open(path, O_RDONLY | O_CLOEXEC | (flags & kept), 0);
	if (fd < 0)
		return fd;
	r = ts_sys_fstat(fd, &st);
	if (r == 0 && !is_copy_of(stage, &st, source))
		r = -EPERM;
	if (r == 0 && !copy->fetched)
		r = confirm(stage, &st, source);
	if (r < 0) {
		ts_sys_close(fd);
		return r;
	}
	copy->fd = fd;
	copy->inode = st.st_ino;
	return 0;
}

/* Make the copy if nobody does. Errors: -EBUSY, -EAGAIN as above; those of the making. */
static int try_to_make(struct ts_stage *stage, const struct ts_stage_source *source,
	const char *path, struct ts_stage_copy *copy, struct ts_stage_making *making)
{
	char *part_path TS_SCRATCH = ts_scratch();
	uint64_t start = ts_now_ns();
	int part;

	if (!part_path)
		return -ENOMEM;
	/* Under another name than the group's we would only be in the way. */
	if (geteuid() != stage->index.uid)
		return -EPERM;
	if ((uint64_t)source->stat->st_size > TS_STAGE_AT_ONCE)
		return ts_stager_begin(stage, source, path);
	ts_format(part_path, TS_STAGE_PATH, "%s.part", path);
	int r = ts_stage_take_part(part_path, path, &part);
	if (r < 0)
		return r;
	r = ts_stage_fetch(stage, source, part, part_path, path, making);
	ts_stage_release_part(part);
	copy->fetched = r == 0 && !making->got;
	copy->fetch_ns = ts_now_ns() - start;
	return r;
}

int ts_stage_open(struct ts_stage *stage, const struct ts_stage_source *source, int flags,
	uint64_t wait_ns, struct ts_stage_copy *ret_copy)
{
	struct ts_stage_copy copy = {.fd = -1};
	struct ts_stage_making making = {.alone = false};
	uint64_t start = ts_now_ns(), nap = TS_STAGE_NAP_MIN_NS;
	char *path TS_SCRATCH = ts_scratch();

	if (!path)
		return -ENOMEM;
	ts_stage_path_of(stage, source, path);
	for (int tries = 0; tries < TRIES;) {
		int r = open_complete(stage, source, path, flags, &copy);
		if (r == 0)
			*ret_copy = copy;
		if (r != -ENOENT)
			return r;
		r = try_to_make(stage, source, path, &copy, &making);
		making.alone |= r == -ETIME;
		if (r == 0 || r == -EAGAIN || r == -ETIME) {
			tries++;
			continue;
		}
		if (r != -EBUSY || ts_now_ns() - start >= wait_ns)
			return r;
		ts_stage_nap(&nap);
	}
	return -EBUSY;
}

/* ---- known names ------------------------------------------------------------------------ */

/*
 * Others can put what they like in the place of a copy that is gone: O_NONBLOCK keeps a pipe
 * from holding us up, and the inode tells a copy.  The flag is taken back, for the program can
 * see it.
 */
static int open_known(const struct ts_stage *stage, const char *path, int flags, uint64_t row)
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

int ts_stage_open_known(struct ts_stage *stage, struct ts_hash128 name, uint64_t seconds,
	int flags, uint64_t *ret_bytes)
{
	struct ts_stage_known known;
	struct stat original;
	char *path TS_SCRATCH = ts_scratch();

	if (!path)
		return -ENOMEM;
	if (!ts_stage_name_find(&stage->index, name, seconds, &known) || !known.path)
		return -ENOENT;
	ts_stage_stat_of(&known.attributes, &original);
	struct ts_stage_source source = {.fd = -1, .stat = &original, .path = known.path};
	ts_stage_path_of(stage, &source, path);
	int fd = open_known(stage, path, flags, known.row);
	if (fd >= 0)
		*ret_bytes = known.attributes.bytes;
	return fd;
}
