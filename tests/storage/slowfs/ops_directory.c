/* SPDX-License-Identifier: MIT */
/* Listing directories. */
#include "ops.h"

#include "pace.h"
#include "settings.h"
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An open directory; fi->fh points to it.  The kernel reads one from one thread at a time. */
struct listing {
	DIR *stream;
	struct dirent *next; /* read, but did not fit into the last answer */
	off_t offset;        /* behind what was answered last */
};

static struct listing *listing_of(const struct fuse_file_info *fi)
{
	return (struct listing *)(uintptr_t)fi->fh;
}

static void close_listing(struct listing *listing)
{
	if (listing->stream)
		closedir(listing->stream);
	free(listing);
}

static int open_listing(struct slow_inode *inode, struct listing **ret_listing)
{
	struct listing *listing = calloc(1, sizeof(*listing));
	if (!listing)
		return -ENOMEM;
	int r = 0;
	int fd = openat(inode->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		listing->stream = fdopendir(fd);
	if (!listing->stream) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		free(listing);
		return r;
	}
	*ret_listing = listing;
	return 0;
}

static void on_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct listing *listing = NULL;
	int r = slow_pace_begin(req, SLOW_KIND_OPENDIR, NULL);
	if (r == 0)
		r = open_listing(slow_tree_get(ino), &listing);
	if (r < 0) {
		fuse_reply_err(req, -r);
		return;
	}
	fi->fh = (uintptr_t)listing;
	if (fuse_reply_open(req, fi) != 0)
		close_listing(listing);
}

/* Names that are not there any more, and the two that are no children, come without more. */
static void look_up(fuse_ino_t parent, const struct dirent *found, bool attributes,
	struct fuse_entry_param *ret_entry)
{
	bool child = strcmp(found->d_name, ".") != 0 && strcmp(found->d_name, "..") != 0;
	if (attributes && child && slow_tree_lookup(parent, found->d_name, ret_entry) == 0)
		return;
	memset(ret_entry, 0, sizeof(*ret_entry));
	ret_entry->attr.st_ino = found->d_ino;
	ret_entry->attr.st_mode = (mode_t)found->d_type << 12; /* DTTOIF of <dirent.h> */
}

/* Fill @data; returns how much of it is used, or -errno when not even one name is. */
static ssize_t list(fuse_req_t req, fuse_ino_t ino, struct listing *listing, char *data,
	size_t size, bool attributes)
{
	size_t used = 0;
	for (;;) {
		errno = 0;
		if (!listing->next)
			listing->next = readdir(listing->stream);
		if (!listing->next)
			return used > 0 || errno == 0 ? (ssize_t)used : -errno;
		const struct dirent *found = listing->next;
		struct fuse_entry_param entry;
		look_up(ino, found, attributes, &entry);
		size_t more = attributes ? fuse_add_direntry_plus(req, data + used, size - used,
						   found->d_name, &entry, found->d_off)
					 : fuse_add_direntry(req, data + used, size - used,
						   found->d_name, &entry.attr, found->d_off);
		if (more > size - used) {
			if (entry.ino)
				slow_tree_forget(entry.ino, 1);
			return (ssize_t)used;
		}
		used += more;
		listing->offset = found->d_off;
		listing->next = NULL;
	}
}

static void read_directory(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
	struct fuse_file_info *fi, bool attributes)
{
	struct listing *listing = listing_of(fi);
	char *data = malloc(size);
	ssize_t r = slow_pace_begin(req, SLOW_KIND_READDIR, NULL);
	if (r == 0 && !data)
		r = -ENOMEM;
	if (r == 0 && slow_get(SLOW_FAIL_LISTS))
		r = -EIO;
	if (r == 0) {
		if (offset != listing->offset) {
			seekdir(listing->stream, offset);
			listing->offset = offset;
			listing->next = NULL;
		}
		r = list(req, ino, listing, data, size, attributes);
	}
	if (r < 0)
		fuse_reply_err(req, (int)-r);
	else
		fuse_reply_buf(req, data, (size_t)r);
	free(data);
}

static void on_readdir(
	fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	read_directory(req, ino, size, offset, fi, false);
}

static void on_readdirplus(
	fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	read_directory(req, ino, size, offset, fi, true);
}

static void on_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	close_listing(listing_of(fi));
	fuse_reply_err(req, 0);
}

static void on_fsyncdir(
	fuse_req_t req, fuse_ino_t ino, int data_only, struct fuse_file_info *fi)
{
	int fd = dirfd(listing_of(fi)->stream);
	int r = slow_pace_begin(req, SLOW_KIND_FSYNC, NULL);
	if (r == 0 && (data_only ? fdatasync(fd) : fsync(fd)) < 0)
		r = -errno;
	fuse_reply_err(req, -r);
}

void slow_ops_directory(struct fuse_lowlevel_ops *ops)
{
	ops->opendir = on_opendir;
	ops->readdir = on_readdir;
	ops->readdirplus = on_readdirplus;
	ops->releasedir = on_releasedir;
	ops->fsyncdir = on_fsyncdir;
}
