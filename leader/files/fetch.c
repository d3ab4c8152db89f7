/* SPDX-License-Identifier: MIT */
/* Making one copy of a file: asking other nodes, room, bytes, attributes, name. */
#include "leader/files/remote.h"
#include "leader/files/stage_private.h"
#include "shim/config.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <sys/mman.h>

int ts_stage_use_others(struct ts_stage *stage, struct ts_store *store)
{
	return ts_mail_attach(store, &stage->mail);
}

/* A stager knows of no cluster itself, and leaves the starting to who opens files. */
static bool is_served(struct ts_stage *stage)
{
	return stage->mail.table && ts_mail_is_served(&stage->mail,
					    ts_config()->cluster ? ts_mail_start : NULL, NULL);
}

void ts_stage_call_helper(struct ts_stage *stage)
{
	(void)is_served(stage);
}

int ts_stage_ask_others(struct ts_stage *stage, const struct ts_stage_source *source,
	const struct ts_stage_range *range, struct ts_stage_errand *ret_errand)
{
	struct stat part;

	*ret_errand = (struct ts_stage_errand){.is_won = false};
	if (!is_served(stage) || ts_sys_fstat(range->part, &part) < 0)
		return 0;
	const struct ts_mail_request request = {
		.kind = TS_MAIL_FETCH,
		.piece = range->piece,
		.name = ts_stage_name_across(source),
		.copy = ts_stage_digits_of(source),
		.inode = part.st_ino,
		.at = range->at,
		.bytes = range->bytes,
		.until_ns = ts_now_ns() + ts_mail_wait_ns(),
	};
	int r = ts_mail_ask(&stage->mail, &request, &ret_errand->index);
	if (r == -ETIME)
		return r;
	ret_errand->is_won = r == TS_MAIL_SAYS_WON;
	return r == TS_MAIL_SAYS_GOT;
}

void ts_stage_tell_others(struct ts_stage *stage, struct ts_stage_errand *errand, bool is_made)
{
	if (!errand->is_won)
		return;
	errand->is_won = false;
	if (is_made)
		ts_mail_store(&stage->mail, errand->index);
	else
		ts_mail_return(&stage->mail, errand->index);
}

bool ts_stage_ask_path(struct ts_stage *stage, const struct ts_stage_path *path)
{
	const struct ts_mail_request request = {
		.kind = TS_MAIL_BRING,
		.name = path->across,
		.known_as = path->here,
		.root_device = path->root_device,
		.seconds = path->seconds,
		.until_ns = ts_now_ns() + ts_mail_wait_ns(),
	};
	uint32_t unused;

	return ts_stage_told_for(path->seconds) > 0 && is_served(stage) &&
	       ts_mail_ask(&stage->mail, &request, &unused) == TS_MAIL_SAYS_GOT;
}

void ts_stage_tell_path(struct ts_stage *stage, const struct ts_stage_path *path, uint64_t copy)
{
	const struct ts_mail_request request = {
		.kind = TS_MAIL_NAME,
		.name = path->across,
		.inode = copy,
		.root_device = path->root_device,
		.seconds = path->seconds,
		.until_ns = ts_now_ns() + ts_mail_wait_ns(),
	};

	if (ts_stage_told_for(path->seconds) > 0 && is_served(stage))
		(void)ts_mail_tell(&stage->mail, &request);
}

/* From here on the kernel is told to read ahead; less is one request anyway. */
#define AHEAD_FROM (128u << 10)

/*
 * What a change of a file changes.  The time of the last use is not among it: after a read it
 * would be a request to the storage to ask for that.
 */
#define CHANGES (STATX_TYPE | STATX_MODE | STATX_INO | STATX_SIZE | STATX_MTIME | STATX_CTIME)

/* Whether the original is what it was when it was opened, as fresh as @sync asks for. */
static int compare(
	const struct ts_stage_source *source, int sync, unsigned wanted, struct statx *ret_now)
{
	const struct stat *st = source->stat;
	struct statx now;
	int r = ts_sys_statx(source->fd, sync, wanted, &now);

	if (r < 0)
		return r;
	if (now.stx_ino != st->st_ino || now.stx_size != (uint64_t)st->st_size ||
		now.stx_mtime.tv_sec != st->st_mtim.tv_sec ||
		now.stx_mtime.tv_nsec != st->st_mtim.tv_nsec ||
		now.stx_ctime.tv_sec != st->st_ctim.tv_sec ||
		now.stx_ctime.tv_nsec != st->st_ctim.tv_nsec)
		return -ESTALE;
	*ret_now = now;
	return 0;
}

int ts_stage_look(const struct ts_stage_source *source, int sync, struct statx *ret_attributes)
{
	return compare(source, sync, STATX_BASIC_STATS | STATX_BTIME, ret_attributes);
}

int ts_stage_check(const struct ts_stage_source *source)
{
	struct statx now;

	return compare(source, AT_STATX_FORCE_SYNC, CHANGES, &now);
}

/* A deleted or moved file has none. */
int ts_stage_check_path(const struct ts_stage_source *source)
{
	struct stat named;
	int r = ts_sys_stat(source->path, &named);

	if (r < 0)
		return r == -ENOENT ? -ESTALE : r;
	return named.st_dev == source->stat->st_dev && named.st_ino == source->stat->st_ino
		       ? 0
		       : -ESTALE;
}

int ts_stage_make_room(struct ts_stage *stage, int part, uint64_t bytes, bool *admitted)
{
	int r = 0;

	if (!ts_limits_allow_file(bytes))
		return -ENOSPC;
	if (!*admitted) {
		r = ts_stage_admit(stage, bytes);
		if (r < 0)
			return r;
		*admitted = true;
		TS_KILLPOINT(stage_admitted);
		r = ts_sys_ftruncate(part, bytes);
	}
	if (r == 0)
		r = ts_sys_fallocate(part, 0, bytes);
	TS_KILLPOINT(stage_allocated);
	return r;
}

/*
 * Whether reads of @fd go past the page cache now.  The descriptor is one that nobody knows
 * yet: the program's open(2) has not returned.  *ret_flags are what it had before.
 */
static bool begin_direct(int fd, int *ret_flags)
{
	*ret_flags = ts_sys_fcntl(fd, F_GETFL, NULL);
	return *ret_flags >= 0 &&
	       ts_sys_fcntl(fd, F_SETFL, (void *)(intptr_t)(*ret_flags | O_DIRECT)) == 0;
}

/*
 * Read into a mapping of the copy: no buffer of ours, no second copy.  The memory is there, and
 * where it is not after all the kernel says EFAULT to the read and sends no signal.
 *
 * FUSE drops a file's pages whenever somebody opens it, also those that we wait for: four jobs
 * in the same order then fetch a quarter more than there is.  Direct reads know no pages, and
 * ask for as much at once as the file system takes; one that does not like them says EINVAL.
 */
static int fill(int part, const struct ts_stage_source *source, uint64_t bytes)
{
	int saved = errno, flags, r = -EINVAL;

	char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, part, 0);
	if (map == MAP_FAILED) {
		errno = saved;
		return -ENOMEM;
	}
	if (source->is_fuse && begin_direct(source->fd, &flags)) {
		r = ts_sys_read_all(source->fd, map, bytes, 0);
		(void)ts_sys_fcntl(source->fd, F_SETFL, (void *)(intptr_t)flags);
	}
	if (r == -EINVAL) {
		if (bytes > AHEAD_FROM)
			ts_sys_will_need(source->fd, bytes);
		r = ts_sys_read_all(source->fd, map, bytes, 0);
	}
	munmap(map, bytes);
	errno = saved;
	return r;
}

void ts_stage_attributes_of(const struct statx *stx, struct ts_stage_attributes *ret_attributes)
{
	*ret_attributes = (struct ts_stage_attributes){
		.inode = stx->stx_ino,
		.bytes = stx->stx_size,
		.blocks = stx->stx_blocks,
		.flags = stx->stx_attributes,
		.flags_mask = stx->stx_attributes_mask,
		.mode = stx->stx_mode,
		.uid = stx->stx_uid,
		.gid = stx->stx_gid,
		.links = stx->stx_nlink,
		.block_bytes = stx->stx_blksize,
		.device_major = stx->stx_dev_major,
		.device_minor = stx->stx_dev_minor,
		.mask = stx->stx_mask,
		.accessed = {stx->stx_atime.tv_sec, stx->stx_atime.tv_nsec},
		.modified = {stx->stx_mtime.tv_sec, stx->stx_mtime.tv_nsec},
		.changed = {stx->stx_ctime.tv_sec, stx->stx_ctime.tv_nsec},
		.born = {stx->stx_btime.tv_sec, stx->stx_btime.tv_nsec},
	};
}

/* Programs without us see the copy itself: let it at least have the times of the original. */
static int dress(int part, const struct ts_stage_attributes *was)
{
	const struct timespec times[2] = {
		{.tv_sec = was->accessed.seconds, .tv_nsec = (long)was->accessed.nanoseconds},
		{.tv_sec = was->modified.seconds, .tv_nsec = (long)was->modified.nanoseconds}};
	int r = ts_sys_futimens(part, times);

	return r < 0 ? r : ts_sys_fchmod(part, 0400);
}

int ts_stage_finish(struct ts_stage *stage, const char *path, int part,
	const struct ts_stage_attributes *was)
{
	struct stat st = {.st_ino = 0};
	int r = dress(part, was);

	TS_KILLPOINT(stage_finished);
	if (r == 0)
		r = ts_sys_fstat(part, &st);
	if (r == 0)
		r = ts_stage_index_add(&stage->index, st.st_ino, was, path);
	TS_KILLPOINT(stage_noted);
	return r;
}

int ts_stage_settle_part(struct ts_stage *stage, const char *part_path, const char *path,
	int error, uint64_t admitted)
{
	int r = error < 0 ? error : ts_sys_rename(part_path, path);

	TS_KILLPOINT(stage_renamed);
	if (r == 0) {
		ts_stage_index_count(&stage->index);
		return 0;
	}
	(void)ts_sys_unlink(part_path);
	if (admitted > 0)
		ts_stage_index_return(&stage->index, admitted);
	return r;
}

/* From another node or, where @errand says so or none has it, from the storage. */
static int get(struct ts_stage *stage, const struct ts_stage_source *source, int part,
	struct ts_stage_making *making)
{
	const struct ts_stage_range all = {
		.part = part, .bytes = (uint64_t)source->stat->st_size};
	int r = making->alone ? 0 : ts_stage_ask_others(stage, source, &all, &making->errand);

	TS_KILLPOINT(stage_asked);
	making->got = r > 0;
	if (r == 0)
		return fill(part, source, all.bytes);
	return r < 0 ? r : 0;
}

static int fetch(struct ts_stage *stage, const struct ts_stage_source *source, int part,
	bool *admitted, struct ts_stage_making *making)
{
	uint64_t bytes = (uint64_t)source->stat->st_size;
	struct ts_stage_attributes was;
	struct statx before, after;
	int r = ts_stage_look(source, AT_STATX_DONT_SYNC, &before);

	if (r == 0)
		r = ts_stage_check_path(source);
	if (r == 0)
		r = ts_stage_make_room(stage, part, bytes, admitted);
	if (r == 0)
		r = get(stage, source, part, making);
	TS_KILLPOINT(stage_filled);
	if (r == 0)
		r = compare(source, AT_STATX_DONT_SYNC, CHANGES, &after);
	if (r < 0)
		return r;
	ts_stage_attributes_of(&before, &was);
	return ts_stage_finish(stage, source->path, part, &was);
}

int ts_stage_fetch(struct ts_stage *stage, const struct ts_stage_source *source, int part,
	const char *part_path, const char *path, struct ts_stage_making *making)
{
	struct stat st;
	/* One that has its size was admitted by somebody who was killed since. */
	bool admitted = ts_sys_fstat(part, &st) == 0 && st.st_size == source->stat->st_size;
	/* It may be read-only already, and root's umask may be anything. */
	int r = ts_sys_fchmod(part, 0600);

	if (r == 0)
		r = fetch(stage, source, part, &admitted, making);
	r = ts_stage_settle_part(
		stage, part_path, path, r, admitted ? (uint64_t)source->stat->st_size : 0);
	ts_stage_tell_others(stage, &making->errand, r == 0);
	return r;
}
