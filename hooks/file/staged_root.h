/* SPDX-License-Identifier: MIT */
/*
 * Which files are to be staged: those under the directory of --dataset NAME=DIR, on its
 * device. With --stage auto only if that is slow storage, which a table of file systems tells.
 */
#ifndef TS_HOOKS_FILE_STAGED_ROOT_H
#define TS_HOOKS_FILE_STAGED_ROOT_H

#include "shim/base.h"
#include "shim/hash.h"

#include <sys/stat.h>

/**
 * Whether files on @device may be ours: whether it is the directory's, and that one to be
 * staged.  Looks at the directory at the first call, and again each second while it is not
 * there; where --stage is auto, slow storage is what tells its type (NFS, FUSE, ...).
 *
 * A directory may be on storage that does not answer, and a program may never go there.  So
 * with --stage auto the first look waits for a file on slow storage: @fd is an open one on
 * @device, or -1 to look at once.
 * Threads: any.  Keeps errno.
 */
bool ts_staged_root_has_device(int fd, dev_t device);

/** Whether that device is a FUSE file system. Any thread. */
bool ts_staged_root_is_fuse(void);

/** Kind of its file system (ts_sys_file_system()), 0 where it was not found. Any thread. */
uint64_t ts_staged_root_type(void);

/**
 * Whether @stat's file or directory, which lies there, was changed so recently that its times
 * may not tell the next change: leader/inputs/age.h.  Any thread.
 */
bool ts_staged_root_is_young(const struct stat *stat);

/**
 * Whether the open file @fd lies under the directory, or is it.  Into @path, which has room for
 * PATH_MAX bytes, goes its path: absolute and without links; NULL: never.  Mount points below
 * the directory do not count.
 */
bool ts_staged_root_path(int fd, char *path);

/** Whether another thread is about to find the directory, so that nobody can tell yet. */
bool ts_staged_root_is_pending(void);

/** Device and inode of the directory, once it was found. Any thread. */
void ts_staged_root_identity(uint64_t *ret_device, uint64_t *ret_inode);

/**
 * A number that the same directory has on all nodes, once it was found: of its path without
 * links and its times.  Where something is made or removed right in it while jobs start, they
 * have different ones.  Any thread.
 */
struct ts_hash128 ts_staged_root_across(void);

/**
 * Whether the absolute @path begins with the directory, as the user names it or as it is
 * without links, and what follows.  Only the text is looked at.  Threads: any.
 */
bool ts_staged_root_below(const char *path, const char **ret_rest);

/**
 * The absolute @path (others, and NULL, are passed by) was opened, and what it led to lies
 * outside of the directory, on @device; and: whether something in the same place was found to
 * do so within the last second.  What a link there leads to may be ours all the same, and is
 * missed for so long: so not to be asked where more than a copy depends on it.  Threads: any.
 */
void ts_staged_root_note_outside(const char *path, dev_t device);
bool ts_staged_root_is_outside(const char *path);

#endif
