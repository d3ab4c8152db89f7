/* SPDX-License-Identifier: MIT */
/* Help texts: one screen each, from the tables of settings and commands. */
#include "shim/tsrun/help.h"

#include <stdio.h>
#include <string.h>

#define HELP_COLUMN 24
#define HELP_WIDTH  80

/* Of a row of commands, two of which stand beside one another. */
#define NAME_WIDTH    9
#define SUMMARY_WIDTH 29

static const struct {
	const char *word, *usage, *summary, *about, *remarks, *examples, *status;
} commands[] = {
#define TS_COMMAND(name, word, usage, summary, about, remarks, examples, status) \
	{word, usage, summary, about, remarks, examples, status},
#include "shim/tsrun/commands.def"
};

/* Print @text from column HELP_COLUMN on, broken between words. */
static void print_wrapped(int column, const char *text)
{
	if (column >= HELP_COLUMN) {
		putchar('\n');
		column = 0;
	}
	printf("%*s", HELP_COLUMN - column, "");
	column = HELP_COLUMN;
	bool first = true;
	while (*text) {
		int length = (int)strcspn(text, " ");
		if (!first && column + 1 + length > HELP_WIDTH) {
			printf("\n%*s", HELP_COLUMN, "");
			column = HELP_COLUMN;
			first = true;
		}
		column += printf("%s%.*s", first ? "" : " ", length, text);
		first = false;
		text += length;
		text += strspn(text, " ");
	}
	putchar('\n');
}

static void print_row(const char *name, const char *letter, const char *metavar,
	const char *help, const char *standard)
{
	char text[256];
	int column = printf("  %s%s%s%s%s", letter, letter[0] != '\0' ? ", " : "", name,
		metavar && metavar[0] != '[' ? " " : "", metavar ? metavar : "");
	snprintf(text, sizeof(text), "%s%s%s%s", help, standard ? " [" : "",
		standard ? standard : "", standard ? "]" : "");
	print_wrapped(column, text);
}

/* The options of @mode, settings of the job first. */
static void print_options(enum ts_mode mode)
{
	/* Without --group these look into all groups. */
	bool is_of_all = mode & (TS_MODE_GC | TS_MODE_TOP | TS_MODE_EXPLAIN);

	for (const struct ts_option_text *o = ts_arguments_options(); o->name; o++)
		if (o->modes & mode)
			print_row(o->name, o->letter, o->metavar, o->help,
				is_of_all || !o->metavar ? NULL : o->standard);
}

/* What has no option. */
static void print_environment(void)
{
	const struct ts_option_text *o = ts_arguments_options();

	for (int i = 0; i < TS_OPTION_COUNT; i++)
		if (o[i].name[0] == '\0')
			print_row(ts_options[i].variable, "", NULL, o[i].help, o[i].standard);
}

/* Each line of @usage is one way to call it. */
static void print_usage(const char *word, const char *usage)
{
	const char *begin = "Usage:";

	while (*usage) {
		int length = (int)strcspn(usage, "\n");
		printf("%s tsrun %s%s%.*s\n", begin, word, word[0] ? " " : "", length, usage);
		usage += length + (usage[length] != '\0');
		begin = "      ";
	}
}

/* Two beside one another. */
static void print_commands(void)
{
	for (int i = TS_COMMAND_RUN + 1; i < TS_COMMAND_COUNT; i++) {
		bool ends = (i - TS_COMMAND_RUN) % 2 == 0 || i + 1 == TS_COMMAND_COUNT;
		printf("  %-*s%-*s%s", NAME_WIDTH, commands[i].word, ends ? 0 : SUMMARY_WIDTH,
			commands[i].summary, ends ? "\n" : "");
	}
}

static void print_run(void)
{
	fputs("\nOptions, each TSSHIM_<NAME> in the environment as well (options win):\n",
		stdout);
	print_options(TS_MODE_RUN);
	fputs("Only in the environment:\n", stdout);
	print_environment();
	fputs("Sub-commands, each with a --help of its own:\n", stdout);
	print_commands();
	printf("Example:%sExit status: %s.  More: man tsrun\n",
		commands[TS_COMMAND_RUN].examples, commands[TS_COMMAND_RUN].status);
}

static void print_command(enum ts_command command)
{
	fputs("\nOptions:\n", stdout);
	print_options((enum ts_mode)(1 << command));
	if (commands[command].remarks[0] != '\0')
		printf("\n%s", commands[command].remarks);
	printf("\nExamples:\n%s\nExit status: %s.\n", commands[command].examples,
		commands[command].status);
}

void ts_help_print(enum ts_mode mode)
{
	enum ts_command command = (enum ts_command)__builtin_ctz(mode);

	print_usage(commands[command].word, commands[command].usage);
	fputs(commands[command].about, stdout);
	if (command == TS_COMMAND_RUN)
		print_run();
	else
		print_command(command);
}
