/* SPDX-License-Identifier: MIT */
/* Which files a thread opens while it makes a sample, and whether a reader finds the same. */
#include "leader/inputs/opens.h"

#include "leader/inputs/age.h"
#include "shim/atomic.h"
#include "shim/log.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

__thread struct ts_opens *ts_opens_armed;

/*
 * File systems whose files the kernel makes up when they are read: regular by their mode, and
 * their times say nothing about their content.
 */
static const uint32_t made_up[] = {PROC_SUPER_MAGIC, SYSFS_MAGIC, CGROUP_SUPER_MAGIC,
	CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC, SECURITYFS_MAGIC, EFIVARFS_MAGIC,
	BPF_FS_MAGIC, PSTOREFS_MAGIC, SELINUX_MAGIC, BINFMTFS_MAGIC, NSFS_MAGIC,
	0x62656570 /* configfs */, 0x65735543 /* the control files of FUSE */};

void ts_opens_begin(struct ts_opens *opens)
{
	int process = (int)getpid();
	bool nested =
		ts_opens_armed && ts_opens_armed != opens && ts_opens_armed->process == process;
	opens->why = nested ? -EALREADY : 0;
	opens->busy = opens->is_told = 0;
	opens->process = process;
	opens->begun_ns = ts_real_ns();
	opens->count = opens->text_used = 0;
	atomic_signal_fence(memory_order_seq_cst); /* a handler must find it complete */
	if (!nested)
		ts_opens_armed = opens;
}

struct ts_opens *ts_opens_pause(void)
{
	struct ts_opens *opens = ts_opens_armed;

	ts_opens_armed = NULL;
	return opens;
}

void ts_opens_resume(struct ts_opens *paused)
{
	ts_opens_armed = paused;
}

int ts_opens_end(struct ts_opens *opens)
{
	if (ts_opens_armed == opens)
		ts_opens_armed = NULL;
	else if (opens->why == 0 && opens->process != 0)
		opens->why = -EINVAL;
	opens->process = 0; /* ended: a second end() finds nothing wrong */
	return opens->why;
}

/* Identity from what stat says; false when it is no regular file. */
static bool identify(const struct stat *stat, struct ts_file_identity *ret_identity)
{
	if (!S_ISREG(stat->st_mode))
		return false;
	*ret_identity = (struct ts_file_identity){
		.device = stat->st_dev,
		.inode = stat->st_ino,
		.bytes = (uint64_t)stat->st_size,
		.modified_ns = ts_age_ns(stat->st_mtim),
		.changed_ns = ts_age_ns(stat->st_ctim),
	};
	return true;
}

static bool is_made_up(uint64_t type)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(made_up); i++)
		if (type == made_up[i])
			return true;
	return false;
}

/* Add @path, or find that it is listed already as the same file. */
static int add(struct ts_opens *opens, const char *path, const struct ts_opens_file *new)
{
	for (uint32_t i = 0; i < opens->count; i++) {
		const struct ts_opens_file *file = &opens->files[i];
		if (strcmp(opens->text + file->text_at, path) != 0)
			continue;
		bool same = file->absent ==
			    new->absent &&memcmp(&file->identity, &new->identity,
				    sizeof(file->identity)) == 0;
		return same ? 0 : -ESTALE;
	}
	size_t bytes = strlen(path);
	if (opens->count == TS_OPENS_FILES || bytes + 1 > TS_OPENS_TEXT - opens->text_used)
		return -E2BIG;
	struct ts_opens_file *file = &opens->files[opens->count++];
	*file = *new;
	file->text_at = (uint16_t)opens->text_used;
	file->path_bytes = (uint16_t)bytes;
	memcpy(opens->text + opens->text_used, path, bytes + 1);
	opens->text_used += (uint32_t)bytes + 1;
	return 0;
}

static int note(struct ts_opens *opens, int directory, const char *path, int flags, int fd,
	const struct stat *original, int error)
{
	/* O_CREAT also of a file that was there: what an open by a reader would do is more. */
	const int writes = O_CREAT | O_TRUNC | O_APPEND;
	struct ts_opens_file file = {0};
	uint64_t type;
	struct stat stat;

	if ((flags & O_ACCMODE) != O_RDONLY || (flags & writes) != 0)
		return -EROFS;
	/* A reader's plain open would not mean the same thing. */
	if ((flags & (O_PATH | O_NOFOLLOW | O_DIRECTORY)) != 0)
		return -ENODEV;
	if (fd < 0 && error != ENOENT)
		return -EIO;
	if (!path || path[0] == '\0')
		return -ENODEV;
	if (path[0] != '/' && directory != AT_FDCWD)
		return -EXDEV;
	if (fd < 0) {
		file.absent = 1;
	} else {
		if (!original && ts_sys_fstat(fd, &stat) == 0)
			original = &stat;
		if (!original || ts_sys_file_system(fd, &type) < 0)
			return -ENODEV;
		if (!identify(original, &file.identity) || is_made_up(type))
			return -ENODEV;
		file.is_near = ts_age_is_near(type);
	}
	return add(opens, path, &file);
}

static _Atomic uint32_t saw_relative; /* 0 or 1; stays, as what was read may be kept */

bool ts_opens_saw_relative(void)
{
	return ts_load_relaxed(&saw_relative) != 0;
}

static bool is_code(const char *path)
{
	const char *ending = strrchr(path, '.');
	return ending && (strcmp(ending, ".py") == 0 || strcmp(ending, ".pyc") == 0);
}

/* The list is of no use any more: where the texts of its paths were is the @path that made it
 * so. */
static void keep(struct ts_opens *opens, const char *path)
{
	size_t bytes = path ? strlen(path) : TS_OPENS_TEXT;

	if (bytes >= TS_OPENS_TEXT)
		return;
	memmove(opens->text, path, bytes + 1);
	opens->is_told = 1;
}

void ts_opens_note(struct ts_opens *opens, int directory, const char *path, int flags, int fd,
	const struct stat *original)
{
	int error = errno;
	if (fd < 0 && error == EFAULT)
		path = NULL; /* what the kernel could not read, nobody can */
	if (path && path[0] != '/' && !is_code(path))
		ts_write_relaxed(&saw_relative, 1);
	if (opens->process != (int)getpid()) {
		/* A vfork child writes into its parent's memory here, as it should: what it
		 * opens may be what the item is made from. */
		if (opens->why == 0)
			opens->why = -ECHILD;
		ts_opens_armed = NULL;
		return;
	}
	if (opens->why != 0)
		return;
	if (opens->busy) {
		opens->why = -EBUSY;
		return;
	}
	opens->busy = 1;
	atomic_signal_fence(memory_order_seq_cst);
	int r = note(opens, directory, path, flags, fd, original, error);
	atomic_signal_fence(memory_order_seq_cst);
	opens->busy = 0;
	if (r < 0) {
		opens->why = r;
		keep(opens, path);
	}
	errno = error;
}

void ts_opens_tell(const struct ts_opens *opens, char *text, size_t bytes)
{
	static const struct {
		int why;
		const char *text;
	} told[] = {
		{-EROFS, "opened to be written"},
		{-ENODEV, "which is no plain file, or opened in an unusual way"},
		{-EXDEV, "named relative to an open directory"},
		{-E2BIG, "one file too many"},
		{-ESTALE, "changed between two opens"},
		{-EIO, "could not be opened"},
	};
	const char *path = opens->is_told ? opens->text : "", *why = "";
	size_t length = strlen(path), room = bytes / 2;

	for (size_t i = 0; i < TS_ARRAY_SIZE(told); i++)
		if (told[i].why == opens->why)
			why = told[i].text;
	bool is_cut = length > room;
	(void)ts_format(text, bytes, "%s%s%s%s", is_cut ? "..." : "",
		is_cut ? path + length - room : path, length > 0 && why[0] ? ", " : "", why);
}

static int settled(const struct ts_opens_file *file, const char *path, int64_t begun_ns)
{
	struct ts_file_identity now;
	struct stat stat;
	int r = ts_sys_stat(path, &stat);

	if (file->absent)
		return r == -ENOENT ? 0 : -ESTALE;
	if (r < 0)
		return r == -ENOENT || r == -ENOTDIR ? -ESTALE : r;
	if (!identify(&stat, &now) || memcmp(&now, &file->identity, sizeof(now)) != 0)
		return -ESTALE;
	return ts_age_is_young(file->is_near, now.modified_ns, now.changed_ns, begun_ns)
		       ? -EAGAIN
		       : 0;
}

int ts_opens_settled(const struct ts_opens *opens)
{
	if (opens->why != 0)
		return opens->why;
	for (uint32_t i = 0; i < opens->count; i++) {
		const struct ts_opens_file *file = &opens->files[i];
		int r = settled(file, opens->text + file->text_at, opens->begun_ns);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- as bytes of a record --------------------------------------------------------------- */

#define MAGIC 0x3146u /* "F1" */

struct header {
	uint16_t magic, count;
	uint32_t bytes; /* of all, this header included */
};

struct entry {
	uint64_t device, inode, bytes;
	int64_t modified_ns, changed_ns;
	uint16_t path_bytes; /* without a NUL, which is not written */
	uint16_t absent;
	uint32_t zero;
};

_Static_assert(sizeof(struct header) == 8 && sizeof(struct entry) == 48, "part of the ABI");
_Static_assert(
	TS_OPENS_ENCODED_MAX >=
		sizeof(struct header) + TS_OPENS_FILES * sizeof(struct entry) + TS_OPENS_TEXT,
	"room for the largest list");

int64_t ts_opens_encode(const struct ts_opens *opens, void *buffer, size_t size)
{
	if (opens->why != 0)
		return opens->why;
	size_t bytes = sizeof(struct header) + opens->count * sizeof(struct entry);
	for (uint32_t i = 0; i < opens->count; i++)
		bytes += opens->files[i].path_bytes;
	if (bytes > size)
		return -ENOSPC;

	struct header header = {MAGIC, (uint16_t)opens->count, (uint32_t)bytes};
	unsigned char *at = buffer;
	memcpy(at, &header, sizeof(header));
	at += sizeof(header);
	for (uint32_t i = 0; i < opens->count; i++) {
		const struct ts_opens_file *file = &opens->files[i];
		struct entry entry = {file->identity.device, file->identity.inode,
			file->identity.bytes, file->identity.modified_ns,
			file->identity.changed_ns, file->path_bytes, (uint16_t)file->absent, 0};
		memcpy(at, &entry, sizeof(entry));
		memcpy(at + sizeof(entry), opens->text + file->text_at, file->path_bytes);
		at += sizeof(entry) + file->path_bytes;
	}
	return (int64_t)bytes;
}

/* @adopts: the device of @entry is another node's, and becomes that of @stat. */
static bool is_same(const struct stat *stat, struct entry *entry, bool adopts)
{
	struct ts_file_identity now;

	if (!identify(stat, &now))
		return false;
	if (adopts)
		entry->device = now.device;
	return now.device == entry->device && now.inode == entry->inode &&
	       now.bytes == entry->bytes && now.modified_ns == entry->modified_ns &&
	       now.changed_ns == entry->changed_ns;
}

static int failed(int error)
{
	return error == -ENOENT || error == -ENOTDIR ? -ESTALE : error;
}

/*
 * Whether an open there leaves the attributes as the kernel has kept them: FUSE.  What kind of
 * file system a device has is asked once, for that may be a request to a server.
 */
static bool keeps_attributes(int fd, dev_t device)
{
	static _Atomic uint64_t known[8]; /* by device: twice its number, plus 1 of FUSE */
	_Atomic uint64_t *place = &known[device % TS_ARRAY_SIZE(known)];
	uint64_t found = ts_load_relaxed(place), type;

	if (found >> 1 != device) {
		if (ts_sys_file_system(fd, &type) < 0)
			return true;
		found = (uint64_t)device << 1 | (type == TS_FUSE);
		ts_write_relaxed(place, found);
	}
	return (found & 1) != 0;
}

/*
 * Stat first: opening a device or a pipe can have effects of its own, and damaged bytes may
 * name any.  The open is the permission, and on a network file system what makes the
 * attributes fresh, or lets us ask for fresh ones; so they are compared again.
 */
static int check_file(const char *path, struct entry *entry, bool adopts)
{
	struct stat stat;
	int r = ts_sys_stat(path, &stat);
	if (entry->absent)
		return r == -ENOENT ? 0 : -ESTALE;
	if (r < 0)
		return failed(r);
	if (!is_same(&stat, entry, adopts))
		return -ESTALE;
	int fd = ts_sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return failed(fd);
	r = keeps_attributes(fd, stat.st_dev) ? ts_sys_look(fd, AT_STATX_FORCE_SYNC, &stat)
					      : ts_sys_fstat(fd, &stat);
	(void)ts_sys_close(fd);
	return r < 0 || !is_same(&stat, entry, false) ? -ESTALE : 0;
}

/*
 * The file at *@at, of which @left bytes are there; its size in the record, or an error.  What
 * was adopted is copied to @ret_adopted, unless NULL.
 */
static int64_t check_entry(const unsigned char *at, size_t left, unsigned char *ret_adopted)
{
	struct entry entry;
	char *path TS_SCRATCH = ts_scratch();

	if (!path)
		return -ENOMEM;
	if (left < sizeof(entry))
		return -EBADMSG;
	memcpy(&entry, at, sizeof(entry));
	if (entry.path_bytes == 0 || entry.path_bytes >= PATH_MAX ||
		entry.path_bytes > left - sizeof(entry) || entry.absent > 1 || entry.zero != 0)
		return -EBADMSG;
	memcpy(path, at + sizeof(entry), entry.path_bytes);
	path[entry.path_bytes] = '\0';
	if (memchr(path, '\0', entry.path_bytes))
		return -EBADMSG;
	int r = check_file(path, &entry, ret_adopted != NULL);
	if (r < 0)
		return r;
	if (ret_adopted)
		memcpy(ret_adopted, &entry, sizeof(entry));
	return (int64_t)(sizeof(entry) + entry.path_bytes);
}

static int check(const unsigned char *bytes, size_t size, unsigned char *ret_adopted)
{
	struct header header;

	if (size < sizeof(header))
		return -EBADMSG;
	memcpy(&header, bytes, sizeof(header));
	if (header.magic != MAGIC || header.count > TS_OPENS_FILES || header.bytes != size)
		return -EBADMSG;
	size_t at = sizeof(header);
	for (unsigned i = 0; i < header.count; i++) {
		int64_t used = check_entry(
			bytes + at, size - at, ret_adopted ? ret_adopted + at : NULL);
		if (used < 0)
			return (int)used;
		at += (size_t)used;
	}
	return at == size ? 0 : -EBADMSG;
}

int ts_opens_check(const void *bytes, size_t size)
{
	return check(bytes, size, NULL);
}

int ts_opens_adopt(void *bytes, size_t size)
{
	return check(bytes, size, bytes);
}
