/* SPDX-License-Identifier: MIT */
/*
 * Calls that reach a copy by another way than the descriptor they are made on: by a name that
 * stands for a descriptor, or by a number in an argument.
 */
#ifndef TS_HOOKS_FILE_STAGED_THROUGH_H
#define TS_HOOKS_FILE_STAGED_THROUGH_H

#include "shim/base.h"

/**
 * Before a call that changes what @path leads to, relative to @directory, or depends on where
 * it lies.  The path may be empty, with AT_EMPTY_PATH in @flags, or that of an open file of
 * this process in /proc or /dev: a copy becomes the original then, as ts_staged_give_back()
 * does.  False, with errno: the call must not reach the copy.  Threads: any.
 */
bool ts_staged_before_path(int directory, const char *path, int flags);

/** Whether the call is about @directory itself: the path is empty, and that is allowed. */
bool ts_staged_is_itself(const char *path, int flags);

/**
 * Before @to gets the bytes of @from within the kernel.  Where they lie on one file system, or
 * seem to, @from becomes the original if it can; where they do not, the kernel refuses a copy
 * as it would the original, and the program reads the copy.  Keeps errno.  Threads: any.
 */
void ts_staged_before_clone(int from, int to);

/** The same for the descriptors that ioctl(2) @request on @fd finds in its @argument. */
void ts_staged_before_argument(int fd, unsigned long request, const void *argument);

#endif
