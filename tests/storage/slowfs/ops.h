/* SPDX-License-Identifier: MIT */
/*
 * Answers to the kernel's requests: each paces, then does to the source what was asked.
 *
 * POSIX locks and flock are left to the kernel, which keeps them exactly for all programs
 * that use this mount; programs that use the source itself do not see them.
 */
#ifndef TS_TESTS_STORAGE_OPS_H
#define TS_TESTS_STORAGE_OPS_H

#define FUSE_USE_VERSION 35
#include <fuse_lowlevel.h>

/** Fill in what works on names and attributes (ops_tree.c). */
void slow_ops_tree(struct fuse_lowlevel_ops *ops);

/** Fill in what works on open files (ops_file.c). */
void slow_ops_file(struct fuse_lowlevel_ops *ops);

/** Fill in what lists directories (ops_directory.c). */
void slow_ops_directory(struct fuse_lowlevel_ops *ops);

#endif
