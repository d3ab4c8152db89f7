/* SPDX-License-Identifier: MIT */
/* Which program a command line ends in: scripts name theirs, and env(1) is followed. */
#include "shim/tsrun/launch.h"
#include "shim/tsrun/library.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

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
