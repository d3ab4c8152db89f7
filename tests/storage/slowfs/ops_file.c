/* SPDX-License-Identifier: MIT */
/* Open files. */
#include "ops.h"

#include "pace.h"
#include "settings.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* An open file; fi->fh points to it. */
struct handle {
	int fd;
	bool direct;                /* bypasses the page cache */
	struct slow_record *record; /* NULL without memory for one */
};

static struct handle *handle_of(const struct fuse_file_info *fi)
{
	return (struct handle *)(uintptr_t)fi->fh;
}

/* Our own buffers are not aligned, and names have been followed already. */
static int flags_for_source(int flags)
{
	return (flags & ~(O_CREAT | O_EXCL | O_NOFOLLOW | O_DIRECT)) | O_CLOEXEC;
}

/* Opens @inode, or fails with -errno; counts it and tells the kernel how to cache. */
static int open_inode(struct slow_inode *inode, struct fuse_file_info *fi)
{
	char path[PATH_MAX];
	slow_tree_proc(inode, path);
	int fd = open(path, flags_for_source(fi->flags));
	if (fd < 0)
		return -errno;
	struct handle *handle = malloc(sizeof(*handle));
	if (!handle) {
		close(fd);
		return -ENOMEM;
	}
	handle->fd = fd;
	handle->direct = slow_get(SLOW_DIRECT_IO) != 0;
	handle->record = slow_tree_path(inode, path) < 0 ? NULL : slow_count_open(path);
	fi->fh = (uintptr_t)handle;
	fi->direct_io = handle->direct;
	fi->keep_cache = slow_get(SLOW_KEEP_CACHE) != 0;
	return 0;
}

static void close_handle(struct handle *handle)
{
	close(handle->fd);
	free(handle);
}

static void on_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	int r = slow_pace_begin(req, SLOW_KIND_OPEN, NULL);
	if (r == 0)
		r = slow_pace_open_fault();
	if (r == 0)
		r = open_inode(slow_tree_get(ino), fi);
	if (r < 0)
		fuse_reply_err(req, -r);
	else if (fuse_reply_open(req, fi) != 0)
		close_handle(handle_of(fi));
}

/* Make the file if it is not there; the caller's, as in give_to_caller() of ops_tree.c. */
static int make_file(
	fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, int flags)
{
	struct stat found;
	int directory = slow_tree_get(parent)->fd;
	int fd = openat(
		directory, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return errno == EEXIST && !(flags & O_EXCL) ? 0 : -errno;
	if (geteuid() == 0 && fstat(directory, &found) == 0) {
		gid_t gid = found.st_mode & S_ISGID ? (gid_t)-1 : fuse_req_ctx(req)->gid;
		(void)!fchown(fd, fuse_req_ctx(req)->uid, gid);
	}
	close(fd);
	return 0;
}

static void on_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	struct fuse_file_info *fi)
{
	struct fuse_entry_param entry = {.ino = 0};
	int r = slow_pace_begin(req, SLOW_KIND_CREATE, NULL);
	if (r == 0)
		r = slow_pace_open_fault();
	if (r == 0)
		r = make_file(req, parent, name, mode, fi->flags);
	if (r == 0)
		r = slow_tree_lookup(parent, name, &entry);
	if (r == 0)
		r = open_inode(slow_tree_get(entry.ino), fi);
	if (r < 0) {
		if (entry.ino)
			slow_tree_forget(entry.ino, 1);
		fuse_reply_err(req, -r);
	} else if (fuse_reply_create(req, &entry, fi) != 0) {
		close_handle(handle_of(fi));
		slow_tree_forget(entry.ino, 1);
	}
}

/* All of @size that the file has; read(2) may be short for no reason. */
static ssize_t read_all(int fd, char *data, size_t size, off_t offset)
{
	size_t done = 0;
	while (done < size) {
		ssize_t r = pread(fd, data + done, size - done, offset + (off_t)done);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		done += (size_t)r;
	}
	return (ssize_t)done;
}

static void on_read(
	fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	struct handle *handle = handle_of(fi);
	int64_t most = slow_get(SLOW_SHORT_READ);
	/* Through the page cache a short answer would mean the end of the file. */
	if (handle->direct && most > 0 && size > (uint64_t)most)
		size = (size_t)most;
	char *data = malloc(size);
	ssize_t length = slow_pace_begin(req, SLOW_KIND_READ, handle->record);
	if (length == 0)
		length = data ? read_all(handle->fd, data, size, offset) : -ENOMEM;
	int r = length < 0 ? (int)length
			   : slow_pace_read_fault(length ? (uint64_t)(offset + length) : 0);
	if (r == 0)
		r = slow_pace_transfer(req, (uint64_t)length);
	if (r == 0) {
		slow_count_read(handle->record, (uint64_t)length);
		fuse_reply_buf(req, data, (size_t)length);
	} else {
		fuse_reply_err(req, -r);
	}
	free(data);
}

static void on_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size,
	off_t offset, struct fuse_file_info *fi)
{
	struct handle *handle = handle_of(fi);
	ssize_t r = slow_pace_begin(req, SLOW_KIND_WRITE, NULL);
	if (r == 0)
		r = slow_pace_transfer(req, size);
	if (r == 0) {
		r = pwrite(handle->fd, data, size, offset);
		if (r < 0)
			r = -errno;
	}
	if (r < 0) {
		fuse_reply_err(req, (int)-r);
		return;
	}
	slow_count_write(handle->record, (uint64_t)r);
	fuse_reply_write(req, (size_t)r);
}

/* Closing a copy is how the source learns that one of several descriptors was closed. */
static void on_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	int r = slow_pace_begin(req, SLOW_KIND_FLUSH, NULL);
	if (r == 0 && close(dup(handle_of(fi)->fd)) < 0)
		r = -errno;
	fuse_reply_err(req, -r);
}

static void on_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	close_handle(handle_of(fi));
	fuse_reply_err(req, 0);
}

static void on_fsync(fuse_req_t req, fuse_ino_t ino, int data_only, struct fuse_file_info *fi)
{
	int fd = handle_of(fi)->fd;
	int r = slow_pace_begin(req, SLOW_KIND_FSYNC, NULL);
	if (r == 0 && (data_only ? fdatasync(fd) : fsync(fd)) < 0)
		r = -errno;
	fuse_reply_err(req, -r);
}

static void on_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
	struct fuse_file_info *fi)
{
	int r = slow_pace_begin(req, SLOW_KIND_FALLOCATE, NULL);
	if (r == 0 && fallocate(handle_of(fi)->fd, mode, offset, length) < 0)
		r = -errno;
	fuse_reply_err(req, -r);
}

static void on_lseek(
	fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi)
{
	off_t r = slow_pace_begin(req, SLOW_KIND_LSEEK, NULL);
	if (r == 0) {
		r = lseek(handle_of(fi)->fd, offset, whence);
		if (r < 0)
			r = -errno;
	}
	if (r < 0)
		fuse_reply_err(req, (int)-r);
	else
		fuse_reply_lseek(req, r);
}

void slow_ops_file(struct fuse_lowlevel_ops *ops)
{
	ops->open = on_open;
	ops->create = on_create;
	ops->read = on_read;
	ops->write = on_write;
	ops->flush = on_flush;
	ops->release = on_release;
	ops->fsync = on_fsync;
	ops->fallocate = on_fallocate;
	ops->lseek = on_lseek;
}
