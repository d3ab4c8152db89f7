/* SPDX-License-Identifier: MIT */
/* tsrun -- command: set the environment, become the command. */
#ifndef TS_TSRUN_RUN_H
#define TS_TSRUN_RUN_H

#include "shim/config.h"
#include "shim/tsrun/arguments.h"
#include "shim/tsrun/conf.h"

/**
 * Put the settings of the command line into the environment, then those of files that it has
 * none of yet (ts_conf_read()), and check all TSSHIM_ variables.
 * A bad value is refused after a message; an unknown TSSHIM_ name is only warned of.
 * Writes what holds now into @ret_config, whose strings point into the environment.
 * Errors: -EINVAL after a message.
 */
int ts_run_settings(const struct ts_arguments *arguments, struct ts_config *ret_config);

/** The same with what was read of @files. */
int ts_run_settings_with(const struct ts_arguments *arguments,
	const struct ts_conf files[TS_CONF_COUNT], struct ts_config *ret_config);

/** Put the settings of @files into the environment that it does not have. Errors: -ENOMEM. */
int ts_run_export_files(const struct ts_conf files[TS_CONF_COUNT]);

/**
 * Become the command of @arguments with the library preloaded.  Returns only on failure,
 * after a message: 125, 126 or 127 (enum ts_exit).
 *
 * The process id stays the same, so signals, exit status, process groups and what a batch
 * system knows about the job are the command's own.
 */
int ts_run_command(const struct ts_arguments *arguments);

#endif
