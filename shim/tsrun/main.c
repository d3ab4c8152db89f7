/* SPDX-License-Identifier: MIT */
/* tsrun: start a command that shares, or look at what is shared. */
#include "shim/tsrun/arguments.h"
#include "shim/tsrun/cluster.h"
#include "shim/tsrun/check.h"
#include "shim/tsrun/explain.h"
#include "shim/tsrun/gc.h"
#include "shim/tsrun/help.h"
#include "shim/tsrun/message.h"
#include "shim/tsrun/origins.h"
#include "shim/tsrun/page.h"
#include "shim/tsrun/report.h"
#include "shim/tsrun/run.h"
#include "shim/tsrun/top.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* Without a name of a group it is about all of them. */
static const char *named_group(const struct ts_arguments *arguments,
	const struct ts_config *config, bool by_environment)
{
	bool named = arguments->setting[TS_OPTION_GROUP] ||
		     (by_environment && getenv("TSSHIM_GROUP"));

	return named ? config->group : NULL;
}

static int show_top(const struct ts_arguments *arguments, const struct ts_config *config)
{
	struct ts_top_options options = {.group = named_group(arguments, config, true),
		.batch = arguments->flag[TS_FLAG_BATCH],
		.json = arguments->flag[TS_FLAG_JSON]};

	if (ts_top_parse(arguments->value[TS_FLAG_BLOCKS], arguments->value[TS_FLAG_DELAY],
		    &options) < 0)
		return TS_EXIT_FAILED;
	return ts_top_run(&options);
}

/* Bad settings are what it is asked for, and so no reason to refuse. */
static int show_doctor(const struct ts_arguments *arguments)
{
	static struct ts_conf files[TS_CONF_COUNT]; /* too large for a stack frame */

	ts_conf_read(files);
	(void)ts_run_export_files(files);
	ts_conf_free(files);
	return ts_doctor_print(arguments->command, arguments->flag[TS_FLAG_JSON]);
}

/* Options that make no sense together; a message says which. */
static int check_stats(const struct ts_arguments *arguments)
{
	const bool *flag = arguments->flag;
	const char *file = arguments->value[TS_FLAG_OUTPUT];
	const char *other = flag[TS_FLAG_JSON]      ? "--json"
			    : flag[TS_FLAG_VERBOSE] ? "--verbose"
						    : NULL;

	if (flag[TS_FLAG_PROMETHEUS] && other) {
		ts_message_say("%s and --prometheus exclude each other", other);
		return -EINVAL;
	}
	if (flag[TS_FLAG_JSON] && flag[TS_FLAG_VERBOSE]) {
		ts_message_say("--verbose and --json exclude each other");
		ts_message_hint("--json has every counter as it is");
		return -EINVAL;
	}
	if (file && file[0] == '\0') {
		ts_message_say("--output needs the name of a file");
		return -EINVAL;
	}
	return 0;
}

static int show_stats(const struct ts_arguments *arguments, const struct ts_config *config)
{
	const bool *flag = arguments->flag;

	if (check_stats(arguments) < 0)
		return TS_EXIT_FAILED;
	return ts_stats_print(config->group,
		flag[TS_FLAG_PROMETHEUS] ? TS_REPORT_PROMETHEUS
		: flag[TS_FLAG_JSON]     ? TS_REPORT_JSON
		: flag[TS_FLAG_VERBOSE]  ? TS_REPORT_VERBOSE
					 : TS_REPORT_TEXT,
		arguments->value[TS_FLAG_OUTPUT]);
}

static int make_page(const struct ts_arguments *arguments, const struct ts_config *config)
{
	const struct ts_page_options options = {.output = arguments->value[TS_FLAG_OUTPUT],
		.config = config,
		.logs = arguments->files};

	return ts_page_make(&options);
}

static int show_explain(const struct ts_arguments *arguments, const struct ts_config *config)
{
	const char *text = arguments->value[TS_FLAG_PID];
	char *end = NULL;
	long pid = text ? strtol(text, &end, 10) : 0;

	if (arguments->command || arguments->separated) {
		ts_message_say("explain looks at running jobs: check a command with `tsrun "
			       "doctor -- COMMAND`, or run it and type `tsrun explain`");
		return TS_EXIT_FAILED;
	}
	if (text && (*text < '0' || *text > '9' || *end != '\0' || pid <= 0 || pid > INT_MAX)) {
		ts_message_say("option '--pid' has a bad value '%s'", text);
		ts_message_hint(
			"it must be the number of a process, as `tsrun stats` shows them");
		return TS_EXIT_FAILED;
	}
	return ts_explain_jobs(
		named_group(arguments, config, true), (int)pid, arguments->flag[TS_FLAG_JSON]);
}

/* The group of a sub-command: the option, else the environment, else the default. */
static int sub_command(const struct ts_arguments *arguments)
{
	struct ts_config config;

	ts_message_guard_streams();
	if (arguments->mode == TS_MODE_DOCTOR)
		return show_doctor(arguments);
	if (arguments->mode == TS_MODE_CONFIG)
		return ts_origins_print(arguments);
	if (ts_run_settings(arguments, &config) < 0)
		return TS_EXIT_FAILED;
	if (arguments->mode == TS_MODE_STATS)
		return show_stats(arguments, &config);
	if (arguments->mode == TS_MODE_TOP)
		return show_top(arguments, &config);
	if (arguments->mode == TS_MODE_REPORT)
		return make_page(arguments, &config);
	if (arguments->mode == TS_MODE_EXPLAIN)
		return show_explain(arguments, &config);
	if (arguments->mode == TS_MODE_CLUSTER)
		return ts_cluster_command(arguments);
	return ts_gc_collect(
		named_group(arguments, &config, false), arguments->flag[TS_FLAG_DRY_RUN]);
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
