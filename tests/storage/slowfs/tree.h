/* SPDX-License-Identifier: MIT */
/*
 * The inodes of the source that the kernel knows, each held by an O_PATH descriptor.
 *
 * A descriptor survives renames, and while it is open the source cannot give the inode's
 * number to another file; so (device, number) names an inode, and st_ino is the source's own.
 */
#ifndef TS_TESTS_STORAGE_TREE_H
#define TS_TESTS_STORAGE_TREE_H

#include <limits.h>

#define FUSE_USE_VERSION 35
#include <fuse_lowlevel.h>

#define SLOW_PROC_BYTES 32

struct slow_inode {
	struct slow_inode *next; /* in its bucket */
	int fd;                  /* O_PATH | O_NOFOLLOW */
	dev_t dev;
	ino_t ino;
	uint64_t lookups; /* by the kernel, not yet forgotten; under the lock */
};

/**
 * Once: take @source as the root.  Raises RLIMIT_NOFILE, as every known file costs one.
 * Errors: those of open(2), fstat(2), realpath(3); -ENOTDIR.
 */
int slow_tree_init(const char *source);

/** The inode behind a number of the kernel's; valid until the kernel forgets it. Any thread. */
struct slow_inode *slow_tree_get(fuse_ino_t number);

/**
 * Look @name up beneath @parent and count that for the kernel, which has to be told by
 * @ret_entry, or the caller takes it back with slow_tree_forget().  Sets the time-outs.
 * Any thread.  Errors: those of openat(2), fstatat(2); -ENOMEM.
 */
int slow_tree_lookup(fuse_ino_t parent, const char *name, struct fuse_entry_param *ret_entry);

/** The kernel, or the caller of slow_tree_lookup(), drops @lookups. Any thread. */
void slow_tree_forget(fuse_ino_t number, uint64_t lookups);

/** Let @attr tell of changes as long ago as was asked for. Any thread. */
void slow_tree_age(struct stat *attr);

/** A path under /proc that opens @inode itself, also by calls that take no descriptor. */
void slow_tree_proc(const struct slow_inode *inode, char ret_path[static SLOW_PROC_BYTES]);

/** The path relative to the source by which @inode is known now. Errors: of readlink(2). */
int slow_tree_path(const struct slow_inode *inode, char ret_path[static PATH_MAX]);

#endif
