/* SPDX-License-Identifier: MIT */
/*
 * Where libtsshim.so is, whether it can be preloaded, and into what; what ELF files say of
 * that. Without libelf they say nothing.
 */
#ifndef TS_TSRUN_LIBRARY_H
#define TS_TSRUN_LIBRARY_H

#include "shim/mark.h"

#include <limits.h>

/**
 * Find the library that belongs to the program file @program (an absolute path without
 * symbolic links): in the build directory when @program lies in one, else where an
 * installation puts it.  Both are relative to @program, so a moved tree works, and nothing
 * that the environment or the working directory says has any influence.
 *
 * Writes the absolute path, or the place where it should be, into @ret_path.
 * Errors: -ENOENT not there; -ENAMETOOLONG.
 */
int ts_library_find(const char *program, char ret_path[PATH_MAX]);

/** The file of the running tsrun, without symbolic links. Errors: those of readlink(2). */
int ts_library_own(char ret_program[PATH_MAX]);

/** The path of our file @name beside the library, there or not. Errors: as the two above. */
int ts_library_beside(const char *name, char ret_path[PATH_MAX]);

/**
 * Whether ld.so can preload @path into programs like @program.  Returns NULL, or a text that
 * says what is wrong, for people; it is static.
 */
const char *ts_library_check(const char *path, const char *program);

/** What @path (or, for a script, its interpreter) does with a preloaded library. */
enum ts_preload_verdict {
	TS_PRELOAD_WORKS,   /* or nothing is known that speaks against it */
	TS_PRELOAD_STATIC,  /* no dynamic linker: LD_PRELOAD is ignored */
	TS_PRELOAD_SECURE,  /* setuid, setgid, capabilities: ignored for safety */
	TS_PRELOAD_MACHINE, /* of another class or machine: ld.so skips it with a message */
	TS_PRELOAD_LIBC,    /* of another C library, whose ld.so would stop at our symbols */
	TS_PRELOAD_FIRST,   /* a shared AddressSanitizer, which ends what loads others first */
};

/**
 * Judge the program file @path (found already) against @reference, a program of the same
 * kind as the library.  Never fails: what cannot be read counts as TS_PRELOAD_WORKS.
 */
enum ts_preload_verdict ts_library_judge(const char *path, const char *reference);

/** What a verdict means, behind the name of the program: "is ..."; NULL: that it works. */
const char *ts_library_explain(enum ts_preload_verdict verdict);

/** What helps against it; NULL: it works. */
const char *ts_library_remedy(enum ts_preload_verdict verdict);

/**
 * Read what the library file @path says of itself into *ret_mark, its version terminated.
 * Errors: -ENOENT it says nothing; -ENOTSUP built without libelf; -EIO no ELF file, or damaged.
 */
int ts_library_mark(const char *path, struct ts_mark *ret_mark);

/** What is inside a program. */
struct ts_inspection {
	bool python;  /* its main() is that of CPython 3.8 or newer */
	bool decoder; /* a libjpeg of its own, which nothing can be put in front of */
};

/** Look into the program file @path.  Errors: -ENOTSUP; -EIO as above. */
int ts_library_inspect(const char *path, struct ts_inspection *ret_inspection);

/**
 * Read the first line of the script @path, from behind "#!" and blanks, into @ret_line;
 * false when the file is no script, names no interpreter, or cannot be read.
 */
bool ts_library_read_script(const char *path, char ret_line[PATH_MAX]);

/**
 * Find @command as execvp(3) will: as it is when it has a '/', else along PATH.
 * Writes the path of the first executable regular file into @ret_path.
 * Errors: -ENOENT; -EACCES found, but not executable; -ENAMETOOLONG.
 */
int ts_library_which(const char *command, char ret_path[PATH_MAX]);

/**
 * Make the value of LD_PRELOAD: what is there (@present, may be NULL) stays in front, for
 * libasan must be first, and @library goes behind it.
 *
 * A path that LD_PRELOAD cannot name (blank, colon, or '$', which ld.so may expand) is named
 * through a symbolic link in the user's directory of state (XDG Base Directory
 * Specification), which is made where it is missing, and stays.
 *
 * *ret_value is to be freed by the caller; it is NULL when @present names our library
 * already.  Errors: -EINVAL there can be no such link: no such directory of the user's own, or
 * one with such a path; -ENOMEM.
 */
int ts_library_compose(const char *present, const char *library, char **ret_value);

/** What helps where it cannot. */
#define TS_LIBRARY_UNSAYABLE                                                 \
	"let HOME or XDG_STATE_HOME name a directory of yours, or move the " \
	"installation to a path without blanks, colons and '$'"

#endif
