/* SPDX-License-Identifier: MIT */
/* Which files a sample was made from, as bytes of a record: writing them, and the reader's
 * side.
 */
#include "hooks/file/opens.h"

#include "shim/scratch.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

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

	if (!ts_file_identify(stat, &now))
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
 * Stat first: opening a device or a pipe can have effects of its own, and damaged bytes may
 * name any.  The open is the permission, and on a network file system what makes the
 * attributes fresh; so they are compared again.
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
	r = ts_sys_fstat(fd, &stat);
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
