/* SPDX-License-Identifier: MIT */
/*
 * Whether this process has written to a part of its memory since it was asked to notice.
 *
 * The kernel notices (userfaultfd(2) with UFFD_FEATURE_WP_ASYNC, Linux 6.7): pages are made
 * read-only to the processor, the first write to each is let through by the kernel alone, and
 * PAGEMAP_SCAN (ioctl_pagemap_scan(2)) tells which they were.  No handler of signals and no
 * thread is needed; a page costs its writer one fault, and readers nothing.
 *
 *	ts_written_watch(start, bytes);         // once per mapping
 *	ts_written_protect(start, bytes);
 *	what is there is looked at, or known
 *	if (ts_written_since(start, bytes) == 0)
 *		it is as it was
 *
 * Seen are stores of any thread and what system calls store for it, by this mapping.  Not seen
 * are other mappings of the same memory, other processes (a fork child's copy of a shared
 * mapping, too), and devices.
 *
 * Addresses and sizes are whole pages.  Threads: any.  Takes no locks and allocates nothing.
 * In a fork child all answers are -ECHILD.  Of a crash nothing is left.
 */
#ifndef TS_SHIM_WRITTEN_H
#define TS_SHIM_WRITTEN_H

#include "shim/base.h"

/**
 * Let [@start, @start + @bytes), which is one private anonymous or shared mapping, be looked
 * after until it is unmapped.  Errors: -ENOTSUP this kernel cannot, or does not let us; -EBUSY
 * the program looks after it by such means itself; others of userfaultfd(2).
 */
int ts_written_watch(void *start, uint64_t bytes);

/**
 * From now on writes are noticed; all earlier ones are forgotten.  Some 10 us per MiB.
 * Errors: -ENOTSUP; -ENOENT not watched.
 */
int ts_written_protect(void *start, uint64_t bytes);

/**
 * 0: nothing was written there since.  1: something was, or a page is not in memory, of which
 * the kernel would not know; where nothing was ever watched, too.  Some 2 us per MiB.
 * Errors, after which it is not known: -ENOTSUP, -ECHILD, others of the ioctl.
 */
int ts_written_since(const void *start, uint64_t bytes);

#endif
