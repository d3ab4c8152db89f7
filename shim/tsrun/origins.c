/* SPDX-License-Identifier: MIT */
/* `tsrun config`: every setting, its value, and where that comes from. */
#include "shim/tsrun/origins.h"
#include "shim/config.h"
#include "shim/tsrun/conf.h"
#include "shim/tsrun/json.h"
#include "shim/tsrun/message.h"
#include "shim/tsrun/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the order in which they win. */
#define ORIGINS(X)                      \
	X(COMMAND_LINE, "command line") \
	X(ENVIRONMENT, "environment")   \
	X(FILE, "file")                 \
	X(DEFAULT, "default")

enum origin {
#define TS_X(name, word) ORIGIN_##name,
	ORIGINS(TS_X)
#undef TS_X
};

static const char *const origin_words[] = {
#define TS_X(name, word) word,
	ORIGINS(TS_X)
#undef TS_X
};

/* A setting as a job would have it. */
struct row {
	char name[TS_CONF_NAME];
	char *value; /* a copy */
	enum origin origin;
	const char *path; /* of ORIGIN_FILE, else NULL */
	unsigned line;
	bool valid;
};

/* What the options without a value mean. */
static const char *given_value(enum ts_option option, const char *given)
{
	return ts_arguments_options()[option].metavar ? given : "1";
}

/* What a tsrun around this one has told the library is not what somebody has set. */
static const char *own_value(enum ts_option option, const char *value)
{
	if (option == TS_OPTION_SUMMARY && value && strncmp(value, "line:", 5) == 0)
		return NULL;
	return option == TS_OPTION_SUMMARY && value && strncmp(value, "pid:", 4) == 0 ? "1"
										      : value;
}

static void find_value(const struct ts_arguments *arguments, const struct ts_conf *files,
	enum ts_option option, struct row *row)
{
	const char *set = own_value(option, getenv(ts_options[option].variable));
	const struct ts_conf *file = ts_conf_find(files, option);
	const char *value = ts_options[option].standard;

	row->origin = ORIGIN_DEFAULT;
	if (arguments->setting[option]) {
		row->origin = ORIGIN_COMMAND_LINE;
		value = given_value(option, arguments->setting[option]);
	} else if (set) {
		row->origin = ORIGIN_ENVIRONMENT;
		value = set;
	} else if (file) {
		row->origin = ORIGIN_FILE;
		row->path = file->path;
		row->line = file->line[option];
		value = file->value[option];
	}
	row->value = strdup(value);
}

/* Must be called before the settings become the environment. */
static int find_rows(const struct ts_arguments *arguments, const struct ts_conf *files,
	struct row rows[TS_OPTION_COUNT])
{
	struct ts_config scratch;

	for (int i = 0; i < TS_OPTION_COUNT; i++) {
		enum ts_option option = (enum ts_option)i;
		ts_config_init(&scratch);
		ts_conf_name(option, rows[i].name);
		find_value(arguments, files, option, &rows[i]);
		if (!rows[i].value)
			return -ENOMEM;
		/* On the command line a file may be named as seen from here. */
		bool is_file = ts_options[i].form == TS_FORM_FILE ||
			       ts_options[i].form == TS_FORM_EVENTS;
		rows[i].valid = (is_file && rows[i].origin == ORIGIN_COMMAND_LINE) ||
				ts_config_set(&scratch, option, rows[i].value) == 0;
	}
	return 0;
}

static void print_table(const struct row rows[TS_OPTION_COUNT])
{
	int width = (int)strlen("VALUE");

	for (int i = 0; i < TS_OPTION_COUNT; i++)
		if ((int)strlen(rows[i].value) > width && strlen(rows[i].value) <= 24)
			width = (int)strlen(rows[i].value);
	printf("%-15s %-*s FROM\n", "SETTING", width, "VALUE");
	for (int i = 0; i < TS_OPTION_COUNT; i++) {
		printf("%-15s %-*s ", rows[i].name, width, rows[i].value);
		if (rows[i].origin == ORIGIN_FILE)
			printf("%s:%u", rows[i].path, rows[i].line);
		else
			fputs(origin_words[rows[i].origin], stdout);
		puts(rows[i].valid ? "" : ", bad");
	}
}

static void print_json(const struct row rows[TS_OPTION_COUNT])
{
	const struct ts_option_text *texts = ts_arguments_options();
	struct ts_json json = {.out = stdout};

	ts_json_open(&json, NULL, '[');
	for (int i = 0; i < TS_OPTION_COUNT; i++) {
		ts_json_open(&json, NULL, '{');
		ts_json_string(&json, "name", rows[i].name);
		ts_json_string(&json, "value", rows[i].value);
		ts_json_string(&json, "from", origin_words[rows[i].origin]);
		if (rows[i].path) {
			ts_json_string(&json, "file", rows[i].path);
			ts_json_number(&json, "line", rows[i].line);
		} else {
			ts_json_null(&json, "file");
			ts_json_null(&json, "line");
		}
		ts_json_bool(&json, "valid", rows[i].valid);
		ts_json_string(&json, "default", ts_options[i].standard);
		if (texts[i].name[0] != '\0')
			ts_json_string(&json, "option", texts[i].name);
		else
			ts_json_null(&json, "option");
		ts_json_string(&json, "variable", ts_options[i].variable);
		ts_json_string(&json, "help", texts[i].help);
		ts_json_close(&json, '}');
	}
	ts_json_close(&json, ']');
}

int ts_origins_print(const struct ts_arguments *arguments)
{
	static struct ts_conf files[TS_CONF_COUNT]; /* too large for a stack frame */
	struct row rows[TS_OPTION_COUNT] = {0};
	struct ts_config config;

	ts_conf_read(files);
	int r = find_rows(arguments, files, rows);
	if (r == 0) {
		r = ts_run_settings_with(arguments, files, &config);
		if (arguments->flag[TS_FLAG_JSON])
			print_json(rows);
		else
			print_table(rows);
	}
	for (int i = 0; i < TS_OPTION_COUNT; i++)
		free(rows[i].value);
	ts_conf_free(files);
	return r < 0 ? TS_EXIT_FAILED : 0;
}
