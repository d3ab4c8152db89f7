/* SPDX-License-Identifier: MIT */
/* Environment of the command, the checks before it starts, and the exec. */
#include "shim/tsrun/run.h"
#include "shim/identity.h"
#include "shim/tsrun/events.h"
#include "shim/tsrun/gc.h"
#include "shim/tsrun/library.h"
#include "shim/tsrun/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

/* How many variables were refused; ts_config_load() hands no pointer through. */
static unsigned refused;

/* What should have stood there instead of @value. */
static void hint_value(enum ts_option option, const char *value)
{
	const char *const *words = ts_config_words(option);
	const char *near = words && value ? ts_config_nearest(value, words) : NULL;

	if (near)
		ts_message_hint(
			"did you mean '%s'? It must be %s", near, ts_config_expect(option));
	else
		ts_message_hint("it must be %s", ts_config_expect(option));
}

static void complain(
	enum ts_option option, const char *name, const char *value, const char *suggestion)
{
	if ((unsigned)option < TS_OPTION_COUNT) {
		ts_message_say("%s has a bad value '%s'", name, value ? value : "");
		hint_value(option, value);
		refused++;
		return;
	}
	ts_message_say("unknown variable %s in the environment, ignoring", name);
	if (suggestion)
		ts_message_hint("did you mean %s?", suggestion);
}

/*
 * A directory is handed to the job as an absolute path: the job may change its own working
 * directory before anything looks.  Returns a string to free, or NULL after a message.
 */
static char *absolute_dataset(const char *value)
{
	const char *equals = strchr(value, '=');
	char *result = NULL;

	if (!equals)
		return strdup(value);
	char *directory = realpath(equals + 1, NULL);
	if (!directory) {
		ts_message_say(
			"option '--dataset': directory '%s': %s", equals + 1, strerror(errno));
		return NULL;
	}
	/* An absolute one stays as it is spelt: paths are known by their text. */
	if (asprintf(&result, "%.*s=%s", (int)(equals - value), value,
		    equals[1] == '/' ? equals + 1 : directory) < 0)
		result = NULL;
	free(directory);
	return result;
}

/* A file is named as seen from here; it may be one that is not there yet. */
static char *absolute_file(const char *value)
{
	char *result = NULL;

	if (value[0] == '/' || value[0] == '\0' || strcmp(value, "off") == 0)
		return strdup(value);
	char *here = getcwd(NULL, 0);
	if (!here || asprintf(&result, "%s/%s", here, value) < 0)
		result = NULL;
	free(here);
	return result;
}

/* A word without '/' or '.' is more likely a mistyped one than the name of a file. */
static char *absolute_log(const char *value)
{
	struct ts_config scratch;

	if (ts_config_set(&scratch, TS_OPTION_EVENTS, value) == 0)
		return strdup(value);
	if (strpbrk(value, "/."))
		return absolute_file(value);
	ts_message_say("option '--events' has a bad value '%s'", value);
	ts_message_hint("it must be on, off or a file; write ./%s for one of that name", value);
	return NULL;
}

static char *value_to_export(enum ts_option option, const char *given)
{
	char *result = NULL;

	if (option == TS_OPTION_SUMMARY) {
		/* The command keeps our process id: it alone prints, its workers do not. */
		if (asprintf(&result, "pid:%d", (int)getpid()) < 0)
			return NULL;
		return result;
	}
	if (ts_options[option].form == TS_FORM_BOOL)
		return strdup("1"); /* it takes no value */
	if (ts_options[option].form == TS_FORM_FILE)
		return absolute_file(given);
	if (option == TS_OPTION_EVENTS)
		return absolute_log(given);
	struct ts_config scratch;
	ts_config_init(&scratch);
	if (ts_config_set(&scratch, option, given) < 0) {
		ts_message_say("option '%s' has a bad value '%s'",
			ts_arguments_options()[option].name, given);
		hint_value(option, given);
		return NULL;
	}
	return option == TS_OPTION_DATASET ? absolute_dataset(given) : strdup(given);
}

int ts_run_export_files(const struct ts_conf files[TS_CONF_COUNT])
{
	for (int i = 0; i < TS_OPTION_COUNT; i++) {
		const struct ts_conf *file = ts_conf_find(files, (enum ts_option)i);
		if (file && setenv(ts_options[i].variable, file->value[i], 0) < 0)
			return -ENOMEM;
	}
	return 0;
}

int ts_run_settings(const struct ts_arguments *arguments, struct ts_config *ret_config)
{
	static struct ts_conf files[TS_CONF_COUNT]; /* too large for a stack frame */

	ts_conf_read(files);
	int r = ts_run_settings_with(arguments, files, ret_config);
	ts_conf_free(files);
	return r;
}

int ts_run_settings_with(const struct ts_arguments *arguments,
	const struct ts_conf files[TS_CONF_COUNT], struct ts_config *ret_config)
{
	struct ts_config config;

	for (int i = 0; i < TS_OPTION_COUNT; i++) {
		if (!arguments->setting[i])
			continue;
		char *value = value_to_export((enum ts_option)i, arguments->setting[i]);
		int r = value ? setenv(ts_options[i].variable, value, 1) : -1;
		free(value);
		if (r < 0)
			return -EINVAL;
	}
	if (ts_run_export_files(files) < 0)
		return -EINVAL;
	refused = 0;
	ts_config_load(&config, environ, complain);
	if (refused > 0)
		return -EINVAL;
	if (config.record && access(config.record, F_OK) == 0) {
		ts_message_say("'%s' is there already", config.record);
		ts_message_hint(
			"a recording begins a new file; remove that one, or name another");
		return -EINVAL;
	}
	*ret_config = config;
	return 0;
}

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

/* Path of the running program, without symbolic links. */
static int own_program(char ret_path[PATH_MAX])
{
	ssize_t length = readlink("/proc/self/exe", ret_path, PATH_MAX - 1);
	if (length < 0)
		return -errno;
	ret_path[length] = '\0';
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

	int r = own_program(program);
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
	if (ts_run_settings(arguments, &config) < 0 || ts_events_judge(&config) < 0)
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
