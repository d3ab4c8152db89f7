/* SPDX-License-Identifier: MIT */
/* tsrun -- command: the checks before it starts, its environment, and the exec. */
#include "shim/tsrun/commands.h"
#include "leader/events/events.h"
#include "shim/identity.h"
#include "shim/tsrun/conf.h"
#include "shim/tsrun/gc.h"
#include "shim/tsrun/library.h"
#include "shim/tsrun/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Say which settings do nothing together; none of them is a reason not to run. */
static void judge_settings(const struct ts_arguments *arguments, const struct ts_config *config)
{
	if (config->align && config->disable) {
		ts_message_say("TSSHIM_DISABLE=1 switches alignment off too: the job computes "
			       "something else");
		ts_message_hint("`--share off` aligns a job that shares nothing");
	} else if (!config->align &&
		   (config->epoch > 0 || arguments->setting[TS_OPTION_EPOCH])) {
		ts_message_say("the first epoch counts for aligned jobs only, ignoring");
		ts_message_hint("add --align, or leave out --epoch and TSSHIM_EPOCH");
	} else if (!config->align && config->align_orders) {
		ts_message_say("orders are aligned for aligned jobs only, ignoring");
		ts_message_hint("add --align, or leave out --align-orders");
	} else if (!config->align && config->order != TS_ORDER_STRICT) {
		ts_message_say("the order is free for aligned jobs only, ignoring");
		ts_message_hint("add --align, or leave out --order and TSSHIM_ORDER");
	}
	if (config->locality && config->align) {
		ts_message_say("the order of an aligned job follows from its seed, ignoring "
			       "--locality");
		ts_message_hint("leave out --align, or --locality and TSSHIM_LOCALITY");
	}
	if ((config->record || config->replay) &&
		(!config->align || config->order == TS_ORDER_STRICT)) {
		ts_message_say("only a free order is recorded and replayed, ignoring");
		ts_message_hint(
			"add --align --order free; a strict order follows from its seed");
	}
	if (config->across != TS_ACROSS_OFF && (!config->align || !config->cluster)) {
		ts_message_say("samples go to other nodes from aligned jobs of a cluster only, "
			       "ignoring");
		ts_message_hint("add --align and --cluster DIR, or leave out --across and "
				"TSSHIM_ACROSS");
	}
	bool named = config->dataset_dir && config->dataset_dir[0] == '/';
	if (config->stage != TS_STAGE_OFF && !named) {
		ts_message_say("no directory is named whose files to copy, ignoring");
		ts_message_hint("add --dataset NAME=DIR (in the environment, DIR is absolute), "
				"or leave out "
				"--stage and TSSHIM_STAGE");
	}
}

/* Whether a file could be made at @path, which is not there; the recorder makes directories of
 * the default one only. */
static int judge_directory(const struct ts_config *config, const char *path)
{
	char directory[TS_EVENTS_PATH];
	const char *slash = strrchr(path, '/');

	if (config->events == TS_EVENTS_ON || !slash)
		return 0;
	(void)snprintf(directory, sizeof(directory), "%.*s/", (int)(slash - path), path);
	return access(directory, W_OK | X_OK) < 0 ? -errno : 0;
}

/*
 * Look at the file of the event log that @config asks for.  Says what will keep a log from
 * being written; that is no reason not to run.  Errors: -EINVAL there is something else in that
 * place.
 */
static int judge_events(const struct ts_config *config)
{
	char path[TS_EVENTS_PATH] = "";
	int fd = -1, r = ts_events_path(config, environ, path);

	if (r == -ENOENT || config->disable)
		return 0;
	if (r < 0) {
		ts_message_say("no event log: HOME is no absolute path, or too long");
		ts_message_hint("--events=FILE names a file");
		return 0;
	}
	r = ts_events_open(path, config->group, 0, &fd);
	if (r == 0)
		(void)close(fd);
	else if (r == -ENOENT)
		r = judge_directory(config, path);
	if (r < 0 && ts_events_is_refusal(r)) {
		ts_message_say(
			"no event log can be written to '%s': %s", path, ts_events_explain(r));
		ts_message_hint("--events=FILE names another file");
		return -EINVAL;
	}
	if (r < 0)
		ts_message_say("no event log: '%s': %s", path, strerror(-r));
	return 0;
}

/* Say so when the command will not see the library; returns whether to preload it. */
static bool judge_command(const char *command, const char *program)
{
	char path[PATH_MAX];

	if (ts_library_which(command, path) < 0)
		return true;
	enum ts_preload_verdict verdict = ts_library_judge(path, program);
	const char *why = ts_library_explain(verdict);
	if (why) {
		ts_message_say("'%s' %s: it runs, but shares nothing", path, why);
		ts_message_hint("%s", ts_library_remedy(verdict));
	}
	/* The children of the others may well be dynamic; these would refuse to start. */
	return verdict != TS_PRELOAD_LIBC && verdict != TS_PRELOAD_FIRST;
}

/* Set LD_PRELOAD for @command. Returns 0 or TS_EXIT_FAILED after a message. */
static int preload(const char *command)
{
	char program[PATH_MAX], library[PATH_MAX];

	int r = ts_library_own(program);
	if (r < 0) {
		ts_message_say("cannot read /proc/self/exe: %s", strerror(-r));
		return TS_EXIT_FAILED;
	}
	const char *wrong = "it is not there";
	r = ts_library_find(program, library);
	if (r == 0)
		wrong = ts_library_check(library, program);
	if (wrong) {
		ts_message_say("cannot use the library '%s': %s", library, wrong);
		ts_message_hint(
			"reinstall tsshim; TSSHIM_DISABLE=1 runs the command without it");
		return TS_EXIT_FAILED;
	}
	if (!judge_command(command, program))
		return 0;

	char *value = NULL;
	r = ts_library_compose(getenv("LD_PRELOAD"), library, &value);
	if (r == -EINVAL) {
		ts_message_say("the path '%s' cannot be preloaded: ld.so takes no blank, colon "
			       "or '$' in it, and a link to it could not be made",
			library);
		ts_message_hint(TS_LIBRARY_UNSAYABLE);
		return TS_EXIT_FAILED;
	}
	if (r < 0 || (value && setenv("LD_PRELOAD", value, 1) < 0)) {
		ts_message_say("cannot set LD_PRELOAD: %s", strerror(ENOMEM));
		return TS_EXIT_FAILED;
	}
	free(value);
	return 0;
}

/*
 * "tsrun --align 7 -- cmd" and "tsrun --summary 1 -- cmd" run a program called 7 or 1, which
 * nobody means. Returns whether it was that.
 */
static bool hint_misplaced_value(const struct ts_arguments *arguments)
{
	const struct ts_option_text *last = arguments->last;
	const char *word = arguments->command[0];
	struct ts_config scratch;

	if (!last || arguments->separated || word[0] == '\0')
		return false;
	ts_config_init(&scratch);
	if (last->implied && ts_config_set(&scratch, (enum ts_option)last->setting, word) == 0)
		ts_message_hint("write %s=%s: its value is joined by '='", last->name, word);
	else if (!last->metavar && word[strspn(word, "0123456789")] == '\0')
		ts_message_hint("option '%s' takes no value", last->name);
	else
		return false;
	return true;
}

static int report_exec(const struct ts_arguments *arguments, int error)
{
	const char *command = arguments->command[0];
	char path[PATH_MAX];

	ts_message_say("cannot run '%s': %s", command, strerror(error));
	if (error != ENOENT)
		return TS_EXIT_NOT_RUNNABLE;
	const char *near = arguments->separated ? NULL : ts_arguments_near_mode(command);
	if (ts_library_which(command, path) == 0)
		ts_message_hint("'%s' is there, but the interpreter it names is not", path);
	else if (!hint_misplaced_value(arguments) && near)
		ts_message_hint("did you mean `tsrun %s`?", near);
	return TS_EXIT_NOT_FOUND;
}

/*
 * Tell the process that this one becomes that it prints the line when it ends, and where: what
 * standard error is now.  A summary says it all.
 */
static int set_line(const struct ts_config *config)
{
	const char *name = ts_options[TS_OPTION_SUMMARY].variable;
	struct stat stream;
	char value[96];

	if (config->summary)
		return 0;
	if (config->quiet || config->disable || fstat(STDERR_FILENO, &stream) < 0)
		/* A tsrun around this one may have set its own. */
		return config->line.launch ? unsetenv(name) : 0;
	snprintf(value, sizeof(value), "line:%llu:%llu:%llu",
		(unsigned long long)ts_process_id(getpid(), false),
		(unsigned long long)stream.st_dev, (unsigned long long)stream.st_ino);
	return setenv(name, value, 1);
}

int ts_run_command(const struct ts_arguments *arguments)
{
	struct ts_config config;

	if (!arguments->command) {
		ts_message_say("no command given");
		ts_message_hint("tsrun -- python train.py; `tsrun --help` says more");
		return TS_EXIT_FAILED;
	}
	if (ts_conf_export(arguments, &config) < 0 || judge_events(&config) < 0)
		return TS_EXIT_FAILED;
	judge_settings(arguments, &config);
	if (set_line(&config) < 0) {
		ts_message_say("cannot set the environment: %s", strerror(ENOMEM));
		return TS_EXIT_FAILED;
	}
	if (!config.disable) {
		int status = preload(arguments->command[0]);
		if (status != 0)
			return status;
		ts_gc_sweep(config.group, config.ring_bytes);
	}
	execvp(arguments->command[0], arguments->command);
	return report_exec(arguments, errno);
}
