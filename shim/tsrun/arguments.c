/* SPDX-License-Identifier: MIT */
/* The command line of tsrun, and its texts of --help, by the tables of settings and commands.
 */
#include "shim/tsrun/arguments.h"
#include "shim/tsrun/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sub-commands look into a group; everything else is about the job to start. */
#define MODES(option, is_group) \
	(sizeof(option) == 1 ? 0 : (is_group) ? TS_MODE_GROUPS : TS_MODE_SETTINGS)

static const struct ts_option_text rows[] = {
#define TS_OPTION(n, option, argument, implied_value, form, field, def, text) \
	{.name = option,                                                      \
		.letter = "",                                                 \
		.metavar = argument,                                          \
		.implied = implied_value,                                     \
		.standard = def,                                              \
		.help = text,                                                 \
		.modes = MODES(option, TS_OPTION_##n == TS_OPTION_GROUP),     \
		.setting = TS_OPTION_##n,                                     \
		.flag = -1},
#include "shim/options.def"
#define TS_FLAG(n, option, short_form, argument, commands, text) \
	{.name = option,                                         \
		.letter = short_form,                            \
		.metavar = argument,                             \
		.help = text,                                    \
		.modes = (commands),                             \
		.setting = -1,                                   \
		.flag = TS_FLAG_##n},
#include "shim/tsrun/commands.def"
	{.name = NULL},
};

const struct ts_option_text *ts_arguments_options(void)
{
	return rows;
}

/* The word of a command, by enum ts_command; that of the first one, a command of the user's, is
 * "". */
static const char *const words[] = {
#define TS_COMMAND(name, word, ...) word,
#include "shim/tsrun/commands.def"
	NULL,
};

const char *ts_arguments_mode_name(enum ts_mode mode)
{
	return mode ? words[__builtin_ctz(mode)] : "";
}

static enum ts_mode mode_of_word(const char *word)
{
	for (int i = TS_COMMAND_RUN + 1; words[i]; i++)
		if (strcmp(words[i], word) == 0)
			return (enum ts_mode)(1 << i);
	return TS_MODE_RUN;
}

const char *ts_arguments_near_mode(const char *word)
{
	return ts_config_nearest(word, words + TS_COMMAND_RUN + 1);
}

/* Whether @word is the short form of @option, which its value may follow at once. */
static bool is_short(const struct ts_option_text *option, const char *word)
{
	size_t length = strlen(option->letter);

	return length > 0 && strncmp(word, option->letter, length) == 0 &&
	       (word[length] == '\0' || option->metavar);
}

/* The row whose name is the first @length bytes of @word and which @mode knows, or NULL. */
static const struct ts_option_text *find(const char *word, size_t length, unsigned mode)
{
	for (const struct ts_option_text *o = rows; o->name; o++) {
		if (!(o->modes & mode))
			continue;
		if (strlen(o->name) == length && memcmp(o->name, word, length) == 0)
			return o;
		if (is_short(o, word))
			return o;
	}
	return NULL;
}

/* Say what is wrong with the unknown option @word, and what was probably meant. */
static void complain_unknown(const char *word, size_t length, enum ts_mode mode)
{
	const char *names[TS_ARRAY_SIZE(rows)];
	size_t count = 0;
	for (const struct ts_option_text *o = rows; o->name; o++)
		if (o->modes & mode)
			names[count++] = o->name;
	names[count] = NULL;

	char name[64];
	size_t kept = length < sizeof(name) - 1 ? length : sizeof(name) - 1;
	memcpy(name, word, kept);
	name[kept] = '\0';

	const char *blank = mode == TS_MODE_RUN ? "" : " ";
	const char *command = ts_arguments_mode_name(mode);
	ts_message_say("unknown option '%.*s'%s%s", (int)length, word,
		mode == TS_MODE_RUN ? "" : " of tsrun ", command);
	const char *near = ts_config_nearest(name, names);
	if (near)
		ts_message_hint("did you mean '%s'?", near);
	else if (find(word, length, TS_MODE_ALL))
		ts_message_hint("'%s' does not belong to `tsrun%s%s`", name, blank, command);
	else
		ts_message_hint("`tsrun%s%s --help` lists the options", blank, command);
}

/* The value within @word: behind '=', or at once behind a short form; or NULL. */
static const char *joined_value(const struct ts_option_text *option, const char *word)
{
	const char *equals = strchr(word, '=');

	if (word[1] == '-')
		return equals ? equals + 1 : NULL;
	return option->metavar && word[2] != '\0' ? word + 2 : equals;
}

/*
 * Find the value of @option, the word argv[*at], within it or in the next word, and move
 * *at there.  "" is the value of an option that takes none.
 */
static int take_value(
	char **argv, int *at, const struct ts_option_text *option, const char **ret_value)
{
	const char *joined = joined_value(option, argv[*at]);
	const char *value = joined ? joined : option->implied;

	if (!option->metavar && joined) {
		ts_message_say("option '%s' takes no value", option->name);
		return -EINVAL;
	}
	/* An empty variable of a script must not look like a value that was chosen. */
	if (option->implied && value[0] == '\0') {
		ts_message_say("option '%s=' has an empty value", option->name);
		ts_message_hint(
			"%s alone means %s=%s", option->name, option->name, option->implied);
		return -EINVAL;
	}
	if (option->metavar && !value) {
		value = argv[*at + 1];
		/* "tsrun --group -- cmd" forgot the value; no valid value begins with "--". */
		if (!value || strncmp(value, "--", 2) == 0) {
			ts_message_say("option '%s' needs a value", option->name);
			ts_message_hint("write %s %s", option->name, option->metavar);
			return -EINVAL;
		}
		(*at)++;
	}
	*ret_value = value ? value : "";
	return 0;
}

/* Parse the option at argv[*at] and move *at behind it and its value. */
static int parse_option(char **argv, int *at, struct ts_arguments *arguments)
{
	const char *word = argv[*at];
	size_t length = strcspn(word, "=");
	const char *value;

	const struct ts_option_text *option = find(word, length, arguments->mode);
	if (!option) {
		complain_unknown(word, length, arguments->mode);
		return -EINVAL;
	}
	int r = take_value(argv, at, option, &value);
	if (r < 0)
		return r;
	(*at)++;
	bool bare = (!option->metavar || option->implied) && word[length] == '\0';
	arguments->last = bare ? option : NULL;
	if (option->flag >= 0) {
		arguments->flag[option->flag] = true;
		arguments->value[option->flag] = option->metavar ? value : NULL;
	} else {
		arguments->setting[option->setting] = value;
	}
	return 0;
}

/* "tsrun --group G stats" would run a program called stats, which nobody means. */
static int check_command(const struct ts_arguments *arguments, int first)
{
	if (arguments->separated || !arguments->command || first <= 1)
		return 0;
	const char *word = arguments->command[0];
	if (mode_of_word(word) == TS_MODE_RUN)
		return 0;
	ts_message_say("options stand before the sub-command '%s'", word);
	ts_message_hint(
		"`tsrun %s ...` is the sub-command; `tsrun ... -- %s` runs a program of "
		"that name",
		word, word);
	return -EINVAL;
}

/* Whether argv[*at] is an option; words that are none but files are kept at @files. */
static bool is_option(
	int argc, char **argv, int *at, const struct ts_arguments *arguments, char ***files)
{
	/* What was looked at already makes room. */
	while (*at < argc && (arguments->mode & TS_MODE_WORDS) &&
		(argv[*at][0] != '-' || argv[*at][1] == '\0'))
		*(*files)++ = argv[(*at)++];
	return *at < argc && argv[*at][0] == '-';
}

int ts_arguments_parse(int argc, char **argv, struct ts_arguments *ret_arguments)
{
	struct ts_arguments arguments = {.mode = TS_MODE_RUN};
	int at = 1;

	if (argc > 1)
		arguments.mode = mode_of_word(argv[1]);
	if (arguments.mode != TS_MODE_RUN)
		at = 2;
	char **files = argv + at, **end = files;
	while (is_option(argc, argv, &at, &arguments, &end)) {
		if (strcmp(argv[at], "--") == 0) {
			arguments.separated = true;
			at++;
			break;
		}
		int r = parse_option(argv, &at, &arguments);
		if (r < 0)
			return r;
		if (arguments.flag[TS_FLAG_HELP] || arguments.flag[TS_FLAG_VERSION]) {
			*ret_arguments = arguments;
			return 0;
		}
	}

	if (arguments.mode & TS_MODE_WORDS) {
		while (at < argc)
			*end++ = argv[at++];
		*end = NULL;
		arguments.files = end > files ? files : NULL;
	} else if (arguments.mode & TS_MODE_COMMANDS) {
		if (at < argc)
			arguments.command = argv + at;
		if (arguments.mode == TS_MODE_RUN && check_command(&arguments, at) < 0)
			return -EINVAL;
	} else if (at < argc) {
		ts_message_say("tsrun %s takes no argument '%s'",
			ts_arguments_mode_name(arguments.mode), argv[at]);
		return -EINVAL;
	}
	*ret_arguments = arguments;
	return 0;
}

const char *ts_arguments_group(const struct ts_arguments *arguments,
	const struct ts_config *config, bool by_environment)
{
	bool named = arguments->setting[TS_OPTION_GROUP] ||
		     (by_environment && getenv("TSSHIM_GROUP"));

	return named ? config->group : NULL;
}

/* ---- help -------------------------------------------------------------------------------- */

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
