/* SPDX-License-Identifier: MIT */
/* Checks of `tsrun doctor`: the command, and what keeps Python from our part. */
#include "shim/tsrun/check.h"
#include "shim/tsrun/inspect.h"
#include "shim/tsrun/launch.h"
#include "shim/tsrun/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What is known of a command; large, so one at a time. */
struct subject {
	struct ts_launch launch;
	struct ts_inspection inside;
	bool inspected;
};

/* Errors: those of ts_launch_resolve(). */
static int look_at(char *const *command, struct subject **ret_subject)
{
	static struct subject subject;

	int r = ts_launch_resolve(command, &subject.launch);
	*ret_subject = &subject;
	if (r < 0)
		return r;
	subject.inspected = ts_inspect_program(subject.launch.program, &subject.inside) == 0;
	return 0;
}

/* ---- Python ------------------------------------------------------------------------------ */

/* Variables that sound as if they kept our start-up file out, and do not. */
static const char *const harmless[] = {"PYTHONNOUSERSITE", "PYTHONSAFEPATH", "PYTHONHOME"};

/* A sitecustomize in a directory of PYTHONPATH is run behind ours (sitecustomize.py). */
static void find_others(const char *path, struct ts_check *check)
{
	static const char *const names[] = {"sitecustomize.py", "sitecustomize/__init__.py"};
	char file[PATH_MAX];

	while (*path) {
		size_t length = strcspn(path, ":");
		for (size_t i = 0; i < TS_ARRAY_SIZE(names); i++)
			if (length > 0 &&
				snprintf(file, sizeof(file), "%.*s/%s", (int)length, path,
					names[i]) < (int)sizeof(file) &&
				access(file, R_OK) == 0)
				ts_check_find(check, TS_CHECK_OK,
					"%s of PYTHONPATH is run behind ours", file);
		path += length;
		path += *path == ':';
	}
}

/* Whether Python's half is beside the library. */
static bool find_half(const struct ts_check_scene *scene, struct ts_check *check)
{
	char file[PATH_MAX];
	const char *slash = strrchr(scene->library, '/');

	if (snprintf(file, sizeof(file), "%.*s/python/sitecustomize.py",
		    (int)(slash - scene->library), scene->library) >= (int)sizeof(file) ||
		access(file, R_OK) < 0) {
		ts_check_find(check, TS_CHECK_FAIL,
			"%s cannot be read: samples of PyTorch are not shared", file);
		ts_check_advise(check, "reinstall tsshim");
		return false;
	}
	return true;
}

static void check_interpreter(const struct subject *subject, struct ts_check *check)
{
	const char *program = subject->launch.program;
	const char *slash = strrchr(program, '/');
	bool named = strncmp(slash ? slash + 1 : program, "python", strlen("python")) == 0;

	if (subject->inspected ? !subject->inside.python : !named) {
		if (named) {
			ts_check_find(check, TS_CHECK_WARN,
				"%s is no CPython 3.8 or newer: its samples are not shared",
				program);
			ts_check_advise(check, "an interpreter that is one");
		}
		return;
	}
	char option = ts_launch_isolation(subject->launch.words);
	if (!option) {
		ts_check_find(check, TS_CHECK_OK, "%s will find it", program);
		return;
	}
	ts_check_find(check, TS_CHECK_WARN,
		"%s is started with -%c and does not look for it: samples are not shared",
		program, option);
	ts_check_advise(check,
		"leave out -%c; -s and -P, PYTHONNOUSERSITE and PYTHONSAFEPATH "
		"are no obstacle",
		option);
}

void ts_check_python(const struct ts_check_scene *scene, struct ts_check *check)
{
	const char *path = getenv("PYTHONPATH");
	struct subject *subject;

	if (!scene->has_library) {
		ts_check_find(
			check, TS_CHECK_ABSENT, "there is no library beside which to look");
		return;
	}
	if (!find_half(scene, check))
		return;
	find_others(path ? path : "", check);
	for (size_t i = 0; i < TS_ARRAY_SIZE(harmless); i++)
		if (getenv(harmless[i]))
			ts_check_find(check, TS_CHECK_OK, "%s is set, which is no obstacle",
				harmless[i]);
	if (scene->command && look_at(scene->command, &subject) == 0)
		check_interpreter(subject, check);
	if (check->found[0] == '\0')
		ts_check_find(check, TS_CHECK_OK,
			"it is beside the library; only -I, -E and -S "
			"keep an interpreter from it");
}

/* ---- the command ------------------------------------------------------------------------- */

static void say_missing(
	const struct subject *subject, char *const *command, int error, struct ts_check *check)
{
	const char *what = error == -EACCES ? "cannot be executed" : "was not found";

	if (subject->launch.script)
		ts_check_find(check, TS_CHECK_FAIL,
			"'%s' is a script, and its interpreter '%s' %s", command[0],
			subject->launch.words[0], what);
	else
		ts_check_find(check, TS_CHECK_FAIL, "'%s' %s", subject->launch.words[0], what);
	ts_check_advise(check, "name a program that is there; PATH is searched");
}

void ts_check_command(const struct ts_check_scene *scene, struct ts_check *check)
{
	struct subject *subject;

	if (!scene->command) {
		ts_check_find(
			check, TS_CHECK_ABSENT, "none was given: tsrun doctor -- COMMAND");
		return;
	}
	int r = look_at(scene->command, &subject);
	if (r < 0) {
		say_missing(subject, scene->command, r, check);
		return;
	}
	const char *program = subject->launch.program;
	enum ts_preload_verdict verdict = ts_library_judge(program, scene->program);
	const char *wrong = ts_library_explain(verdict);
	if (wrong) {
		ts_check_find(check, TS_CHECK_FAIL, "%s %s: it runs, but shares nothing",
			program, wrong);
		ts_check_advise(check, "%s", ts_library_remedy(verdict));
		return;
	}
	ts_check_find(check, TS_CHECK_OK, "%s%s takes preloaded libraries",
		subject->launch.script ? "a script; " : "", program);
	if (subject->inspected && subject->inside.decoder) {
		ts_check_find(check, TS_CHECK_WARN,
			"it has a libjpeg inside: pictures that it decodes with "
			"that are not shared");
		ts_check_advise(check, "link it with the system's libjpeg; whole samples of "
				       "PyTorch are shared all the same");
	}
}
