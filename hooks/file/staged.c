/* SPDX-License-Identifier: MIT */
/* Staged files at the border to the program: giving out copies, answering for originals. */
#include "hooks/file/staged.h"

#include "hooks/file/look.h"
#include "hooks/file/staged_join.h"
#include "hooks/file/staged_restore.h"
#include "hooks/file/staged_root.h"
#include "leader/group/session.h"
#include "leader/files/stage.h"
#include "shim/atomic.h"
#include "shim/config.h"
#include "shim/helper.h"
#include "shim/identity.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

_Atomic int ts_staged_on;

void ts_staged_begin(void)
{
	const struct ts_config *config = ts_config();
	bool named = config->dataset_dir && config->dataset_dir[0] == '/';
	if (config->stage == TS_STAGE_OFF || !named || config->stage_bytes == 0)
		return;
	ts_helper_find();
	ts_write_relaxed(&ts_staged_on, 1);
	ts_write_relaxed(&ts_known_seconds, config->stage_metadata);
}

/* ---- opening ---------------------------------------------------------------------------- */

static bool is_plain_reading(int flags)
{
	/* O_SYNC has the bit of O_DSYNC in it, and O_TMPFILE that of O_DIRECTORY. */
	const int other = O_APPEND | O_CREAT | O_DIRECT | O_EXCL | O_PATH | O_SYNC | O_TMPFILE |
			  O_TRUNC | O_ASYNC;
	return (flags & O_ACCMODE) == O_RDONLY && (flags & other) == 0;
}

static enum ts_reason reason_of(int error)
{
	switch (error) {
	case -EFBIG:
		return TS_REASON_STAGE_LARGE;
	case -ENOSPC:
	case -EDQUOT:
		return TS_REASON_STAGE_FULL;
	case -EBUSY:
		return TS_REASON_STAGE_BUSY;
	case -ESTALE:
		return TS_REASON_STAGE_CHANGED;
	default:
		return TS_REASON_STAGE_FAILED;
	}
}

static void count(const struct ts_stage_copy *copy, uint64_t bytes)
{
	const struct ts_lease lease = {.bytes = bytes};
	if (copy->fetched)
		ts_session_count_produced(TS_KIND_BYTES, bytes, copy->fetch_ns);
	else
		ts_session_count_shared(TS_KIND_BYTES, &lease);
}

/* Put the copy where the program's descriptor is; that one's original is closed by it. */
static int replace(int fd, int copy)
{
	int flags = ts_sys_fcntl(fd, F_GETFD, NULL);
	if (flags < 0)
		return flags;
	int r = ts_sys_dup3(copy, fd, (flags & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0);
	return r < 0 ? r : 0;
}

static int give_copy(struct ts_stage *joined, const struct ts_stage_source *source, int flags,
	const struct ts_known_call *call)
{
	uint64_t bytes = (uint64_t)source->stat->st_size;
	uint64_t wait_ns = ts_session_deadline_ns(TS_KIND_BYTES, bytes);
	struct ts_stage_copy copy;
	int r = ts_stage_open(joined, source, flags, wait_ns, &copy);
	if (r < 0)
		return r;
	r = replace(source->fd, copy.fd);
	ts_sys_close(copy.fd);
	if (r < 0)
		return r;
	ts_staged_note_given();
	count(&copy, bytes);
	ts_known_note_copy(call, source->stat->st_ino, copy.inode, copy.fetched);
	return 0;
}

/* A file under the directory; what is not staged from here on has a reason. */
static void consider(
	const struct ts_stage_source *source, int flags, const struct ts_known_call *call)
{
	enum ts_reason reason = TS_REASON_STAGE_YOUNG;
	if (ts_staged_is_unwanted() ||
		ts_staged_is_locked(source->stat->st_ino, source->path)) {
		ts_session_count_pass(TS_REASON_STAGE_LOCKS);
		return;
	}
	if (ts_look_is_young(source->stat, ts_staged_root_type())) {
		ts_session_count_pass(reason);
		return;
	}
	const struct ts_session *session = ts_session_enter_for_files(&reason);
	struct ts_stage *joined = session ? ts_staged_join(session) : NULL;
	if (session && !joined)
		reason = TS_REASON_STAGE_FAILED;
	int r = joined ? give_copy(joined, source, flags, call) : 0;
	if (r < 0)
		reason = reason_of(r);
	if (!joined || r < 0)
		ts_session_count_pass(reason);
}

/* Whether it is under the directory. */
static bool consider_path(
	int fd, const struct stat *st, int flags, const struct ts_known_call *call)
{
	char *path TS_SCRATCH = ts_scratch();
	struct ts_stage_source source = {
		.fd = fd, .stat = st, .path = path, .past_cache = ts_staged_root_is_fuse()};
	int saved = errno;
	bool is_ours = path && ts_staged_root_path(fd, path);
	if (is_ours)
		consider(&source, flags, call);
	errno = saved;
	return is_ours;
}

/* The descriptor says of many files that they are none of ours, and the path of some more. */
static void open_reading(int fd, const char *path, int flags, const struct ts_known_call *call)
{
	struct stat st;
	if (ts_staged_root_is_outside(path) || ts_sys_look(fd, AT_STATX_SYNC_AS_STAT, &st) < 0)
		return;
	if (!ts_staged_root_has_device(fd, st.st_dev)) {
		ts_staged_root_note_outside(path, st.st_dev);
		return;
	}
	if (!S_ISREG(st.st_mode) || st.st_size <= 0 || (st.st_mode & 0444) == 0)
		return;
	if (ts_identity_check() != TS_VFORK_CHILD && !consider_path(fd, &st, flags, call))
		ts_staged_root_note_outside(path, st.st_dev);
}

void ts_staged_open(int fd, const char *path, int flags, const struct ts_known_call *call)
{
	if ((flags & (O_ACCMODE | O_CREAT | O_TRUNC)) != O_RDONLY)
		ts_known_written(fd, call->is_named);
	if (is_plain_reading(flags))
		open_reading(fd, path, flags, call);
}
