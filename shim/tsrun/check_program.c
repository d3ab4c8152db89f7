/* SPDX-License-Identifier: MIT */
/*
 * Checks of `tsrun doctor`: the library, what is preloaded beside it, the settings, what keeps
 * Python from our part, and the command.
 */
#include "leader/group/layout.h"
#include "shim/isolation.h"
#include "shim/tsrun/check.h"
#include "shim/tsrun/child.h"
#include "shim/tsrun/library.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- which program a command line ends in ------------------------------------------------ */

/* The kernel follows four scripts of scripts; each may come with an env. */
#define DEPTH_MAX 10

#define BLANKS " \t"

static size_t count_words(const struct ts_launch *launch)
{
	size_t count = 0;
	while (launch->words[count])
		count++;
	return count;
}

/* Put @count words in the place of the first @gone; false when that does not fit. */
static bool replace(struct ts_launch *launch, size_t gone, char *const *with, size_t count)
{
	size_t rest = count_words(launch) - gone;

	if (count + rest > TS_LAUNCH_WORDS)
		return false;
	memmove(launch->words + count, launch->words + gone, (rest + 1) * sizeof(char *));
	memcpy(launch->words, with, count * sizeof(char *));
	return true;
}

/* A copy of the first @length bytes of @text that lives as long as @launch, or NULL. */
static char *keep(struct ts_launch *launch, const char *text, size_t length)
{
	char *copy = launch->text + launch->text_bytes;

	if (length + 1 > sizeof(launch->text) - launch->text_bytes)
		return NULL;
	memcpy(copy, text, length);
	copy[length] = '\0';
	launch->text_bytes += length + 1;
	return copy;
}

/* Let the interpreter of the script @launch->program stand in front of it. */
static bool follow_script(struct ts_launch *launch)
{
	char line[PATH_MAX];
	char *words[3];
	size_t count = 0;

	if (!ts_library_read_script(launch->program, line))
		return false;
	size_t length = strcspn(line, BLANKS);
	const char *option = line + length + strspn(line + length, BLANKS);
	size_t option_length = strlen(option);
	while (option_length > 0 && strchr(BLANKS, option[option_length - 1]))
		option_length--;
	words[count++] = keep(launch, line, length);
	/* All that follows is one word to the kernel. */
	if (option_length > 0)
		words[count++] = keep(launch, option, option_length);
	words[count++] = keep(launch, launch->program, strlen(launch->program));
	for (size_t i = 0; i < count; i++)
		if (!words[i])
			return false;
	launch->script = true;
	return replace(launch, 1, words, count);
}

/* env -S: put the words of @text in the place of the first @gone. */
static bool split(struct ts_launch *launch, size_t gone, const char *text)
{
	char *words[TS_LAUNCH_WORDS];
	size_t count = 0;

	for (text += strspn(text, BLANKS); *text; text += strspn(text, BLANKS)) {
		size_t length = strcspn(text, BLANKS);
		if (count == TS_LAUNCH_WORDS)
			return false;
		words[count] = keep(launch, text, length);
		if (!words[count++])
			return false;
		text += length;
	}
	return replace(launch, gone, words, count);
}

/* Step over env(1), its options and variables; false when nothing is behind them. */
static bool follow_env(struct ts_launch *launch)
{
	char *const nothing[1] = {NULL};
	const char *slash = strrchr(launch->program, '/');
	size_t at = 1;

	if (strcmp(slash ? slash + 1 : launch->program, "env") != 0)
		return false;
	while (launch->words[at]) {
		const char *word = launch->words[at];
		if (strncmp(word, "-S", 2) == 0 && word[2] != '\0') {
			if (!split(launch, at + 1, word + 2))
				return false;
			at = 0;
		} else if (strcmp(word, "-S") == 0 && launch->words[at + 1]) {
			if (!split(launch, at + 2, launch->words[at + 1]))
				return false;
			at = 0;
		} else if ((strcmp(word, "-u") == 0 || strcmp(word, "-C") == 0) &&
			   launch->words[at + 1]) {
			at += 2;
		} else if (word[0] == '-' || strchr(word, '=')) {
			at++;
		} else {
			break;
		}
	}
	return launch->words[at] && replace(launch, at, nothing, 0);
}

int ts_launch_resolve(char *const *command, struct ts_launch *ret_launch)
{
	size_t count = 0;

	ret_launch->script = false;
	ret_launch->text_bytes = 0;
	for (; count < TS_LAUNCH_WORDS && command[count]; count++)
		ret_launch->words[count] = command[count];
	ret_launch->words[count] = NULL;
	for (int depth = 0;; depth++) {
		int r = ts_library_which(ret_launch->words[0], ret_launch->program);
		if (r < 0)
			return r;
		if (depth == DEPTH_MAX ||
			(!follow_env(ret_launch) && !follow_script(ret_launch)))
			return 0;
	}
}

/* ---- the library ------------------------------------------------------------------------- */

/* true(1) takes a thousandth of it on a busy machine. */
#define TRIAL_NS UINT64_C(10000000000)

#define PRELOAD "LD_PRELOAD="

/* Compare what the library says of itself with what this tsrun was built with. */
static void check_mark(const char *library, struct ts_check *check)
{
	struct ts_mark mark;

	int r = ts_library_mark(library, &mark);
	if (r == -ENOTSUP) {
		ts_check_find(check, TS_CHECK_OK,
			"%s is there; its version cannot be seen "
			"(tsrun was built without libelf)",
			library);
	} else if (r < 0) {
		ts_check_find(check, TS_CHECK_WARN, "%s does not say of which version it is",
			library);
		ts_check_advise(check, "install library and tsrun together");
	} else if (mark.abi != TS_ABI) {
		ts_check_find(check, TS_CHECK_FAIL,
			"%s, version %s, has layout %u in shared memory, tsrun has %u", library,
			mark.version, mark.abi, TS_ABI);
		ts_check_advise(check, "install library and tsrun together");
	} else {
		ts_check_find(check, TS_CHECK_OK, "%s, version %s, layout %u as tsrun", library,
			mark.version, mark.abi);
	}
}

void ts_check_library(const struct ts_check_scene *scene, struct ts_check *check)
{
	const char *fix = "reinstall tsshim";
	const char *wrong = scene->has_library
				    ? ts_library_check(scene->library, scene->program)
				    : "it is not there";
	char *value = NULL;

	if (!wrong && ts_library_compose(NULL, scene->library, &value) == -EINVAL) {
		wrong = "ld.so takes no blank, colon or '$' in its path, and a link to it "
			"could not be made";
		fix = TS_LIBRARY_UNSAYABLE;
	}
	free(value);
	if (wrong) {
		ts_check_find(
			check, TS_CHECK_FAIL, "%s cannot be used: %s", scene->library, wrong);
		ts_check_advise(check, "%s", fix);
		return;
	}
	check_mark(scene->library, check);
}

/*
 * The environment with @preload; the array, not what it points to, is the caller's to free.
 * NULL: no memory.
 */
static char **make_environment(char *const *environment, char *preload)
{
	size_t count = 0, kept = 0;

	while (environment[count])
		count++;
	char **made = calloc(count + 2, sizeof(*made));
	for (size_t i = 0; made && i < count; i++)
		if (strncmp(environment[i], PRELOAD, strlen(PRELOAD)) != 0)
			made[kept++] = environment[i];
	if (made)
		made[kept] = preload;
	return made;
}

/* Run @program to its end with @preload; its first messages go into @text.  As ts_child_run().
 */
static int try_program(const struct ts_check_scene *scene, const char *program,
	const char *preload, char *text, size_t bytes)
{
	const char *const words[] = {program, NULL};
	char *variable = NULL, **environment = NULL;
	int r = -ENOMEM;

	if (asprintf(&variable, PRELOAD "%s", preload) < 0)
		return r;
	environment = make_environment(scene->environment, variable);
	if (environment)
		r = ts_child_run(&(struct ts_child){.words = words,
					 .env = environment,
					 .takes_messages = true,
					 .is_cut = true},
			TRIAL_NS, text, bytes);
	free(environment);
	free(variable);
	return r;
}

void ts_check_preload(const struct ts_check_scene *scene, struct ts_check *check)
{
	char program[PATH_MAX], text[PATH_MAX + 300];
	const char *present = getenv("LD_PRELOAD");
	char *value = NULL;

	if (!scene->has_library || ts_library_which("true", program) < 0) {
		ts_check_find(check, TS_CHECK_ABSENT, "not tried: there is no %s",
			scene->has_library ? "program true" : "library");
		return;
	}
	if (ts_library_compose(present, scene->library, &value) < 0) {
		ts_check_find(check, TS_CHECK_FAIL, "LD_PRELOAD cannot be set");
		ts_check_advise(check, TS_LIBRARY_UNSAYABLE);
		return;
	}
	/* No new value: the library is named there already. */
	const char *preload = value ? value : present ? present : "";
	int status = try_program(scene, program, preload, text, sizeof(text));
	free(value);
	/* ld.so goes on without what it cannot load and says so, of other preloads as well. */
	if (status == 0 && !strstr(text, "libtsshim")) {
		ts_check_find(
			check, TS_CHECK_OK, "%s starts with it, and ends with 0", program);
		return;
	}
	text[strcspn(text, "\n")] = '\0';
	if (status == -ETIMEDOUT)
		ts_check_find(check, TS_CHECK_FAIL, "%s does not end with it", program);
	else if (status < 0)
		ts_check_find(check, TS_CHECK_ABSENT, "%s could not be started: %s", program,
			strerror(-status));
	else if (status > 128)
		ts_check_find(check, TS_CHECK_FAIL, "%s is killed by signal %d with it",
			program, status - 128);
	else
		ts_check_find(check, TS_CHECK_FAIL, "%s ends with %d: %s", program, status,
			text[0] ? text : "it says nothing");
	if (check->state == TS_CHECK_FAIL)
		ts_check_advise(
			check, "reinstall tsshim; without other preloads, does it work?");
}

static bool is_same_file(const char *path, const char *other)
{
	struct stat st, theirs;

	return stat(path, &st) == 0 && stat(other, &theirs) == 0 &&
	       st.st_dev == theirs.st_dev && st.st_ino == theirs.st_ino;
}

/* One entry of LD_PRELOAD; ld.so searches for one without '/', and expands '$'. */
static void check_entry(
	const struct ts_check_scene *scene, struct ts_check *check, const char *entry)
{
	static const char own[] = "libtsshim";
	const char *slash = strrchr(entry, '/');

	if (slash && !strchr(entry, '$') && access(entry, F_OK) < 0) {
		ts_check_find(check, TS_CHECK_WARN,
			"%s is not there: ld.so complains in every program", entry);
		ts_check_advise(check, "take it out of LD_PRELOAD");
	} else if (slash && is_same_file(entry, scene->library)) {
		ts_check_find(check, TS_CHECK_OK, "this library, already");
	} else if (slash && strncmp(slash + 1, own, strlen(own)) == 0) {
		ts_check_find(check, TS_CHECK_WARN,
			"%s of another installation, which is used instead of this one", entry);
		ts_check_advise(check, "take it out of LD_PRELOAD");
	} else {
		ts_check_find(check, TS_CHECK_OK, "%s, which comes first", entry);
	}
}

void ts_check_preloads(const struct ts_check_scene *scene, struct ts_check *check)
{
	const char *at = getenv("LD_PRELOAD");
	char entry[PATH_MAX];

	for (at = at ? at : ""; *at;) {
		size_t length = strcspn(at, " :");
		if (length > 0 && length < sizeof(entry)) {
			memcpy(entry, at, length);
			entry[length] = '\0';
			check_entry(scene, check, entry);
		}
		at += length;
		at += strspn(at, " :");
	}
	if (check->found[0] == '\0')
		ts_check_find(check, TS_CHECK_OK, "LD_PRELOAD names no others");
	struct stat st;
	if (stat("/etc/ld.so.preload", &st) == 0 && st.st_size > 0)
		ts_check_find(check, TS_CHECK_OK, "/etc/ld.so.preload names some");
}

/* ---- settings ---------------------------------------------------------------------------- */

/* Files of settings look like variables from here. */
#define WHERE_SET "unset %s, or take it out of the file that `tsrun config` names"

/* Where complain() puts what it is told: ts_config_load() hands no pointer through. */
static struct ts_check *complaints;

static void complain(
	enum ts_option option, const char *name, const char *value, const char *suggestion)
{
	if ((unsigned)option >= TS_OPTION_COUNT) {
		ts_check_find(complaints, TS_CHECK_WARN, "%s is not known, and ignored", name);
		if (suggestion)
			ts_check_advise(complaints, "did you mean %s?", suggestion);
		else
			ts_check_advise(complaints, "man tsshim lists them");
		return;
	}
	const char *const *words = ts_config_words(option);
	const char *near = words ? ts_config_nearest(value, words) : NULL;
	ts_check_find(complaints, TS_CHECK_FAIL,
		"%s has a bad value '%s', and tsrun runs nothing", name, value);
	ts_check_advise(complaints, "%s must be %s%s%s%s", name, ts_config_expect(option),
		near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

void ts_check_settings(const struct ts_check_scene *scene, struct ts_check *check)
{
	struct ts_config config;

	complaints = check;
	ts_config_load(&config, scene->environment, complain);
	complaints = NULL;
	if (config.disable) {
		ts_check_find(check, TS_CHECK_WARN, "TSSHIM_DISABLE=1 switches everything off");
		ts_check_advise(check, WHERE_SET, "TSSHIM_DISABLE");
	} else if (config.share == TS_SHARE_OFF) {
		ts_check_find(check, TS_CHECK_WARN, "TSSHIM_SHARE=off: nothing is shared");
		ts_check_advise(check, WHERE_SET, "TSSHIM_SHARE");
	} else if (config.ring_bytes == 0) {
		ts_check_find(check, TS_CHECK_WARN, "TSSHIM_RING is 0: nothing is shared");
		ts_check_advise(check, WHERE_SET, "TSSHIM_RING");
	}
	if (check->found[0] == '\0')
		ts_check_find(check, TS_CHECK_OK,
			"all that are set are known and valid; the group is %s", config.group);
}

/* ---- the command ------------------------------------------------------------------------- */

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
	subject.inspected = ts_library_inspect(subject.launch.program, &subject.inside) == 0;
	return 0;
}

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
static bool find_half(struct ts_check *check)
{
	char file[PATH_MAX] = "sitecustomize.py";

	if (ts_library_beside("python/sitecustomize.py", file) == 0 && access(file, R_OK) == 0)
		return true;
	ts_check_find(check, TS_CHECK_FAIL,
		"%s cannot be read: samples of PyTorch are not shared", file);
	ts_check_advise(check, "reinstall tsshim");
	return false;
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
	char option = ts_isolation(subject->launch.words);
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
	if (!find_half(check))
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
