/* SPDX-License-Identifier: MIT */
/*
 * Files of a cluster's directory, made by several nodes at once without a lock: each makes one
 * of its own, and one of them gets the name.  Whoever is killed leaves a file with ".new." in
 * its name and nothing else.
 */
#ifndef TS_LEADER_PEER_PLACE_H
#define TS_LEADER_PEER_PLACE_H

#include "shim/base.h"

enum ts_place_how {
	TS_PLACE_FIRST,   /* only where there is none */
	TS_PLACE_REPLACE, /* in the place of whatever is there */
};

/**
 * Make the file @path of @bytes at @text, mode 0600, at once and as a whole.
 *
 * Threads: any.  Errors: -EEXIST there is one (TS_PLACE_FIRST); -ENAMETOOLONG; those of
 * open(2), write(2), fsync(2), link(2), rename(2).
 */
int ts_place(const char *path, const void *text, size_t bytes, enum ts_place_how how);

/**
 * Read the whole file @path, of at most @max bytes, NUL behind them; the caller frees
 * *ret_text.  Returns its bytes.  Errors: those of open(2), -ELOOP a link; -EINVAL no regular
 * file; -EFBIG; -ENOMEM.
 */
int64_t ts_place_read(const char *path, size_t max, char **ret_text);

#endif
