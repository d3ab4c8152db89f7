/* SPDX-License-Identifier: MIT */
/*
 * The terminal of `tsrun top`: plain ANSI (home, erase to the end), and keys without a line
 * end.
 *
 *	ts_screen_begin();
 *	do
 *		ts_screen_draw(text);
 *	while (ts_screen_wait(ns));
 *	ts_screen_end();
 *
 * The terminal is as it was whenever we do not run: after the end, after a signal that ends us,
 * and while we are stopped.  Only SIGKILL leaves it without echo; stty sane helps then.
 */
#ifndef TS_TSRUN_SCREEN_H
#define TS_TSRUN_SCREEN_H

#include "shim/base.h"

/**
 * Take the terminal: keys come at once and are not shown, signals that would end or stop us
 * come while we wait only.  Standard output is a terminal; where standard input is none there
 * are no keys.  Main thread only.  Errors: those of sigprocmask(2), sigaction(2) and write(2),
 * after which it is ended all the same.
 */
int ts_screen_begin(void);

/**
 * Show @text, lines ending with '\n', instead of what was there: as many lines and columns as
 * fit.  Errors: those of write(2), as when the terminal is gone.
 */
int ts_screen_draw(const char *text);

/**
 * Wait for @ns, or until a key (q: quit, others: now) or a change of size comes; false: to
 * quit.  A signal that ends programs ends this one here, with the terminal as it was.
 */
bool ts_screen_wait(uint64_t ns);

/** Give the terminal back. */
void ts_screen_end(void);

#endif
