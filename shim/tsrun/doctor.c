/* SPDX-License-Identifier: MIT */
/* tsrun doctor: run the checks, and print what they found. */
#include "shim/tsrun/check.h"
#include "shim/tsrun/commands.h"
#include "shim/tsrun/conf.h"
#include "shim/tsrun/json.h"
#include "shim/tsrun/library.h"
#include "shim/tsrun/message.h"
#include "shim/tsrun/units.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- what a check has found -------------------------------------------------------------- */

/* Put a text behind the one in @buffer, with "; " between. */
TS_PRINTF(3, 0)
static void append(char *buffer, size_t bytes, const char *format, va_list arguments)
{
	size_t at = strlen(buffer);

	if (at > 0 && at + 2 < bytes) {
		memcpy(buffer + at, "; ", 3);
		at += 2;
	}
	(void)vsnprintf(buffer + at, bytes - at, format, arguments);
}

void ts_check_find(struct ts_check *check, enum ts_check_state state, const char *format, ...)
{
	va_list arguments;

	if (state > check->state)
		check->state = state;
	va_start(arguments, format);
	append(check->found, sizeof(check->found), format, arguments);
	va_end(arguments);
}

void ts_check_advise(struct ts_check *check, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	append(check->fix, sizeof(check->fix), format, arguments);
	va_end(arguments);
}

/* The word of a state: "ok", ... */
static const char *word_of(enum ts_check_state state)
{
	static const char *const words[] = {
#define TS_X(name, word) word,
		TS_CHECK_STATES(TS_X)
#undef TS_X
	};
	return words[state];
}

/* ---- all checks -------------------------------------------------------------------------- */

static const struct {
	const char *id, *title;
	void (*look)(const struct ts_check_scene *scene, struct ts_check *check);
} checks[] = {
#define TS_CHECK(name, text, function) {.id = name, .title = text, .look = function},
#include "shim/tsrun/checks.def"
};

static int set_scene(char **command, struct ts_check_scene *ret_scene)
{
	struct ts_check_scene scene = {.command = command, .environment = environ};

	int r = ts_library_own(scene.program);
	if (r < 0)
		return r;
	scene.has_library = ts_library_find(scene.program, scene.library) == 0;
	ts_config_load(&scene.config, environ, NULL);
	*ret_scene = scene;
	return 0;
}

/* Paths and values of variables may hold anything. */
static void print_line(size_t number, struct ts_check *check)
{
	ts_units_make_printable(check->found);
	ts_units_make_printable(check->fix);
	printf("%-4s %2zu  %s\n", word_of(check->state), number, check->found);
	if (check->fix[0] != '\0')
		printf("         fix: %s\n", check->fix);
}

static void write_object(struct ts_json *json, size_t index, const struct ts_check *check)
{
	ts_json_open(json, NULL, '{');
	ts_json_string(json, "id", checks[index].id);
	ts_json_string(json, "title", checks[index].title);
	ts_json_string(json, "state", word_of(check->state));
	ts_json_string(json, "found", check->found);
	ts_json_string(json, "fix", check->fix[0] ? check->fix : NULL);
	ts_json_close(json, '}');
}

/* Bad settings are what it is asked for, and so no reason to refuse. */
int ts_doctor_command(const struct ts_arguments *arguments)
{
	bool is_json = arguments->flag[TS_FLAG_JSON];
	static struct ts_check_scene scene; /* too large for a stack frame */
	struct ts_json json = {.out = stdout};
	int status = 0;

	ts_conf_export_files();
	int r = set_scene(arguments->command, &scene);
	if (r < 0) {
		ts_message_say("cannot read /proc/self/exe: %s", strerror(-r));
		return TS_EXIT_FAILED;
	}
	if (is_json)
		ts_json_open(&json, NULL, '[');
	for (size_t i = 0; i < TS_ARRAY_SIZE(checks); i++) {
		struct ts_check check = {.state = TS_CHECK_ABSENT};
		checks[i].look(&scene, &check);
		if (is_json)
			write_object(&json, i, &check);
		else
			print_line(i + 1, &check);
		if (check.state == TS_CHECK_FAIL)
			status = TS_DOCTOR_FAILED;
	}
	if (is_json)
		ts_json_close(&json, ']');
	return status;
}
