/* SPDX-License-Identifier: MIT */
/* Staged files at the border to the program: giving out copies, answering for originals. */
#include "hooks/file/staged.h"

#include "hooks/file/staged_root.h"
#include "leader/session.h"
#include "leader/stage.h"
#include "shim/atomic.h"
#include "shim/config.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* A file that was written since cannot have the times it had before, whatever the clock. */
#define AGE_NS INT64_C(600000000000)

#define RETRY_NS UINT64_C(1000000000)

_Atomic int ts_staged_on;

static struct ts_stage *_Atomic stage;
static _Atomic uint32_t stage_serial; /* of the process that made sure of it */
static _Atomic pid_t attaching;       /* the process one thread of which is at it, or 0 */
static _Atomic uint64_t retry_at;

void ts_staged_begin(void)
{
	const struct ts_config *config = ts_config();
	if (config->stage != TS_STAGE_OFF && config->dataset_dir && config->stage_bytes > 0)
		ts_store_relaxed(&ts_staged_on, 1);
}

/* ---- joining ---------------------------------------------------------------------------- */

/* The index of a group that had ended meanwhile is nobody's: a fork child may have it still. */
static struct ts_stage *still_valid(uint32_t serial)
{
	struct ts_stage *known = ts_load_acquire(&stage);
	if (!known || ts_load_relaxed(&stage_serial) == serial)
		return known;
	if (known->capacity == 0 || !ts_object_is_named(&known->index.object))
		return NULL;
	ts_store_relaxed(&stage_serial, serial);
	return known;
}

/* Old ones stay mapped: another thread may be asking them. */
static struct ts_stage *join(const struct ts_session *session)
{
	const struct ts_config *config = ts_config();
	struct ts_stage *joined;
	if (ts_stage_attach(session->store, config->group, config->stage_dir,
		    config->stage_bytes, &joined) < 0) {
		ts_store_relaxed(&retry_at, ts_now_ns() + RETRY_NS);
		return NULL;
	}
	ts_store_relaxed(&stage_serial, ts_identity_serial());
	ts_store_release(&stage, joined); /* pairs with the loads of `stage` */
	return joined;
}

static bool begin_attaching(void)
{
	pid_t self = getpid(), holder = ts_load_relaxed(&attaching);
	return ts_now_ns() >= ts_load_relaxed(&retry_at) && holder != self &&
	       ts_cas(&attaching, &holder, self);
}

static struct ts_stage *enter(const struct ts_session *session)
{
	uint32_t serial = ts_identity_serial();
	struct ts_stage *joined = still_valid(serial);
	if (joined && joined->capacity > 0)
		return joined;
	if (!begin_attaching())
		return NULL;
	joined = still_valid(serial);
	if (!joined || joined->capacity == 0)
		joined = join(session);
	ts_store_release(&attaching, 0);
	return joined;
}

/* ---- opening ---------------------------------------------------------------------------- */

static bool is_plain_reading(int flags)
{
	const int other = O_APPEND | O_CREAT | O_DIRECT | O_DIRECTORY | O_DSYNC | O_EXCL |
			  O_PATH | O_SYNC | O_TMPFILE | O_TRUNC | O_ASYNC;
	return (flags & O_ACCMODE) == O_RDONLY && (flags & other) == 0;
}

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

static bool is_young(const struct stat *st)
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

static int give_copy(struct ts_stage *joined, const struct ts_stage_source *source, int flags)
{
	uint64_t bytes = (uint64_t)source->stat->st_size;
	uint64_t wait_ns = ts_session_deadline_ns(TS_KIND_BYTES, bytes);
	struct ts_stage_copy copy;
	int r = ts_stage_open(joined, source, flags, wait_ns, &copy);
	if (r < 0)
		return r;
	r = replace(source->fd, copy.fd);
	ts_sys_close(copy.fd);
	if (r == 0)
		count(&copy, bytes);
	return r;
}

/* A file under the directory; what is not staged from here on has a reason. */
static void consider(const struct ts_stage_source *source, int flags)
{
	enum ts_reason reason = TS_REASON_STAGE_YOUNG;
	if (is_young(source->stat)) {
		ts_session_count_pass(reason);
		return;
	}
	const struct ts_session *session = ts_session_enter_for_files(&reason);
	struct ts_stage *joined = session ? enter(session) : NULL;
	if (session && !joined)
		reason = TS_REASON_STAGE_FAILED;
	int r = joined ? give_copy(joined, source, flags) : 0;
	if (r < 0)
		reason = reason_of(r);
	if (!joined || r < 0)
		ts_session_count_pass(reason);
}

/* Apart, for its path is large: files that are none of ours need no such stack. */
static TS_NOINLINE void consider_path(int fd, const struct stat *st, int flags)
{
	char path[PATH_MAX];
	struct ts_stage_source source = {.fd = fd, .stat = st, .path = path};
	int saved = errno;
	if (ts_staged_root_path(fd, path))
		consider(&source, flags);
	errno = saved;
}

void ts_staged_open(int fd, int flags)
{
	struct stat st;
	if (!is_plain_reading(flags) || ts_sys_fstat(fd, &st) < 0 ||
		!ts_staged_root_has_device(st.st_dev))
		return;
	if (!S_ISREG(st.st_mode) || st.st_size <= 0 || (st.st_mode & 0444) == 0)
		return;
	if (ts_identity_check() != TS_VFORK_CHILD)
		consider_path(fd, &st, flags);
}

/* ---- answering -------------------------------------------------------------------------- */

/*
 * A copy may come to a process that never opened one: from a shell, by exec, through a socket.
 * What has a copy's mode and owner is a reason to look for the group's index, which most
 * processes never meet.
 */
static const struct ts_stage *stage_to_ask(void)
{
	struct ts_stage *known = ts_load_acquire(&stage);
	if (TS_LIKELY(known) || ts_identity_check() != TS_SAME_PROCESS || !begin_attaching())
		return known;
	known = ts_load_acquire(&stage);
	if (!known && ts_stage_attach_existing(ts_config()->group, &known) == 0)
		ts_store_release(&stage, known);
	if (!known)
		ts_store_relaxed(&retry_at, ts_now_ns() + RETRY_NS);
	ts_store_release(&attaching, 0);
	return known;
}

static bool find(const struct stat *copy, struct ts_stage_attributes *ret_attributes)
{
	if (TS_LIKELY(copy->st_mode != (S_IFREG | 0400)))
		return false;
	int saved = errno;
	const struct ts_stage *known = stage_to_ask();
	errno = saved;
	return known && copy->st_uid == geteuid() &&
	       ts_stage_index_find(&known->index, copy, ret_attributes, NULL);
}

void ts_staged_answer(struct stat *stat)
{
	struct ts_stage_attributes was;
	if (!find(stat, &was))
		return;
	stat->st_dev = makedev(was.device_major, was.device_minor);
	stat->st_ino = was.inode;
	stat->st_mode = was.mode;
	stat->st_nlink = was.links;
	stat->st_uid = was.uid;
	stat->st_gid = was.gid;
	stat->st_size = (off_t)was.bytes;
	stat->st_blksize = (blksize_t)was.block_bytes;
	stat->st_blocks = (blkcnt_t)was.blocks;
	stat->st_atim = (struct timespec){was.accessed.seconds, (long)was.accessed.nanoseconds};
	stat->st_mtim = (struct timespec){was.modified.seconds, (long)was.modified.nanoseconds};
	stat->st_ctim = (struct timespec){was.changed.seconds, (long)was.changed.nanoseconds};
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
	if ((!path || path[0] == '\0') && ts_sys_fstat(fd, &copy) == 0 && find(&copy, &was))
		answer_x(&was, stat);
}
