/* SPDX-License-Identifier: MIT */
/* Parts of tsrun that are written in Python: each is a directory beside the library. */
#ifndef TS_TSRUN_PYTHON_H
#define TS_TSRUN_PYTHON_H

#include "shim/base.h"

#include <limits.h>

/** Where our part @name is.  Errors, with *ret_path all the same: of access(2); others without.
 */
int ts_python_part(const char *name, char ret_path[PATH_MAX]);

/** The python3 beside tsrun, as an environment has it, else that in PATH.  Errors: -ENOENT...
 */
int ts_python_find(char ret_path[PATH_MAX]);

/**
 * Become the interpreter @python with the part @part, and @words (NULL at the end) for that.
 * Returns only with an error, of execv(3).
 */
int ts_python_become(const char *python, const char *part, const char *const *words);

#endif
