/* SPDX-License-Identifier: MIT */
/* The texts of --help, made from the tables of settings and options. */
#ifndef TS_TSRUN_HELP_H
#define TS_TSRUN_HELP_H

#include "shim/tsrun/arguments.h"

/** Print the help of @mode on stdout. */
void ts_help_print(enum ts_mode mode);

#endif
