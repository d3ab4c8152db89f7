/* SPDX-License-Identifier: MIT */
/* Finding copies of files, or the right to make them. */
#include "leader/stage.h"

#include "leader/killpoint.h"
#include "leader/stage_private.h"
#include "leader/stager.h"
#include "shim/hash.h"
#include "shim/log.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#define NAP_MIN_NS UINT64_C(200000)
#define NAP_MAX_NS UINT64_C(2000000)

/* Times the name may change under our hands before we give up. */
#define TRIES 64

/* ---- joining ---------------------------------------------------------------------------- */

static struct ts_stage *new_stage(uint64_t capacity)
{
	/* Not from malloc: the host may be inside its own allocator's hooks. Zeroed, too. */
	struct ts_stage *stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stage == MAP_FAILED)
		return NULL;
	stage->capacity = capacity;
	return stage;
}

void ts_stage_destroy(struct ts_stage *stage)
{
	if (!stage)
		return;
	ts_stage_index_finish(&stage->index);
	munmap(stage, sizeof(*stage));
}

int ts_stage_attach(struct ts_store *store, const char *group, const char *directory,
	uint64_t capacity, struct ts_stage **ret_stage)
{
	struct ts_stage *stage = new_stage(capacity);

	if (!stage)
		return -ENOMEM;
	int r = ts_store_lock(store);
	if (r == 0) {
		r = ts_stage_index_init(&stage->index, group, directory, capacity);
		ts_store_unlock(store);
	}
	if (r < 0) {
		munmap(stage, sizeof(*stage));
		return r;
	}
	*ret_stage = stage;
	return 0;
}

int ts_stage_attach_existing(const char *group, struct ts_stage **ret_stage)
{
	struct ts_stage *stage = new_stage(0);

	if (!stage)
		return -ENOMEM;
	int r = ts_stage_index_init(&stage->index, group, NULL, 0);
	if (r < 0) {
		munmap(stage, sizeof(*stage));
		return r;
	}
	*ret_stage = stage;
	return 0;
}

/* ---- complete copies -------------------------------------------------------------------- */

void ts_stage_path_of(const struct ts_stage *stage, const struct ts_stage_source *source,
	char path[TS_STAGE_PATH])
{
	static const char digits[] = "0123456789abcdef";
	const struct stat *st = source->stat;
	const uint64_t numbers[] = {st->st_dev, st->st_ino, (uint64_t)st->st_size,
		(uint64_t)st->st_mtim.tv_sec, (uint64_t)st->st_mtim.tv_nsec,
		(uint64_t)st->st_ctim.tv_sec, (uint64_t)st->st_ctim.tv_nsec};
	char text[sizeof(numbers) + PATH_MAX];
	size_t length = strnlen(source->path, PATH_MAX);

	memcpy(text, numbers, sizeof(numbers));
	memcpy(text + sizeof(numbers), source->path, length);
	struct ts_hash128 hash = ts_hash128(text, sizeof(numbers) + length);
	size_t at = ts_format(path, TS_STAGE_PATH, "%s", stage->index.stem);
	for (int i = 60; i >= 0; i -= 4) {
		path[at] = digits[hash.hi >> i & 15];
		path[at + 16] = digits[hash.lo >> i & 15];
		at++;
	}
	path[at + 16] = '\0';
}

/* Whether the copy with attributes @copy is what the index says, and that is @source. */
static bool is_copy_of(const struct ts_stage *stage, const struct stat *copy,
	const struct ts_stage_source *source)
{
	const struct stat *st = source->stat;
	struct ts_stage_attributes was;

	return copy->st_uid == stage->index.uid && copy->st_nlink == 1 &&
	       ts_stage_index_find(&stage->index, copy, &was, NULL) &&
	       was.inode == st->st_ino && was.bytes == (uint64_t)st->st_size &&
	       was.modified.seconds == st->st_mtim.tv_sec &&
	       was.modified.nanoseconds == (uint64_t)st->st_mtim.tv_nsec &&
	       was.changed.seconds == st->st_ctim.tv_sec &&
	       was.changed.nanoseconds == (uint64_t)st->st_ctim.tv_nsec;
}

/* The first user but the maker asks the storage; see leader/stage.h. */
static int confirm(
	struct ts_stage *stage, const struct stat *copy, const struct ts_stage_source *source)
{
	if (ts_stage_index_is_confirmed(&stage->index, copy->st_ino))
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

/* ---- the right to make one -------------------------------------------------------------- */

bool ts_stage_is_named(const char *path, const struct stat *st)
{
	struct stat named;

	return ts_sys_stat(path, &named) == 0 && named.st_dev == st->st_dev &&
	       named.st_ino == st->st_ino;
}

void ts_stage_release_part(int part)
{
	/* Said, not left to the close: a child forked meanwhile has this descriptor, too. */
	(void)ts_sys_flock(part, LOCK_UN);
	ts_sys_close(part);
}

int ts_stage_hold_part(int part, const char *part_path, struct stat *ret_stat)
{
	int r = ts_sys_flock(part, LOCK_EX | LOCK_NB);

	if (r < 0)
		return r == -EWOULDBLOCK ? -EBUSY : r;
	r = ts_sys_fstat(part, ret_stat);
	if (r < 0)
		return r;
	if (!S_ISREG(ret_stat->st_mode) || ret_stat->st_uid != geteuid())
		return -EPERM;
	return ts_stage_is_named(part_path, ret_stat) ? 0 : -EAGAIN;
}

/* One that was killed just before the rename is read-only, and we may not be root. */
static int reopen_finished(const char *part_path)
{
	struct stat st;
	int part = ts_sys_open(part_path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0);

	if (part < 0)
		return part == -ENOENT ? -EAGAIN : part;
	int r = ts_stage_hold_part(part, part_path, &st);
	if (r == 0)
		r = ts_sys_fchmod(part, 0600);
	ts_stage_release_part(part);
	return r < 0 ? r : -EAGAIN;
}

int ts_stage_lock_part(const char *part_path, int *ret_part)
{
	const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
	struct stat st;
	int part = ts_sys_open(part_path, flags, 0600);

	if (part == -EACCES)
		return reopen_finished(part_path);
	if (part < 0)
		return part;
	TS_KILLPOINT(stage_made);
	int r = ts_stage_hold_part(part, part_path, &st);
	if (r < 0) {
		ts_stage_release_part(part);
		return r;
	}
	*ret_part = part;
	return 0;
}

int ts_stage_take_part(const char *part_path, const char *path, int *ret_part)
{
	struct stat other;
	int part;
	TS_KILLPOINT(stage_looked);
	int r = ts_stage_lock_part(part_path, &part);
	TS_KILLPOINT(stage_locked);
	if (r < 0)
		return r;
	if (ts_sys_stat(path, &other) == 0) {
		/* Renamed between our look and our open: what we made is an empty file. */
		ts_sys_unlink(part_path);
		ts_stage_release_part(part);
		return -EAGAIN;
	}
	*ret_part = part;
	return 0;
}

/* Make the copy if nobody does. Errors: -EBUSY, -EAGAIN as above; those of the making. */
static int try_to_make(struct ts_stage *stage, const struct ts_stage_source *source,
	const char *path, struct ts_stage_copy *copy)
{
	char part_path[TS_STAGE_PATH];
	uint64_t start = ts_now_ns();
	int part;

	/* Under another name than the group's we would only be in the way. */
	if (geteuid() != stage->index.uid)
		return -EPERM;
	if ((uint64_t)source->stat->st_size > TS_STAGE_AT_ONCE)
		return ts_stager_begin(stage, source, path);
	ts_format(part_path, sizeof(part_path), "%s.part", path);
	int r = ts_stage_take_part(part_path, path, &part);
	if (r < 0)
		return r;
	r = ts_stage_fetch(stage, source, part, part_path, path);
	ts_stage_release_part(part);
	copy->fetched = r == 0;
	copy->fetch_ns = ts_now_ns() - start;
	return r;
}

int ts_stage_open(struct ts_stage *stage, const struct ts_stage_source *source, int flags,
	uint64_t wait_ns, struct ts_stage_copy *ret_copy)
{
	struct ts_stage_copy copy = {.fd = -1};
	uint64_t start = ts_now_ns(), nap = NAP_MIN_NS;
	uint32_t never_woken = 0;
	char path[TS_STAGE_PATH];

	ts_stage_path_of(stage, source, path);
	for (int tries = 0; tries < TRIES;) {
		int r = open_complete(stage, source, path, flags, &copy);
		if (r == 0)
			*ret_copy = copy;
		if (r != -ENOENT)
			return r;
		r = try_to_make(stage, source, path, &copy);
		if (r == 0 || r == -EAGAIN) {
			tries++;
			continue;
		}
		if (r != -EBUSY || ts_now_ns() - start >= wait_ns)
			return r;
		ts_sys_futex_wait(&never_woken, 0, nap);
		nap = ts_min_u64(nap * 2, NAP_MAX_NS);
	}
	return -EBUSY;
}
