/* SPDX-License-Identifier: MIT */
/* The environment of the stand-in; see fake_settings.h. */
#include "fake_settings.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREFIX        "FAKECUDA_"
#define MOST_FAILURES 32

extern char **environ;

static const struct row {
	const char *name;
	int64_t least, most;
} rows[] = {
#define X(id, start, least, most, text) {#id, least, most},
	FAKE_NUMBERS(X)
#undef X
};

static int64_t numbers[] = {
#define X(id, start, least, most, text) start,
	FAKE_NUMBERS(X)
#undef X
};

static int visible[FAKE_MOST_DEVICES], visible_count;
static int instances[FAKE_MOST_DEVICES];
static bool reach[FAKE_MOST_DEVICES][FAKE_MOST_DEVICES];
static struct failure {
	char function[64];
	uint64_t nth;
	int code;
} failures[MOST_FAILURES];
static int failure_count;

void fake_die(const char *format, ...)
{
	va_list list;
	va_start(list, format);
	fputs("fakecuda (a software stand-in for libcuda): ", stderr);
	vfprintf(stderr, format, list);
	fputc('\n', stderr);
	va_end(list);
	_exit(99);
}

static int64_t parse_number(const char *name, const char *text, int64_t least, int64_t most)
{
	char *end;
	errno = 0;
	long long value = strtoll(text, &end, 10);
	if (end == text || *end != '\0' || errno != 0 || value < least || value > most)
		fake_die("%s=%s: not a number from %lld to %lld", name, text, (long long)least,
			(long long)most);
	return value;
}

/* Take the next of the words that @separator divides; returns its end or NULL at the end. */
static const char *next_word(const char *text, char *word, size_t size)
{
	size_t length = strcspn(text, ",");
	if (length == 0 || length >= size)
		fake_die("a list ends wrongly: '%s'", text);
	memcpy(word, text, length);
	word[length] = '\0';
	return text[length] == ',' ? text + length + 1 : NULL;
}

static void parse_visible(const char *text)
{
	char word[32];
	int all = (int)numbers[FAKE_DEVICES];
	visible_count = 0;
	/* The list ends at the first number that there is not. */
	while (text && *text != '\0' && visible_count < FAKE_MOST_DEVICES) {
		text = next_word(text, word, sizeof(word));
		char *end;
		long device = strtol(word, &end, 10);
		if (*end != '\0' || device < 0 || device >= all)
			return;
		visible[visible_count++] = (int)device;
	}
}

static void parse_instances(const char *text)
{
	char word[32];
	for (int i = 0; text && i < FAKE_MOST_DEVICES; i++) {
		text = next_word(text, word, sizeof(word));
		instances[i] = (int)parse_number("FAKECUDA_MIG", word, 1, 14);
	}
}

static void parse_peers(const char *text)
{
	char word[32], left;
	bool all = strcmp(text, "all") == 0;
	for (int i = 0; i < FAKE_MOST_DEVICES; i++)
		for (int k = 0; k < FAKE_MOST_DEVICES; k++)
			reach[i][k] = all && i != k;
	if (all || strcmp(text, "none") == 0)
		return;
	while (text) {
		unsigned a, b;
		text = next_word(text, word, sizeof(word));
		if (sscanf(word, "%u-%u%c", &a, &b, &left) != 2 || a >= FAKE_MOST_DEVICES ||
			b >= FAKE_MOST_DEVICES || a == b)
			fake_die("FAKECUDA_PEERS: '%s' is no pair of devices", word);
		reach[a][b] = true;
	}
}

static void parse_failures(const char *text)
{
	char word[128], left;
	while (text) {
		struct failure *f = &failures[failure_count];
		unsigned long long nth;
		text = next_word(text, word, sizeof(word));
		if (failure_count == MOST_FAILURES)
			fake_die("FAKECUDA_FAIL: too many");
		if (sscanf(word, "%63[^:]:%llu:%d%c", f->function, &nth, &f->code, &left) !=
				3 ||
			f->code <= 0)
			fake_die("FAKECUDA_FAIL: '%s' is not function:nth:code", word);
		f->nth = nth;
		failure_count++;
	}
}

static void parse(const char *name, const char *text)
{
	for (int id = 0; id < FAKE_NUMBER_COUNT; id++) {
		if (strcmp(rows[id].name, name) == 0) {
			numbers[id] = parse_number(name, text, rows[id].least, rows[id].most);
			return;
		}
	}
	if (strcmp(name, "PEERS") == 0)
		parse_peers(text);
	else if (strcmp(name, "MIG") == 0)
		parse_instances(text);
	else if (strcmp(name, "FAIL") == 0)
		parse_failures(text);
	else if (strcmp(name, "COUNTERS") != 0)
		fake_die("there is no setting " PREFIX "%s", name);
}

void fake_settings_init(void)
{
	char name[64];
	parse_peers("all");
	for (char **entry = environ; entry && *entry; entry++) {
		if (strncmp(*entry, PREFIX, strlen(PREFIX)) != 0)
			continue;
		const char *begin = *entry + strlen(PREFIX), *equals = strchrnul(begin, '=');
		if (*equals == '\0' || equals - begin >= (long)sizeof(name))
			fake_die("'%s' is no setting", *entry);
		memcpy(name, begin, (size_t)(equals - begin));
		name[equals - begin] = '\0';
		parse(name, equals + 1);
	}
	for (int i = 0; i < FAKE_MOST_DEVICES; i++)
		visible[i] = i;
	visible_count = (int)numbers[FAKE_DEVICES];
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	if (list)
		parse_visible(list);
}

int64_t fake_number(enum fake_number id)
{
	return numbers[id];
}

int fake_visible_count(void)
{
	return visible_count;
}

int fake_visible(int ordinal)
{
	return visible[ordinal];
}

int fake_instance(int physical)
{
	return instances[physical];
}

bool fake_can_reach(int device, int peer)
{
	/* Slices of one GPU reach each other only within a GPU instance. */
	if (instances[device] != instances[peer])
		return false;
	return reach[device][peer];
}

int fake_failure(const char *function, uint64_t nth)
{
	for (int i = 0; i < failure_count; i++)
		if (strcmp(failures[i].function, function) == 0 &&
			(failures[i].nth == nth || failures[i].nth == 0))
			return failures[i].code;
	return 0;
}
