/* SPDX-License-Identifier: MIT */
/* Answering for the originals of copies: attributes and names. */
#ifndef TS_HOOKS_FILE_STAGED_ANSWER_H
#define TS_HOOKS_FILE_STAGED_ANSWER_H

#include "shim/base.h"

#include <sys/stat.h>

/** If @stat tells of a copy, let it tell of the original. Async-signal-safe once joined. */
void ts_staged_answer(struct stat *stat);

/** The same for statx(2) of @fd, if @path is NULL or empty. */
void ts_staged_answer_x(int fd, const char *path, struct statx *stat);

/**
 * readlinkat(2) of @path gave @length bytes in @buffer: if they name a copy, let them name the
 * original.  Returns the length then.
 */
int64_t ts_staged_answer_name(
	int directory, const char *path, char *buffer, size_t bytes, int64_t length);

#endif
