/* SPDX-License-Identifier: MIT */
/* Which program a command line ends in: scripts name theirs, and env(1) is followed. */
#ifndef TS_TSRUN_LAUNCH_H
#define TS_TSRUN_LAUNCH_H

#include "shim/base.h"

#include <limits.h>

#define TS_LAUNCH_WORDS 64
#define TS_LAUNCH_TEXT  (4 * PATH_MAX)

/** What is started at last.  Words point into argv or into @text, so it must not be copied. */
struct ts_launch {
	char program[PATH_MAX];           /* as execve(2) would get it */
	char *words[TS_LAUNCH_WORDS + 1]; /* its first arguments, [0] is itself */
	bool script;                      /* a script was followed */
	char text[TS_LAUNCH_TEXT];
	size_t text_bytes;
};

/**
 * Follow @command (words, ending with NULL; not empty) as execvp(3), the kernel and env(1) do.
 * What is too long or too deep for us is not followed further.
 * Errors: those of ts_library_which(), with what was looked for in @ret_launch->words[0].
 */
int ts_launch_resolve(char *const *command, struct ts_launch *ret_launch);

#endif
