/* SPDX-License-Identifier: MIT */
/* The answers to the kernel; see slowfs.h. */
#include "slowfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- names and attributes ------------------------------------------------------------ */

/* 0 and -errno, of a call that returns -1. */
static int checked(int r)
{
	return r < 0 ? -errno : 0;
}

static void reply(fuse_req_t req, int r)
{
	fuse_reply_err(req, -r);
}

static void reply_entry(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param entry;
	int r = slow_tree_lookup(parent, name, &entry);
	if (r < 0)
		reply(req, r);
	else if (fuse_reply_entry(req, &entry) != 0)
		slow_tree_forget(entry.ino, 1);
}

static void on_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	int r = slow_pace_begin(req, SLOW_KIND_LOOKUP, NULL);
	if (r < 0)
		reply(req, r);
	else
		reply_entry(req, parent, name);
}

static void on_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups)
{
	slow_tree_forget(ino, lookups);
	fuse_reply_none(req);
}

static void on_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < count; i++)
		slow_tree_forget(forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

static void reply_attr(fuse_req_t req, fuse_ino_t ino)
{
	struct stat found;
	int r = checked(fstatat(slow_tree_get(ino)->fd, "", &found, AT_EMPTY_PATH));
	if (r < 0) {
		reply(req, r);
	} else {
		slow_tree_age(&found);
		fuse_reply_attr(req, &found, (double)slow_get(SLOW_ATTR_TIMEOUT) / 1000);
	}
}

static void on_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	int r = slow_pace_begin(req, SLOW_KIND_GETATTR, NULL);
	if (r < 0)
		reply(req, r);
	else
		reply_attr(req, ino);
}

static int set_times(int fd, const struct stat *attr, int to_set)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_OMIT}};
	if (to_set & FUSE_SET_ATTR_ATIME_NOW)
		times[0].tv_nsec = UTIME_NOW;
	else if (to_set & FUSE_SET_ATTR_ATIME)
		times[0] = attr->st_atim;
	if (to_set & FUSE_SET_ATTR_MTIME_NOW)
		times[1].tv_nsec = UTIME_NOW;
	else if (to_set & FUSE_SET_ATTR_MTIME)
		times[1] = attr->st_mtim;
	return checked(utimensat(fd, "", times, AT_EMPTY_PATH));
}

static int set_attributes(struct slow_inode *inode, const struct stat *attr, int to_set)
{
	char proc[SLOW_PROC_BYTES];
	int r = 0;
	slow_tree_proc(inode, proc);
	if (to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))
		r = checked(fchownat(inode->fd, "",
			to_set & FUSE_SET_ATTR_UID ? attr->st_uid : (uid_t)-1,
			to_set & FUSE_SET_ATTR_GID ? attr->st_gid : (gid_t)-1, AT_EMPTY_PATH));
	/* Behind chown, which takes set-user-id bits away. */
	if (r == 0 && (to_set & FUSE_SET_ATTR_MODE))
		r = checked(chmod(proc, attr->st_mode));
	if (r == 0 && (to_set & FUSE_SET_ATTR_SIZE))
		r = checked(truncate(proc, attr->st_size));
	if (r == 0 && (to_set & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME)))
		r = set_times(inode->fd, attr, to_set);
	return r;
}

static void on_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
	struct fuse_file_info *fi)
{
	int r = slow_pace_begin(req, SLOW_KIND_SETATTR, NULL);
	if (r == 0)
		r = set_attributes(slow_tree_get(ino), attr, to_set);
	if (r < 0)
		reply(req, r);
	else
		reply_attr(req, ino);
}

static void on_readlink(fuse_req_t req, fuse_ino_t ino)
{
	char target[PATH_MAX];
	ssize_t length = slow_pace_begin(req, SLOW_KIND_READLINK, NULL);
	if (length == 0) {
		length = readlinkat(slow_tree_get(ino)->fd, "", target, sizeof(target) - 1);
		if (length < 0)
			length = -errno;
	}
	if (length < 0) {
		reply(req, (int)length);
		return;
	}
	target[length] = '\0';
	fuse_reply_readlink(req, target);
}

/* What slowfs made as root belongs to the caller, or to the group of a set-group-id parent. */
static void give_to_caller(fuse_req_t req, int parent, const char *name)
{
	struct stat found;
	const struct fuse_ctx *caller = fuse_req_ctx(req);
	if (geteuid() != 0 || fstatat(parent, "", &found, AT_EMPTY_PATH) < 0)
		return;
	gid_t gid = found.st_mode & S_ISGID ? (gid_t)-1 : caller->gid;
	(void)fchownat(parent, name, caller->uid, gid, AT_SYMLINK_NOFOLLOW);
}

/* Answer with what was made, or with why it was not. */
static void reply_made(fuse_req_t req, fuse_ino_t parent, const char *name, int r)
{
	if (r < 0) {
		reply(req, r);
		return;
	}
	give_to_caller(req, slow_tree_get(parent)->fd, name);
	reply_entry(req, parent, name);
}

static void on_mknod(
	fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t device)
{
	int r = slow_pace_begin(req, SLOW_KIND_MAKE, NULL);
	if (r == 0)
		r = checked(mknodat(slow_tree_get(parent)->fd, name, mode, device));
	reply_made(req, parent, name, r);
}

static void on_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	int r = slow_pace_begin(req, SLOW_KIND_MAKE, NULL);
	if (r == 0)
		r = checked(mkdirat(slow_tree_get(parent)->fd, name, mode));
	reply_made(req, parent, name, r);
}

static void on_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	int r = slow_pace_begin(req, SLOW_KIND_MAKE, NULL);
	if (r == 0)
		r = checked(symlinkat(target, slow_tree_get(parent)->fd, name));
	reply_made(req, parent, name, r);
}

static void on_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	char proc[SLOW_PROC_BYTES];
	slow_tree_proc(slow_tree_get(ino), proc);
	int r = slow_pace_begin(req, SLOW_KIND_MAKE, NULL);
	if (r == 0)
		r = checked(linkat(
			AT_FDCWD, proc, slow_tree_get(parent)->fd, name, AT_SYMLINK_FOLLOW));
	if (r < 0)
		reply(req, r);
	else
		reply_entry(req, parent, name);
}

static void remove_name(fuse_req_t req, fuse_ino_t parent, const char *name, int flags)
{
	int r = slow_pace_begin(req, SLOW_KIND_REMOVE, NULL);
	if (r == 0)
		r = checked(unlinkat(slow_tree_get(parent)->fd, name, flags));
	reply(req, r);
}

static void on_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, parent, name, 0);
}

static void on_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, parent, name, AT_REMOVEDIR);
}

static void on_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
	fuse_ino_t new_parent, const char *new_name, unsigned flags)
{
	int r = slow_pace_begin(req, SLOW_KIND_RENAME, NULL);
	if (r == 0)
		r = checked(renameat2(slow_tree_get(parent)->fd, name,
			slow_tree_get(new_parent)->fd, new_name, flags));
	reply(req, r);
}

static void on_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct statvfs found;
	int r = slow_pace_begin(req, SLOW_KIND_STATFS, NULL);
	if (r == 0)
		r = checked(fstatvfs(slow_tree_get(ino ? ino : FUSE_ROOT_ID)->fd, &found));
	if (r < 0)
		reply(req, r);
	else
		fuse_reply_statfs(req, &found);
}

/* ---- open files ---------------------------------------------------------------------- */

/* An open file; fi->fh points to it. */
struct handle {
	int fd;
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
	handle->record = slow_tree_path(inode, path) < 0 ? NULL : slow_count_open(path);
	fi->fh = (uintptr_t)handle;
	fi->direct_io = slow_get(SLOW_DIRECT_IO) != 0;
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

/* Make the file if it is not there; the caller's, as in give_to_caller(). */
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

static void sync_source(fuse_req_t req, int fd, int data_only)
{
	int r = slow_pace_begin(req, SLOW_KIND_FSYNC, NULL);
	if (r == 0)
		r = checked(data_only ? fdatasync(fd) : fsync(fd));
	reply(req, r);
}

static void on_fsync(fuse_req_t req, fuse_ino_t ino, int data_only, struct fuse_file_info *fi)
{
	sync_source(req, handle_of(fi)->fd, data_only);
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

/* ---- directories --------------------------------------------------------------------- */

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
	sync_source(req, dirfd(listing_of(fi)->stream), data_only);
}

void slow_ops(struct fuse_lowlevel_ops *ops)
{
	ops->lookup = on_lookup;
	ops->forget = on_forget;
	ops->forget_multi = on_forget_multi;
	ops->getattr = on_getattr;
	ops->setattr = on_setattr;
	ops->readlink = on_readlink;
	ops->mknod = on_mknod;
	ops->mkdir = on_mkdir;
	ops->symlink = on_symlink;
	ops->link = on_link;
	ops->unlink = on_unlink;
	ops->rmdir = on_rmdir;
	ops->rename = on_rename;
	ops->statfs = on_statfs;
	ops->open = on_open;
	ops->create = on_create;
	ops->read = on_read;
	ops->write = on_write;
	ops->flush = on_flush;
	ops->release = on_release;
	ops->fsync = on_fsync;
	ops->lseek = on_lseek;
	ops->opendir = on_opendir;
	ops->readdir = on_readdir;
	ops->readdirplus = on_readdirplus;
	ops->releasedir = on_releasedir;
	ops->fsyncdir = on_fsyncdir;
}
