/* SPDX-License-Identifier: MIT */
/* Settings: what files of them say, which ones hold, and where each comes from. */
#include "shim/tsrun/conf.h"
#include "leader/object/limits.h"
#include "shim/tsrun/commands.h"
#include "shim/tsrun/json.h"
#include "shim/tsrun/message.h"
#include "shim/tsrun/proof.h"
#include "shim/tsrun/units.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLANKS " \t\r"

#define PREFIX "TSSHIM_"

#define SYSTEM_PATH "/etc/tsshim/tsshim.conf"
#define BYTES_MAX   65536u

/** Where files are; what the first one says wins. */
enum place { FILE_USER, FILE_SYSTEM, FILE_COUNT };

/** What one file says; all NULL where there is none, or it is ignored. */
struct file {
	char path[PATH_MAX]; /* "": no such place */
	char *text;          /* what the values point into */
	const char *value[TS_OPTION_COUNT];
	unsigned line[TS_OPTION_COUNT];
};

/* Too large for a stack frame. */
static struct file files[FILE_COUNT];

/* Room for the name of an option in a file: "group", "stage-size", ... */
#define NAME_BYTES 32

static void name_of(enum ts_option option, char name[NAME_BYTES])
{
	const char *from = ts_options[option].variable + sizeof(PREFIX) - 1;
	size_t length = 0;

	for (; length < NAME_BYTES - 1 && from[length] != '\0'; length++) {
		char c = from[length];
		name[length] = c == '_' ? '-' : (char)(c - 'A' + 'a');
	}
	name[length] = '\0';
}

/* The beginning of @word, for a message: whatever a file holds, it goes to a terminal. */
static const char *show(const char *word)
{
	static char text[64];

	(void)snprintf(text, sizeof(text), "%s", word);
	ts_units_make_printable(text);
	return text;
}

/* ---- what a file says ------------------------------------------------------------------- */

/* The option called @word, or -ENOENT after a message with what was probably meant. */
static int find_option(const struct file *conf, unsigned line, const char *word)
{
	char names[TS_OPTION_COUNT][NAME_BYTES];
	const char *list[TS_OPTION_COUNT + 1] = {NULL};

	for (int i = 0; i < TS_OPTION_COUNT; i++) {
		name_of((enum ts_option)i, names[i]);
		if (strcmp(names[i], word) == 0)
			return i;
		list[i] = names[i];
	}
	ts_message_say(
		"%s:%u: unknown setting '%s', ignoring the line", conf->path, line, show(word));
	const char *near = ts_config_nearest(word, list);
	if (near)
		ts_message_hint("did you mean '%s'?", near);
	else
		ts_message_hint("`tsrun config` lists the settings");
	return -ENOENT;
}

/* Blanks at both ends are none of @text. */
static char *trim(char *text)
{
	text += strspn(text, BLANKS);
	size_t length = strlen(text);
	while (length > 0 && strchr(BLANKS, text[length - 1]))
		length--;
	text[length] = '\0';
	return text;
}

/* A '#' begins a comment at the start of a line and behind a blank: paths may have one. */
static void cut_comment(char *line)
{
	for (char *at = strchr(line, '#'); at; at = strchr(at + 1, '#'))
		if (at == line || at[-1] == ' ' || at[-1] == '\t') {
			*at = '\0';
			return;
		}
}

/* What is wrong with @value, or NULL. */
static const char *judge_value(enum ts_option option, const char *value)
{
	struct ts_config scratch;

	ts_config_init(&scratch);
	/* What tsrun tells the library in the place of 0 and 1 is nobody's setting. */
	bool is_told = option == TS_OPTION_SUMMARY && strchr(value, ':');
	if (is_told || ts_config_set(&scratch, option, value) < 0)
		return ts_config_expect(option);
	/* Relative to what? */
	if (option == TS_OPTION_DATASET && scratch.dataset_dir && scratch.dataset_dir[0] != '/')
		return "NAME, or NAME=DIR with an absolute DIR";
	return NULL;
}

static int parse_line(struct file *conf, unsigned number, char *line)
{
	cut_comment(line);
	char *name = trim(line);
	if (name[0] == '\0')
		return 0;
	char *equals = strchr(name, '=');
	if (!equals || equals == name) {
		ts_message_say("%s:%u: no setting: '%s'; the file is ignored", conf->path,
			number, show(name));
		ts_message_hint("write name = value; # begins a comment");
		return -EINVAL;
	}
	*equals = '\0';
	char *value = trim(equals + 1);
	int option = find_option(conf, number, trim(name));
	if (option < 0)
		return 0;
	const char *expect = judge_value((enum ts_option)option, value);
	if (expect) {
		ts_message_say("%s:%u: '%s' has a bad value '%s'; the file is ignored",
			conf->path, number, name, show(value));
		ts_message_hint("it must be %s", expect);
		return -EINVAL;
	}
	conf->value[option] = value;
	conf->line[option] = number;
	return 0;
}

static void forget(struct file *conf)
{
	memset(conf->value, 0, sizeof(conf->value));
	memset(conf->line, 0, sizeof(conf->line));
}

/* The number of the line in which byte @at of @text is. */
static unsigned line_of(const char *text, size_t at)
{
	unsigned line = 1;
	for (size_t i = 0; i < at; i++)
		line += text[i] == '\n';
	return line;
}

static int parse_text(struct file *conf, char *text, size_t bytes)
{
	static const char mark[] = "\xef\xbb\xbf"; /* some editors begin UTF-8 with it */
	const char *nul = memchr(text, '\0', bytes);
	unsigned number = 1;

	forget(conf);
	if (nul) {
		ts_message_say("%s:%u: a NUL byte: this is no text; the file is ignored",
			conf->path, line_of(text, (size_t)(nul - text)));
		return -EINVAL;
	}
	if (strncmp(text, mark, sizeof(mark) - 1) == 0)
		text += sizeof(mark) - 1;
	for (char *next; text; text = next, number++) {
		next = strchr(text, '\n');
		if (next)
			*next++ = '\0';
		if (parse_line(conf, number, text) < 0) {
			forget(conf);
			return -EINVAL;
		}
	}
	return 0;
}

/* ---- where they are --------------------------------------------------------------------- */

/* Why @fd is not to be believed, or NULL.  What is in /etc is as its owner wants it. */
static const char *distrust(int fd, enum place place)
{
	struct stat found;

	if (fstat(fd, &found) < 0)
		return "it cannot be looked at";
	if (!S_ISREG(found.st_mode))
		return "it is no regular file";
	if (found.st_mode & S_IWOTH)
		return "everybody may write it";
	if (place == FILE_USER && found.st_uid != geteuid() && found.st_uid != 0)
		return "it belongs to somebody else";
	if (found.st_size > BYTES_MAX)
		return "it is larger than 64 KiB";
	return NULL;
}

/* All of @fd, up to the limit; -EFBIG: there is more. */
static ssize_t read_all(int fd, char *text)
{
	size_t bytes = 0;

	for (;;) {
		ssize_t n = read(fd, text + bytes, BYTES_MAX + 1 - bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		bytes += (size_t)n;
		if (bytes > BYTES_MAX)
			return -EFBIG;
		if (n == 0)
			return (ssize_t)bytes;
	}
}

/* A file that the directory hides is not there: HOME may be another user's, under su or sudo.
 */
static bool is_missing(const char *path, int error)
{
	struct stat found;

	return error == ENOENT || error == ENOTDIR ||
	       (error == EACCES && stat(path, &found) < 0);
}

static void read_file(struct file *conf, enum place place)
{
	if (conf->path[0] == '\0')
		return;
	int fd = open(conf->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0) {
		int error = errno;
		if (!is_missing(conf->path, error))
			ts_message_say(
				"%s: %s; the file is ignored", conf->path, strerror(error));
		return;
	}
	const char *why = distrust(fd, place);
	if (why) {
		ts_message_say("%s: %s; the file is ignored", conf->path, why);
		close(fd);
		return;
	}
	conf->text = malloc(BYTES_MAX + 2);
	ssize_t bytes = conf->text ? read_all(fd, conf->text) : -ENOMEM;
	close(fd);
	if (bytes < 0) {
		ts_message_say(
			"%s: %s; the file is ignored", conf->path, strerror((int)-bytes));
		return;
	}
	conf->text[bytes] = '\0';
	(void)parse_text(conf, conf->text, (size_t)bytes);
}

/* By the XDG Base Directory Specification, which wants relative paths to be ignored. */
static void find_user_path(char path[PATH_MAX])
{
	static const char name[] = "/tsshim/tsshim.conf";
	const char *directory = getenv("XDG_CONFIG_HOME"), *below = "";

	if (!directory || directory[0] != '/') {
		directory = getenv("HOME");
		below = "/.config";
	}
	path[0] = '\0';
	if (!directory || directory[0] != '/' ||
		snprintf(path, PATH_MAX, "%s%s%s", directory, below, name) >= PATH_MAX)
		path[0] = '\0';
}

static void read_files(void)
{
	memset(files, 0, sizeof(files));
	find_user_path(files[FILE_USER].path);
	snprintf(files[FILE_SYSTEM].path, PATH_MAX, "%s", SYSTEM_PATH);
	for (int i = 0; i < FILE_COUNT; i++)
		read_file(&files[i], (enum place)i);
}

static void free_files(void)
{
	for (int i = 0; i < FILE_COUNT; i++) {
		free(files[i].text);
		files[i].text = NULL;
		forget(&files[i]);
	}
}

static const struct file *find_file(enum ts_option option)
{
	for (int i = 0; i < FILE_COUNT; i++)
		if (files[i].value[option])
			return &files[i];
	return NULL;
}

/* ---- what holds for a job ---------------------------------------------------------------- */

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

static int export_files(void)
{
	for (int i = 0; i < TS_OPTION_COUNT; i++) {
		const struct file *file = find_file((enum ts_option)i);
		if (file && setenv(ts_options[i].variable, file->value[i], 0) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int export_with(const struct ts_arguments *arguments, struct ts_config *ret_config)
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
	if (export_files() < 0)
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

int ts_conf_export(const struct ts_arguments *arguments, struct ts_config *ret_config)
{

	read_files();
	int r = export_with(arguments, ret_config);
	free_files();
	return r;
}

void ts_conf_export_files(void)
{
	read_files();
	(void)export_files();
	free_files();
}

/* ---- tsrun config ------------------------------------------------------------------------ */

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
	char name[NAME_BYTES];
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
	if (option == TS_OPTION_SUMMARY && value &&
		(strncmp(value, "line:", 5) == 0 || strncmp(value, "plain:", 6) == 0))
		return NULL;
	return option == TS_OPTION_SUMMARY && value && strncmp(value, "pid:", 4) == 0 ? "1"
										      : value;
}

static void find_value(
	const struct ts_arguments *arguments, enum ts_option option, struct row *row)
{
	const char *set = own_value(option, getenv(ts_options[option].variable));
	const struct file *file = find_file(option);
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
static int find_rows(const struct ts_arguments *arguments, struct row rows[TS_OPTION_COUNT])
{
	struct ts_config scratch;

	for (int i = 0; i < TS_OPTION_COUNT; i++) {
		enum ts_option option = (enum ts_option)i;
		ts_config_init(&scratch);
		name_of(option, rows[i].name);
		find_value(arguments, option, &rows[i]);
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

/* What "auto" comes to here. */
static void print_ring(const char *value)
{
	struct ts_config config;
	uint32_t why;
	char size[TS_UNITS_BYTES], text[TS_UNITS_RING];

	(void)ts_config_set(&config, TS_OPTION_RING, value);
	uint64_t bytes = ts_limits_ring(config.ring_bytes, ts_limits_memory(), &why);
	if (why != 0)
		printf(", %s%s", ts_units_size(bytes, size), ts_units_ring(why, text));
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
		if (i == TS_OPTION_RING && rows[i].valid)
			print_ring(rows[i].value);
		if (i == TS_OPTION_COPIES && strcmp(rows[i].value, "auto") == 0)
			ts_proof_print_setting(stdout);
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
		ts_json_string(&json, "file", rows[i].path);
		ts_json_number_or_null(&json, "line", rows[i].path != NULL, rows[i].line);
		ts_json_bool(&json, "valid", rows[i].valid);
		ts_json_string(&json, "default", ts_options[i].standard);
		ts_json_string(&json, "option", texts[i].name[0] ? texts[i].name : NULL);
		ts_json_string(&json, "variable", ts_options[i].variable);
		ts_json_string(&json, "help", texts[i].help);
		ts_json_close(&json, '}');
	}
	ts_json_close(&json, ']');
}

int ts_config_command(const struct ts_arguments *arguments)
{
	struct row rows[TS_OPTION_COUNT] = {0};
	struct ts_config config;

	read_files();
	int r = find_rows(arguments, rows);
	if (r == 0) {
		r = export_with(arguments, &config);
		if (arguments->flag[TS_FLAG_JSON])
			print_json(rows);
		else
			print_table(rows);
	}
	for (int i = 0; i < TS_OPTION_COUNT; i++)
		free(rows[i].value);
	free_files();
	return r < 0 ? TS_EXIT_FAILED : 0;
}
