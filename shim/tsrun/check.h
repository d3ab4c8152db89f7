/* SPDX-License-Identifier: MIT */
/*
 * tsrun doctor: whether tsshim can work here.  Its checks are the table shim/tsrun/checks.def;
 * below is what a check gets and gives.
 *
 * A check looks, and changes nothing that anybody could see later.  What cannot be seen from
 * here, or is of no concern here, is n/a and never an error.
 */
#ifndef TS_TSRUN_CHECK_H
#define TS_TSRUN_CHECK_H

#include "shim/config.h"

#include <limits.h>

/* The worse, the later. */
#define TS_CHECK_STATES(X) \
	X(ABSENT, "n/a")   \
	X(OK, "ok")        \
	X(WARN, "warn")    \
	X(FAIL, "fail")

enum ts_check_state {
#define TS_X(name, word) TS_CHECK_##name,
	TS_CHECK_STATES(TS_X)
#undef TS_X
};

/** What all checks look at; constant while they run. */
struct ts_check_scene {
	char program[PATH_MAX]; /* the running tsrun, without symbolic links */
	char library[PATH_MAX]; /* where the library is, or should be */
	bool has_library;       /* something is there */
	char **command;         /* the words behind "--", ending with NULL; or NULL */
	char *const *environment;
	struct ts_config config; /* of the environment, with defaults for bad values */
};

/** What a check found.  Begins as TS_CHECK_ABSENT with empty texts. */
struct ts_check {
	enum ts_check_state state;
	char found[1024]; /* never empty when the check has ended */
	char fix[512];    /* what helps, where the state is neither ok nor n/a */
};

#define TS_CHECK(id, title, function) \
	void function(const struct ts_check_scene *scene, struct ts_check *check);
#include "shim/tsrun/checks.def"

/**
 * Add a finding: @check takes the worse of the two states, and the text goes behind what was
 * found before.  Texts that do not fit are cut.
 */
void ts_check_find(struct ts_check *check, enum ts_check_state state, const char *format, ...)
	TS_PRINTF(3, 4);

/** Add something that helps. */
void ts_check_advise(struct ts_check *check, const char *format, ...) TS_PRINTF(2, 3);

/**
 * Find the library called @name without loading it: in the directories of @search (as
 * LD_LIBRARY_PATH, or NULL), in ld.so's cache @cache, in the standard directories.
 * Writes the path of a file that is there into @ret_path; returns whether there is one.
 */
bool ts_find_library(
	const char *name, const char *cache, const char *search, char ret_path[PATH_MAX]);

/**
 * How many instances (MIG) the GPUs below @place, /proc/driver/nvidia but for tests, are
 * divided into.  Errors: -ENOENT no driver; others of opendir(3).
 */
int ts_find_mig(const char *place);

/* Exit status when a check failed; nothing else of tsrun ends with it. */
#define TS_DOCTOR_FAILED 1

#define TS_LAUNCH_WORDS 64
#define TS_LAUNCH_TEXT  (4 * PATH_MAX)

/**
 * What is started at last: scripts name theirs, and env(1) is followed.  Words point into argv
 * or into @text, so it must not be copied.
 */
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
