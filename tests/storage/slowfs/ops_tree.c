/* SPDX-License-Identifier: MIT */
/* Names and attributes. */
#include "ops.h"

#include "pace.h"
#include "settings.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

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

static void on_mknod(
	fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t device)
{
	int fd = slow_tree_get(parent)->fd;
	int r = slow_pace_begin(req, SLOW_KIND_MAKE, NULL);
	if (r == 0)
		r = checked(mknodat(fd, name, mode, device));
	if (r < 0) {
		reply(req, r);
		return;
	}
	give_to_caller(req, fd, name);
	reply_entry(req, parent, name);
}

static void on_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	int fd = slow_tree_get(parent)->fd;
	int r = slow_pace_begin(req, SLOW_KIND_MAKE, NULL);
	if (r == 0)
		r = checked(mkdirat(fd, name, mode));
	if (r < 0) {
		reply(req, r);
		return;
	}
	give_to_caller(req, fd, name);
	reply_entry(req, parent, name);
}

static void on_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	int fd = slow_tree_get(parent)->fd;
	int r = slow_pace_begin(req, SLOW_KIND_MAKE, NULL);
	if (r == 0)
		r = checked(symlinkat(target, fd, name));
	if (r < 0) {
		reply(req, r);
		return;
	}
	give_to_caller(req, fd, name);
	reply_entry(req, parent, name);
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

/* Answer a call that returned @length bytes into @value, or only its length for @size 0. */
static void reply_value(fuse_req_t req, ssize_t length, const char *value, size_t size)
{
	if (length < 0)
		reply(req, -errno);
	else if (size == 0)
		fuse_reply_xattr(req, (size_t)length);
	else
		fuse_reply_buf(req, value, (size_t)length);
}

static void read_xattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	char proc[SLOW_PROC_BYTES];
	slow_tree_proc(slow_tree_get(ino), proc);
	int r = slow_pace_begin(req, SLOW_KIND_XATTR, NULL);
	char *value = malloc(size ? size : 1);
	if (r == 0 && !value)
		r = -ENOMEM;
	if (r < 0)
		reply(req, r);
	else if (name)
		reply_value(req, getxattr(proc, name, value, size), value, size);
	else
		reply_value(req, listxattr(proc, value, size), value, size);
	free(value);
}

static void on_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	read_xattr(req, ino, name, size);
}

static void on_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	read_xattr(req, ino, NULL, size);
}

static void on_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value,
	size_t size, int flags)
{
	char proc[SLOW_PROC_BYTES];
	slow_tree_proc(slow_tree_get(ino), proc);
	int r = slow_pace_begin(req, SLOW_KIND_XATTR, NULL);
	if (r == 0)
		r = checked(setxattr(proc, name, value, size, flags));
	reply(req, r);
}

static void on_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	char proc[SLOW_PROC_BYTES];
	slow_tree_proc(slow_tree_get(ino), proc);
	int r = slow_pace_begin(req, SLOW_KIND_XATTR, NULL);
	if (r == 0)
		r = checked(removexattr(proc, name));
	reply(req, r);
}

void slow_ops_tree(struct fuse_lowlevel_ops *ops)
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
	ops->getxattr = on_getxattr;
	ops->listxattr = on_listxattr;
	ops->setxattr = on_setxattr;
	ops->removexattr = on_removexattr;
}
