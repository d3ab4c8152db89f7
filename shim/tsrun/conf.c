/* SPDX-License-Identifier: MIT */
/* Files of settings: where they are, whether they may be believed, and what they say. */
#include "shim/tsrun/conf.h"
#include "shim/config.h"
#include "shim/tsrun/message.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLANKS " \t\r"

#define PREFIX "TSSHIM_"

void ts_conf_name(enum ts_option option, char name[TS_CONF_NAME])
{
	const char *from = ts_options[option].variable + sizeof(PREFIX) - 1;
	size_t length = 0;

	for (; length < TS_CONF_NAME - 1 && from[length] != '\0'; length++) {
		char c = from[length];
		name[length] = c == '_' ? '-' : (char)(c - 'A' + 'a');
	}
	name[length] = '\0';
}

/* The beginning of @word, for a message: whatever a file holds, it goes to a terminal. */
static const char *show(const char *word)
{
	static char text[64];
	size_t length = 0;

	for (; length < sizeof(text) - 1 && word[length] != '\0'; length++)
		text[length] = word[length] >= ' ' && word[length] <= '~' ? word[length] : '?';
	text[length] = '\0';
	return text;
}

/* ---- what a file says ------------------------------------------------------------------- */

/* The option called @word, or -ENOENT after a message with what was probably meant. */
static int find_option(const struct ts_conf *conf, unsigned line, const char *word)
{
	char names[TS_OPTION_COUNT][TS_CONF_NAME];
	const char *list[TS_OPTION_COUNT + 1] = {NULL};

	for (int i = 0; i < TS_OPTION_COUNT; i++) {
		ts_conf_name((enum ts_option)i, names[i]);
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

static int parse_line(struct ts_conf *conf, unsigned number, char *line)
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

static void forget(struct ts_conf *conf)
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

int ts_conf_parse(struct ts_conf *conf, char *text, size_t bytes)
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
static const char *distrust(int fd, enum ts_conf_place place)
{
	struct stat found;

	if (fstat(fd, &found) < 0)
		return "it cannot be looked at";
	if (!S_ISREG(found.st_mode))
		return "it is no regular file";
	if (found.st_mode & S_IWOTH)
		return "everybody may write it";
	if (place == TS_CONF_USER && found.st_uid != geteuid() && found.st_uid != 0)
		return "it belongs to somebody else";
	if (found.st_size > TS_CONF_BYTES_MAX)
		return "it is larger than 64 KiB";
	return NULL;
}

/* All of @fd, up to the limit; -EFBIG: there is more. */
static ssize_t read_all(int fd, char *text)
{
	size_t bytes = 0;

	for (;;) {
		ssize_t n = read(fd, text + bytes, TS_CONF_BYTES_MAX + 1 - bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		bytes += (size_t)n;
		if (bytes > TS_CONF_BYTES_MAX)
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

static void read_file(struct ts_conf *conf, enum ts_conf_place place)
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
	conf->text = malloc(TS_CONF_BYTES_MAX + 2);
	ssize_t bytes = conf->text ? read_all(fd, conf->text) : -ENOMEM;
	close(fd);
	if (bytes < 0) {
		ts_message_say(
			"%s: %s; the file is ignored", conf->path, strerror((int)-bytes));
		return;
	}
	conf->text[bytes] = '\0';
	(void)ts_conf_parse(conf, conf->text, (size_t)bytes);
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

void ts_conf_read(struct ts_conf ret_files[TS_CONF_COUNT])
{
	memset(ret_files, 0, TS_CONF_COUNT * sizeof(ret_files[0]));
	find_user_path(ret_files[TS_CONF_USER].path);
	snprintf(ret_files[TS_CONF_SYSTEM].path, PATH_MAX, "%s", TS_CONF_SYSTEM_PATH);
	for (int i = 0; i < TS_CONF_COUNT; i++)
		read_file(&ret_files[i], (enum ts_conf_place)i);
}

void ts_conf_free(struct ts_conf files[TS_CONF_COUNT])
{
	for (int i = 0; i < TS_CONF_COUNT; i++) {
		free(files[i].text);
		files[i].text = NULL;
		forget(&files[i]);
	}
}

const struct ts_conf *ts_conf_find(
	const struct ts_conf files[TS_CONF_COUNT], enum ts_option option)
{
	for (int i = 0; i < TS_CONF_COUNT; i++)
		if (files[i].value[option])
			return &files[i];
	return NULL;
}
