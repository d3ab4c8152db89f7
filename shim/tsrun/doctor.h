/* SPDX-License-Identifier: MIT */
/* tsrun doctor: whether tsshim can work here. */
#ifndef TS_TSRUN_DOCTOR_H
#define TS_TSRUN_DOCTOR_H

#include "shim/base.h"

/* Exit status when a check failed; nothing else of tsrun ends with it. */
#define TS_DOCTOR_FAILED 1

/**
 * Run all checks (shim/tsrun/checks.def) and print what they found on stdout, a line each, or
 * with @json as one list of objects.  @command are the words of a program to look at, ending
 * with NULL, or NULL; it is not run.  Stays this process's: not thread-safe.
 *
 * Returns 0; TS_DOCTOR_FAILED; or TS_EXIT_FAILED after a message, where nothing was checked.
 */
int ts_doctor_print(char **command, bool json);

#endif
