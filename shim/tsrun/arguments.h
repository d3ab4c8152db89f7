/* SPDX-License-Identifier: MIT */
/* The command line of tsrun, parsed by the table of settings and the few flags below. */
#ifndef TS_TSRUN_ARGUMENTS_H
#define TS_TSRUN_ARGUMENTS_H

#include "shim/config.h"

/* What tsrun does, by the table shim/tsrun/commands.def. */
enum ts_command {
#define TS_COMMAND(name, ...) TS_COMMAND_##name,
#include "shim/tsrun/commands.def"
	TS_COMMAND_COUNT
};

/* The same, one bit each, so that an option can belong to several. */
enum ts_mode {
#define TS_COMMAND(name, ...) TS_MODE_##name = 1 << TS_COMMAND_##name,
#include "shim/tsrun/commands.def"
	TS_MODE_ALL = (1 << TS_COMMAND_COUNT) - 1,
	TS_MODE_SETTINGS = TS_MODE_RUN | TS_MODE_CONFIG, /* take every setting */
	TS_MODE_GROUPS =                                 /* look into a group */
	TS_MODE_SETTINGS | TS_MODE_STATS | TS_MODE_GC | TS_MODE_TOP | TS_MODE_REPORT |
	TS_MODE_EXPLAIN,
	/* Take a command; explain did once, and says what does now. */
	TS_MODE_COMMANDS = TS_MODE_RUN | TS_MODE_DOCTOR | TS_MODE_EXPLAIN,
	TS_MODE_WORDS = TS_MODE_REPORT | TS_MODE_CLUSTER, /* take words that are no options */
};

/* Options that are no settings of the library. */
enum ts_flag {
#define TS_FLAG(name, ...) TS_FLAG_##name,
#include "shim/tsrun/commands.def"
	TS_FLAG_COUNT
};

/** A parsed command line; all strings point into argv. */
struct ts_arguments {
	enum ts_mode mode;
	const char *setting[TS_OPTION_COUNT]; /* value given, "" for one without; or NULL */
	bool flag[TS_FLAG_COUNT];
	const char *value[TS_FLAG_COUNT]; /* of those that take one; or NULL */
	char **command; /* NULL-terminated rest of argv (of TS_MODE_COMMANDS), or NULL */
	char **files;   /* NULL-terminated words that are no options (of TS_MODE_WORDS), or NULL
			 */
	bool separated; /* by "--" */
	/* What stands before the command when it is an option without a value; or NULL. */
	const struct ts_option_text *last;
};

/** One option as help, completions and hints show it. */
struct ts_option_text {
	const char *name;     /* "" for what only the environment sets: no mode knows it */
	const char *letter;   /* short form, or "" */
	const char *metavar;  /* NULL when it takes no value; "[=X]" when it may */
	const char *implied;  /* value it has when none is given, or NULL: one is needed */
	const char *standard; /* default, or NULL; shown where it takes a value */
	const char *help;
	unsigned modes; /* enum ts_mode bits */
	int setting;    /* enum ts_option, or -1 */
	int flag;       /* enum ts_flag, or -1 */
};

/** All options, settings first, by enum ts_option; the array ends with a row whose name is
 * NULL. */
const struct ts_option_text *ts_arguments_options(void);

/**
 * Parse @argv.  Options end at "--" or at the first word that does not begin with '-'; the
 * rest is the command and is never looked at; of TS_MODE_WORDS options may stand behind
 * other words, which are moved together in @argv.  Both "--name VALUE" and "--name=VALUE" work,
 * and of the short form "-n VALUE" and "-nVALUE"; where the value may be left out only the
 * latter; of a repeated option the last one counts.
 * --help and --version stop the parsing: what follows is not checked, and
 * @ret_arguments->command is NULL.
 *
 * Values are not checked here (ts_config_set() does that).
 * Errors: -EINVAL after a message that names the word and the nearest right one.
 */
int ts_arguments_parse(int argc, char **argv, struct ts_arguments *ret_arguments);

/** The name of a mode as typed: "", "stats", "gc", ... */
const char *ts_arguments_mode_name(enum ts_mode mode);

/** The sub-command nearest to @word, as ts_config_nearest(); NULL when none is near. */
const char *ts_arguments_near_mode(const char *word);

/** The group that was named, by @by_environment too; NULL: all groups are meant. */
const char *ts_arguments_group(const struct ts_arguments *arguments,
	const struct ts_config *config, bool by_environment);

/** Print the help of @mode on stdout, made from the tables of settings and commands. */
void ts_help_print(enum ts_mode mode);

#endif
