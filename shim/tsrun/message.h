/* SPDX-License-Identifier: MIT */
/* What tsrun tells people: always on stderr, "tsrun: what happened", then "hint: what helps".
 */
#ifndef TS_TSRUN_MESSAGE_H
#define TS_TSRUN_MESSAGE_H

#include "shim/base.h"

/* Exit statuses of tsrun itself, as env(1) and timeout(1) use them. */
enum ts_exit {
#define TS_EXIT(name, status, text) TS_EXIT_##name = status,
#include "shim/tsrun/commands.def"
};

/** Print one line "tsrun: ..." on stderr. Keeps errno. Not async-signal-safe (stdio). */
void ts_message_say(const char *format, ...) TS_PRINTF(1, 2);

/** Print one line "hint: ..." on stderr; it belongs to the message before. Keeps errno. */
void ts_message_hint(const char *format, ...) TS_PRINTF(1, 2);

/**
 * Occupy the standard descriptors that are closed, with something that cannot be written to.
 * Otherwise the next file we open would become stdout, and be printed into.
 */
void ts_message_guard_streams(void);

/**
 * Flush and close stdout.  What a program could not print must not look printed, so a full
 * disk or a closed stdout is an error of tsrun: returns TS_EXIT_FAILED after a message, else
 * @status.
 */
int ts_message_close_stdout(int status);

#endif
