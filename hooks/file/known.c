/* SPDX-License-Identifier: MIT */
/* Paths that the group knows, at the border to the program. */
#include "hooks/file/known.h"

#include "hooks/file/staged_root.h"
#include "leader/files/stage.h"
#include "leader/group/session.h"
#include "shim/atomic.h"
#include "shim/config.h"
#include "shim/identity.h"
#include "shim/log.h"
#include "shim/rights.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

_Atomic uint32_t ts_known_seconds;

/* ---- names ------------------------------------------------------------------------------ */

struct text {
	uint64_t rights, device, inode, kind;
	char rest[PATH_MAX];
};

_Static_assert(sizeof(struct text) <= TS_SCRATCH_BYTES, "fits into a block");

static void hash(struct text *text, const char *rest, size_t length, bool link,
	struct ts_known_call *ret_call)
{
	size_t bytes = offsetof(struct text, rest) + length;
	text->rights = ts_rights();
	ts_staged_root_identity(&text->device, &text->inode);
	text->kind = link ? TS_STAGE_NAME_LINK : TS_STAGE_NAME_FOLLOWED;
	memcpy(text->rest, rest, length);
	ret_call->name = ts_hash128(text, bytes);
	if (!ts_config()->cluster || link)
		return;
	struct ts_hash128 root = ts_staged_root_across();
	text->device = root.lo;
	text->inode = root.hi;
	text->kind = TS_STAGE_NAME_ACROSS;
	ret_call->across = ts_hash128(text, bytes);
}

static bool name_absolute(const char *path, bool link, struct ts_known_call *ret_call)
{
	const char *rest;
	struct text *text TS_SCRATCH = ts_scratch();
	if (!text)
		return false;
	if (!ts_staged_root_below(path, &rest))
		return false;
	size_t length = strnlen(rest, PATH_MAX);
	if (length == PATH_MAX)
		return false;
	hash(text, rest, length, link, ret_call);
	return text->rights != 0;
}

static bool name_relative(
	int directory, const char *path, bool link, struct ts_known_call *ret_call)
{
	char *whole TS_SCRATCH = ts_scratch(), place[32];
	int64_t length;
	if (!whole)
		return false;
	if (directory == AT_FDCWD) {
		length = ts_sys_working_directory(whole, PATH_MAX);
	} else {
		ts_format(place, sizeof(place), "/proc/self/fd/%d", directory);
		length = ts_sys_readlink(place, whole, PATH_MAX);
	}
	size_t more = strnlen(path, PATH_MAX);
	if (length <= 0 || whole[0] != '/' || (size_t)length + more + 2 > PATH_MAX)
		return false;
	whole[length] = '/';
	memcpy(whole + length + 1, path, more + 1);
	return name_absolute(whole, link, ret_call);
}

static void name(int directory, const char *path, bool link, struct ts_known_call *ret_call)
{
	ret_call->is_named = false;
	if (ts_staged_is_nowhere(path) || path[0] == '\0')
		return;
	ret_call->asked_ms = ts_stage_now_ms();
	ret_call->is_named = path[0] == '/' ? name_absolute(path, link, ret_call)
					    : name_relative(directory, path, link, ret_call);
}

/* ---- the group's table ------------------------------------------------------------------ */

void ts_known_begin(void)
{
	if (ts_load_relaxed(&ts_staged_on))
		ts_write_relaxed(&ts_known_seconds, ts_config()->stage_metadata);
}

struct ts_stage *ts_known_table(void)
{
	struct ts_stage *joined = ts_staged_enter();
	if (!joined || !ts_stage_names_were_left(&joined->index, ts_identity_job()))
		return joined;
	ts_write_relaxed(&ts_known_seconds, 0); /* another process of the job has written */
	return NULL;
}

/*
 * While another thread looks for the directory nobody can tell what is below it, and waiting
 * could take as long as the storage likes.
 */
static bool breaks_promise(const struct ts_known_call *call, int fd)
{
	char *path TS_SCRATCH = ts_scratch();
	struct stat st;
	if (ts_sys_fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	bool is_pending = ts_staged_root_is_pending();
	if (ts_staged_root_has_device(fd, st.st_dev))
		return call->is_named || ts_staged_root_path(fd, path);
	return is_pending || ts_staged_root_is_pending();
}

void ts_known_written(const struct ts_known_call *call, int fd)
{
	if (TS_LIKELY(ts_load_relaxed(&ts_known_seconds) == 0))
		return;
	int saved = errno;
	if (breaks_promise(call, fd)) {
		struct ts_stage *known = ts_staged_index();
		ts_write_relaxed(&ts_known_seconds, 0);
		if (known)
			ts_stage_names_leave(&known->index, ts_identity_job());
		ts_session_count_pass(TS_REASON_STAGE_WRITTEN);
	}
	errno = saved;
}

/* ---- opening ---------------------------------------------------------------------------- */

static bool is_plain(int flags)
{
	const int kept = O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_LARGEFILE;
	return (flags & ~kept) == O_RDONLY;
}

static struct ts_stage_path path_of(const struct ts_known_call *call, uint32_t seconds)
{
	struct ts_stage_path path = {
		.across = call->across, .here = call->name, .seconds = seconds};
	uint64_t unused;
	ts_staged_root_identity(&path.root_device, &unused);
	return path;
}

/* Where nobody of the group knows the path, one of another node may. */
static int open_or_ask(struct ts_stage *joined, const struct ts_known_call *call,
	uint32_t seconds, int flags, uint64_t *ret_bytes)
{
	int fd = ts_stage_open_known(joined, call->name, seconds, flags, ret_bytes);
	if (TS_LIKELY(fd >= 0) || !ts_config()->cluster)
		return fd;
	const struct ts_stage_path path = path_of(call, seconds);
	if (!ts_stage_ask_path(joined, &path))
		return fd;
	return ts_stage_open_known(joined, call->name, seconds, flags, ret_bytes);
}

static int open_known(const struct ts_known_call *call, uint32_t seconds, int flags)
{
	uint64_t bytes = 0;
	struct ts_stage *table = ts_known_table();
	if (!table || !ts_staged_wants_copies())
		return -ENOENT;
	int fd = open_or_ask(table, call, seconds, flags, &bytes);
	if (fd >= 0)
		ts_staged_count_shared(bytes);
	return fd;
}

int ts_known_open(int directory, const char *path, int flags, struct ts_known_call *ret_call)
{
	uint32_t seconds = ts_load_relaxed(&ts_known_seconds);
	ret_call->is_named = false;
	if (TS_LIKELY(seconds == 0))
		return -1;
	int saved = errno;
	name(directory, path, false, ret_call);
	int fd = -1;
	if (ret_call->is_named && is_plain(flags))
		fd = open_known(ret_call, seconds, flags);
	errno = saved;
	return fd < 0 ? -1 : fd;
}

void ts_known_look(int directory, const char *path, struct ts_known_call *ret_call)
{
	ret_call->is_named = false;
	if (TS_LIKELY(ts_load_relaxed(&ts_known_seconds) == 0))
		return;
	int saved = errno;
	name(directory, path, false, ret_call);
	errno = saved;
}

void ts_known_note_copy(const struct ts_known_call *call, const struct ts_staged_given *given)
{
	struct ts_stage *joined = call->is_named ? ts_staged_joined() : NULL;
	if (!joined)
		return;
	ts_stage_name_note(&joined->index, call->name, call->asked_ms, given->copy);
	/* What came from another node is known there. */
	if (!given->is_made || !ts_config()->cluster)
		return;
	const struct ts_stage_path path = path_of(call, ts_load_relaxed(&ts_known_seconds));
	ts_stage_tell_path(joined, &path, given->copy);
}

/* ---- attributes ------------------------------------------------------------------------- */

/* Whether what is known may be told: as stat(2) would, from the row of the path's file. */
static bool find_stat(
	const struct ts_known_call *call, uint32_t seconds, struct ts_stage_attributes *ret_was)
{
	struct ts_stage *table = ts_known_table();
	struct ts_stage_known known;
	if (!table || !ts_stage_name_find(&table->index, call->name, seconds, &known))
		return false;
	*ret_was = known.attributes;
	return true;
}

bool ts_known_stat(int directory, const char *path, bool is_link, struct stat *ret_stat,
	struct ts_known_call *ret_call)
{
	uint32_t seconds = ts_load_relaxed(&ts_known_seconds);
	struct ts_stage_attributes was;
	ret_call->is_named = false;
	if (TS_LIKELY(seconds == 0))
		return false;
	int saved = errno;
	name(directory, path, is_link, ret_call);
	bool is_known = ret_call->is_named && find_stat(ret_call, seconds, &was);
	if (is_known) {
		memset(ret_stat, 0, sizeof(*ret_stat));
		ts_staged_fill(&was, ret_stat);
	}
	errno = saved;
	return is_known;
}

/* @stat for the index: all but the time of birth and the flags. */
static void get_attributes(const struct stat *stat, struct ts_stage_attributes *ret_attributes)
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

void ts_known_note_stat(const struct ts_known_call *call, const struct stat *stat)
{
	struct ts_stage *joined = call->is_named ? ts_staged_joined() : NULL;
	struct ts_stage_attributes attributes;
	/* A directory's change with what is made in it, a special file's without a trace, and a
	 * young file's soon. */
	bool is_steady = S_ISREG(stat->st_mode) || S_ISLNK(stat->st_mode);
	if (!joined || !is_steady || !ts_staged_root_has_device(-1, stat->st_dev) ||
		ts_staged_root_is_young(stat))
		return;
	get_attributes(stat, &attributes);
	ts_stage_name_note_attributes(&joined->index, call->name, call->asked_ms, &attributes);
}
