/* SPDX-License-Identifier: MIT */
/* tsrun: start a command that shares, or look at what is shared. */
#include "shim/tsrun/arguments.h"
#include "shim/tsrun/help.h"
#include "shim/tsrun/message.h"
#include "shim/tsrun/run.h"

#include <stdio.h>

int main(int argc, char **argv)
{
	struct ts_arguments arguments;

	if (ts_arguments_parse(argc, argv, &arguments) < 0)
		return TS_EXIT_FAILED;
	if (arguments.flag[TS_FLAG_HELP])
		ts_help_print(arguments.mode);
	else if (arguments.flag[TS_FLAG_VERSION])
		printf("tsrun (tsshim) %s\n", TS_VERSION);
	else
		return ts_run_command(&arguments);
	return ts_message_close_stdout(0);
}
