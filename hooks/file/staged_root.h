/* SPDX-License-Identifier: MIT */
/* Which files are to be staged: those under the directory of --dataset NAME=DIR. */
#ifndef TS_HOOKS_FILE_STAGED_ROOT_H
#define TS_HOOKS_FILE_STAGED_ROOT_H

#include "shim/base.h"

#include <sys/stat.h>

/**
 * Whether files on @device may be ours: whether it is the directory's, and that one to be
 * staged.  Looks at the directory at the first call, and again each second while it is not
 * there; where --stage is auto, slow storage is what tells its type (NFS, FUSE, ...).
 * Threads: any.  Keeps errno.
 */
bool ts_staged_root_has_device(dev_t device);

/** Whether that device is a FUSE file system. Any thread. */
bool ts_staged_root_is_fuse(void);

/**
 * Path of the open file @fd, if it lies under the directory: absolute and without links.
 * @path has room for PATH_MAX bytes.  Mount points below the directory do not count.
 */
bool ts_staged_root_path(int fd, char *path);

#endif
