/* SPDX-License-Identifier: MIT */
/* The commands of tsrun, a function each; shim/tsrun/commands.def says what they do. */
#ifndef TS_TSRUN_COMMANDS_H
#define TS_TSRUN_COMMANDS_H

#include "shim/config.h"
#include "shim/tsrun/arguments.h"

/**
 * Become the command of @arguments with the library preloaded.  Returns only on failure,
 * after a message: 125, 126 or 127 (enum ts_exit).
 *
 * The process id stays the same, so signals, exit status, process groups and what a batch
 * system knows about the job are the command's own.
 */
int ts_run_command(const struct ts_arguments *arguments);

/*
 * Each of the others returns its exit status: TS_EXIT_FAILED after a message, else as
 * shim/tsrun/commands.def tells.  @config is what holds now; those without it ask themselves,
 * for bad settings are no reason for them to refuse.
 */
int ts_doctor_command(const struct ts_arguments *arguments);
/** Becomes the Python that checks the GPUs, and returns only on failure. */
int ts_doctor_gpu_command(const struct ts_arguments *arguments);
int ts_config_command(const struct ts_arguments *arguments);
int ts_cluster_command(const struct ts_arguments *arguments);
int ts_stats_command(const struct ts_arguments *arguments, const struct ts_config *config);
int ts_top_command(const struct ts_arguments *arguments, const struct ts_config *config);
int ts_explain_command(const struct ts_arguments *arguments, const struct ts_config *config);
/** Becomes the Python that makes the page, and returns only on failure. */
int ts_report_command(const struct ts_arguments *arguments, const struct ts_config *config);
int ts_gc_command(const struct ts_arguments *arguments, const struct ts_config *config);

#endif
