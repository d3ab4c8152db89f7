/* SPDX-License-Identifier: MIT */
/*
 * The control socket: DIR/socket of mode 0600 in a directory of mode 0700, outside the tree
 * that programs see.  It exists from the moment the tree is mounted.
 *
 * One question per connection: a line of at most SLOW_LINE_BYTES.  The answer is one JSON
 * object, {"error": "..."} if the question was no good:
 *	set NAME=VALUE...	change settings, all or none
 *	get			all settings
 *	counts			see counts.h
 *	reset			all counts to zero
 *	stop			unmount and end
 */
#ifndef TS_TESTS_STORAGE_CONTROL_H
#define TS_TESTS_STORAGE_CONTROL_H

#include <stdbool.h>

#define SLOW_LINE_BYTES 4096

/**
 * Make the socket; the directory too if it is not there.  Once.  @directory stays the
 * caller's and is used until slow_control_finish().
 * Errors: -EPERM the directory is not ours alone; -ENAMETOOLONG; of mkdir(2), bind(2).
 */
int slow_control_init(const char *directory, int *ret_fd);

/**
 * Answer who is next; bounded by a few seconds if they do not listen.  Returns false when
 * they asked to stop.  One thread.
 */
bool slow_control_answer(int fd);

/** Close and remove what slow_control_init() made; nothing if it was not called. */
void slow_control_finish(int fd);

#endif
