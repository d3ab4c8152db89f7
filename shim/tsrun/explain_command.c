/* SPDX-License-Identifier: MIT */
/* tsrun explain of a command: the checks that concern it, then its interpreter looks further.
 */
#include "shim/sys.h"
#include "shim/reasons.h"
#include "shim/tsrun/check.h"
#include "shim/tsrun/explain.h"
#include "shim/tsrun/json.h"
#include "shim/tsrun/launch.h"
#include "shim/tsrun/library.h"
#include "shim/tsrun/message.h"
#include "shim/tsrun/units.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

#define DRIVER "python/tsshim_torch/explain/run.py"

/* Those of `tsrun doctor` that say something of the command. */
static const struct {
	const char *id;
	void (*look)(const struct ts_check_scene *scene, struct ts_check *check);
} checks[] = {
	{"library", ts_check_library},
	{"python", ts_check_python},
	{"command", ts_check_command},
};

static struct ts_check found[TS_ARRAY_SIZE(checks)]; /* too large for a stack frame */

static int run_checks(char **command, struct ts_check_scene *scene)
{
	memset(scene, 0, sizeof(*scene));
	scene->command = command;
	scene->environment = environ;
	int64_t length =
		ts_sys_readlink("/proc/self/exe", scene->program, sizeof(scene->program));
	if (length < 0)
		return (int)length;
	scene->has_library = ts_library_find(scene->program, scene->library) == 0;
	ts_config_load(&scene->config, environ, NULL);
	for (size_t i = 0; i < TS_ARRAY_SIZE(checks); i++) {
		found[i] = (struct ts_check){.state = TS_CHECK_ABSENT};
		checks[i].look(scene, &found[i]);
	}
	return 0;
}

/* ---- what is handed to the interpreter, or printed here -------------------------------- */

static void write_checks(struct ts_json *json)
{
	ts_json_open(json, "checks", '[');
	for (size_t i = 0; i < TS_ARRAY_SIZE(checks); i++) {
		ts_json_open(json, NULL, '{');
		ts_json_string(json, "id", checks[i].id);
		ts_json_string(json, "state", ts_check_word(found[i].state));
		ts_json_string(json, "found", found[i].found);
		if (found[i].fix[0] != '\0')
			ts_json_string(json, "fix", found[i].fix);
		else
			ts_json_null(json, "fix");
		ts_json_close(json, '}');
	}
	ts_json_close(json, ']');
}

static void write_reasons(struct ts_json *json)
{
	ts_json_open(json, "reasons", '{');
	for (size_t i = 0; i < TS_REASON_COUNT; i++) {
		ts_json_open(json, ts_reasons[i].id, '{');
		ts_json_string(json, "text", ts_reasons[i].text);
		ts_json_string(json, "fix", ts_reasons[i].fix ? ts_reasons[i].fix : "");
		ts_json_close(json, '}');
	}
	ts_json_close(json, '}');
}

/* What the interpreter cannot know, as one word for its command line; to be freed, or NULL. */
static char *write_facts(void)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	struct ts_json json = {.out = out};

	if (!out)
		return NULL;
	ts_json_open(&json, NULL, '{');
	write_checks(&json);
	write_reasons(&json);
	ts_json_close(&json, '}');
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

static void print_checks(void)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(checks); i++) {
		ts_units_make_printable(found[i].found);
		ts_units_make_printable(found[i].fix);
		printf("%-4s  %s\n", ts_check_word(found[i].state), found[i].found);
		if (found[i].fix[0] != '\0')
			printf("      fix: %s\n", found[i].fix);
	}
}

/* Of a program that is no Python there is no more to say. */
static int explain_other(const struct ts_launch *launch, bool is_json)
{
	static const char words[] = "no Python: shared are pictures that a shared libjpeg "
				    "decodes, and files of slow "
				    "storage; samples come from loaders of PyTorch";
	struct ts_json json = {.out = stdout};

	if (is_json) {
		ts_json_open(&json, NULL, '{');
		ts_json_string(&json, "program", launch->program);
		ts_json_bool(&json, "python", false);
		write_checks(&json);
		ts_json_close(&json, '}');
	} else {
		print_checks();
		printf("\n%s is %s\n", launch->program, words);
	}
	return 0;
}

/* ---- starting it ------------------------------------------------------------------------ */

/* The interpreter shares nothing, makes nothing and says nothing but what its driver prints. */
static int set_environment(const struct ts_check_scene *scene)
{
	static const char *const settings[][2] = {{"TSSHIM_SHARE", "off"},
		{"TSSHIM_ALIGN", "off"}, {"TSSHIM_QUIET", "1"}, {"TSSHIM_STAGE", "off"},
		{"TSSHIM_COPIES", "off"}, {"TSSHIM_RECORD", "off"}, {"TSSHIM_REPLAY", "off"},
		{"TSSHIM_SUMMARY", "0"}, {"TSSHIM_KEEP", "0"}, {"TSSHIM_EVENTS", "off"}};
	char *value = NULL;

	for (size_t i = 0; i < TS_ARRAY_SIZE(settings); i++)
		if (setenv(settings[i][0], settings[i][1], 1) < 0)
			return -ENOMEM;
	if (ts_library_compose(getenv("LD_PRELOAD"), scene->library, &value) == 0 && value &&
		setenv("LD_PRELOAD", value, 1) < 0)
		return -ENOMEM;
	free(value);
	return 0;
}

/* How many of @words are options of the interpreter that come before script, -c or -m. */
static size_t count_options(char *const *words)
{
	size_t i = 1;

	for (; words[i]; i++) {
		const char *word = words[i];
		if (word[0] != '-' || word[1] == '\0' || strcmp(word, "--") == 0)
			break;
		if (word[1] == '-') {
			i += strcmp(word, "--check-hash-based-pycs") == 0 && words[i + 1];
			continue;
		}
		const char *letter = word + 1 + strcspn(word + 1, "cmWX");
		if (*letter == 'c' || *letter == 'm')
			break;
		/* The value of -W and -X is the rest, or the next word. */
		i += *letter != '\0' && letter[1] == '\0' && words[i + 1];
	}
	return i;
}

/* Become the interpreter of @launch with our driver in the place of the script. */
static int start(struct ts_launch *launch, const char *driver, bool is_json)
{
	char *words[2 * TS_LAUNCH_WORDS];
	char number[16];
	size_t count = 0, options = count_options(launch->words), at = 0;

	/* What the program prints goes to stderr; what we print does not. */
	(void)fflush(stdout);
	int out = fcntl(STDOUT_FILENO, F_DUPFD, 3);
	char *facts = write_facts();
	if (out < 0 || !facts || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
		ts_message_say("cannot start the interpreter: %s", strerror(errno));
		return TS_EXIT_FAILED;
	}
	(void)snprintf(number, sizeof(number), "%d", out);
	words[count++] = launch->program;
	for (at = 1; at < options; at++)
		words[count++] = launch->words[at];
	char *const ours[] = {(char *)(uintptr_t)driver,
		(char *)(uintptr_t)(is_json ? "json" : "text"), number, facts};
	memcpy(words + count, ours, sizeof(ours));
	count += TS_ARRAY_SIZE(ours);
	for (; launch->words[at]; at++)
		words[count++] = launch->words[at];
	words[count] = NULL;
	(void)execv(launch->program, words);
	int error = errno;
	ts_message_say("cannot run '%s': %s", launch->program, strerror(error));
	free(facts);
	return error == ENOENT ? TS_EXIT_NOT_FOUND : TS_EXIT_NOT_RUNNABLE;
}

static bool is_python(const char *program)
{
	struct ts_inspection inside;
	const char *slash = strrchr(program, '/');

	if (ts_library_inspect(program, &inside) == 0)
		return inside.python;
	return strncmp(slash ? slash + 1 : program, "python", strlen("python")) == 0;
}

static int report_missing(const char *word, int error)
{
	ts_message_say(
		"'%s' %s", word, error == -EACCES ? "cannot be executed" : "was not found");
	return error == -EACCES ? TS_EXIT_NOT_RUNNABLE : TS_EXIT_NOT_FOUND;
}

int ts_explain_command(char **command, bool is_json)
{
	static struct ts_check_scene scene; /* too large for a stack frame, both */
	static struct ts_launch launch;
	char driver[PATH_MAX];

	int r = ts_launch_resolve(command, &launch);
	if (r < 0)
		return report_missing(launch.words[0], r);
	r = run_checks(command, &scene);
	if (r < 0) {
		ts_message_say("cannot read /proc/self/exe: %s", strerror(-r));
		return TS_EXIT_FAILED;
	}
	if (!is_python(launch.program))
		return explain_other(&launch, is_json);
	const char *slash = strrchr(scene.library, '/');
	driver[0] = '\0';
	if (!scene.has_library || !slash ||
		snprintf(driver, sizeof(driver), "%.*s/" DRIVER, (int)(slash - scene.library),
			scene.library) >= (int)sizeof(driver) ||
		access(driver, R_OK) < 0) {
		ts_message_say("cannot read our part that looks into Python, '%s'", driver);
		ts_message_hint("reinstall tsshim; `tsrun doctor` says more");
		return TS_EXIT_FAILED;
	}
	if (set_environment(&scene) < 0) {
		ts_message_say("cannot set the environment: %s", strerror(ENOMEM));
		return TS_EXIT_FAILED;
	}
	return start(&launch, driver, is_json);
}
