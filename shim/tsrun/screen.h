/* SPDX-License-Identifier: MIT */
/*
 * The terminal of `tsrun top`: plain ANSI (home, erase to the end), and keys without a line
 * end.
 *
 *	ts_screen_begin(&screen);
 *	while (...) {
 *		ts_screen_draw(&screen, text);
 *		if (ts_screen_wait(&screen, ns) == TS_SCREEN_QUIT)
 *			break;
 *	}
 *	ts_screen_end(&screen);
 *
 * The terminal is as it was whenever we do not run: after the end, after a signal that ends us,
 * and while we are stopped.  Only SIGKILL leaves it without echo; stty sane helps then.
 */
#ifndef TS_TSRUN_SCREEN_H
#define TS_TSRUN_SCREEN_H

#include "shim/base.h"

#include <signal.h>
#include <termios.h>

/** The terminal of this process, of which there is one. */
struct ts_screen {
	struct termios before; /* what to go back to */
	bool has_keys;         /* standard input is a terminal, which we have changed */
	sigset_t signals;      /* blocked before; let through while we wait */
};

enum ts_screen_event {
	TS_SCREEN_TIME, /* it is time for the next picture, or somebody wants it now */
	TS_SCREEN_QUIT,
};

/**
 * Take the terminal: keys come at once and are not shown, signals that would end or stop us
 * come while we wait only.  Standard output is a terminal; where standard input is none there
 * are no keys.  Main thread only.  Errors: those of sigprocmask(2), sigaction(2) and write(2),
 * after which it is ended all the same.
 */
int ts_screen_begin(struct ts_screen *screen);

/**
 * Show @text, lines ending with '\n', instead of what was there: as many lines and columns as
 * fit.  Errors: those of write(2), as when the terminal is gone.
 */
int ts_screen_draw(const struct ts_screen *screen, const char *text);

/**
 * Wait for @ns, or until a key (q: quit, others: now) or a change of size comes.  A signal that
 * ends programs ends this one here, with the terminal as it was.
 */
enum ts_screen_event ts_screen_wait(struct ts_screen *screen, uint64_t ns);

/** Give the terminal back. */
void ts_screen_end(struct ts_screen *screen);

#endif
