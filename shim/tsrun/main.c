/* SPDX-License-Identifier: MIT */
/* tsrun: start a command that shares, or look at what is shared. */
#include "shim/tsrun/commands.h"
#include "shim/tsrun/conf.h"
#include "shim/tsrun/message.h"

#include <stdio.h>

static int sub_command(const struct ts_arguments *arguments)
{
	struct ts_config config;

	ts_message_guard_streams();
	if (arguments->mode == TS_MODE_DOCTOR)
		return arguments->flag[TS_FLAG_GPU] ? ts_doctor_gpu_command(arguments)
						    : ts_doctor_command(arguments);
	if (arguments->mode == TS_MODE_CONFIG)
		return ts_config_command(arguments);
	if (ts_conf_export(arguments, &config) < 0)
		return TS_EXIT_FAILED;
	if (arguments->mode == TS_MODE_STATS)
		return ts_stats_command(arguments, &config);
	if (arguments->mode == TS_MODE_TOP)
		return ts_top_command(arguments, &config);
	if (arguments->mode == TS_MODE_REPORT)
		return ts_report_command(arguments, &config);
	if (arguments->mode == TS_MODE_EXPLAIN)
		return ts_explain_command(arguments, &config);
	if (arguments->mode == TS_MODE_CLUSTER)
		return ts_cluster_command(arguments);
	return ts_gc_command(arguments, &config);
}

int main(int argc, char **argv)
{
	struct ts_arguments arguments;
	int status = 0;

	if (ts_arguments_parse(argc, argv, &arguments) < 0)
		return TS_EXIT_FAILED;
	if (arguments.flag[TS_FLAG_HELP])
		ts_help_print(arguments.mode);
	else if (arguments.flag[TS_FLAG_VERSION])
		printf("tsrun (tsshim) %s\n", TS_VERSION);
	else if (arguments.mode == TS_MODE_RUN)
		return ts_run_command(&arguments);
	else
		status = sub_command(&arguments);
	return ts_message_close_stdout(status);
}
