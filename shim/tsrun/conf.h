/* SPDX-License-Identifier: MIT */
/*
 * Settings of a job, of the command line, the environment and files: "name = value", a line
 * each, names as those of the options without "--".
 *
 * Files are read by tsrun only, which turns them into the environment of the command: a process
 * that the library is preloaded into opens no file for them.  They are the user's
 * ($XDG_CONFIG_HOME, else $HOME/.config) and the system's.  A name that is not known is told,
 * and its line ignored, as in the environment.  A file that has another fault is told and
 * ignored as a whole; so is one of somebody else's, one that all may write, no regular file, a
 * large one.
 */
#ifndef TS_TSRUN_CONF_H
#define TS_TSRUN_CONF_H

#include "shim/config.h"
#include "shim/tsrun/arguments.h"

/**
 * Put the settings of the command line into the environment, then those of files that it has
 * none of yet, and check all TSSHIM_ variables.
 * A bad value is refused after a message; an unknown TSSHIM_ name is only warned of.
 * Writes what holds now into @ret_config, whose strings point into the environment.
 * Errors: -EINVAL after a message.
 */
int ts_conf_export(const struct ts_arguments *arguments, struct ts_config *ret_config);

/** Put the settings of files into the environment that it does not have, checked or not. */
void ts_conf_export_files(void);

#endif
