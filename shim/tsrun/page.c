/* SPDX-License-Identifier: MIT */
/*
 * tsrun report: becomes the part of ours in Python that makes the page.  What we know and it
 * does not (the table of reasons) it reads from a descriptor.
 */
#include "leader/events/events.h"
#include "shim/reasons.h"
#include "shim/tsrun/commands.h"
#include "shim/tsrun/json.h"
#include "shim/tsrun/message.h"
#include "shim/tsrun/python.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* --table, --output, --, and the end */
#define WORDS_BEFORE 6

/* ---- what Python is told ----------------------------------------------------------------- */

static void write_reasons(FILE *out)
{
	struct ts_json json = {.out = out};

	ts_json_open(&json, NULL, '[');
	for (size_t i = 0; i < TS_REASON_COUNT; i++) {
		ts_json_open(&json, NULL, '{');
		ts_json_string(&json, "id", ts_reasons[i].id);
		ts_json_string(&json, "text", ts_reasons[i].text);
		bool is_lost = ts_reasons[i].fix != TS_NOT_LOST;
		ts_json_string(&json, "fix", is_lost ? ts_reasons[i].fix : NULL);
		ts_json_close(&json, '}');
	}
	ts_json_close(&json, ']');
}

/* The table of reasons in memory without a name, open across exec. Errors: of the calls. */
static int make_table(void)
{
	int fd = memfd_create("tsshim-reasons", 0);
	int copy = fd < 0 ? -1 : dup(fd);
	FILE *out = copy < 0 ? NULL : fdopen(copy, "w");
	int r = -errno;

	if (!out) {
		if (copy >= 0)
			(void)close(copy);
		if (fd >= 0)
			(void)close(fd);
		return r;
	}
	write_reasons(out);
	errno = 0;
	bool failed = ferror(out) != 0;
	if (fclose(out) != 0 || failed) {
		r = errno != 0 ? -errno : -EIO;
		(void)close(fd);
		return r;
	}
	return fd;
}

/* ---- where things are -------------------------------------------------------------------- */

/* Where jobs with these settings write theirs, or would. Errors: of ts_events_path(). */
static int find_log(const struct ts_config *config, char ret_path[TS_EVENTS_PATH])
{
	struct ts_config wanted = *config;

	if (wanted.events == TS_EVENTS_OFF)
		wanted.events = TS_EVENTS_ON;
	return ts_events_path(&wanted, environ, ret_path);
}

/* ---- to become it ------------------------------------------------------------------------ */

/* Returns only on failure. */
static int become(
	const char *python, const char *part, int table, const char *output, char *const *logs)
{
	char table_path[64];
	size_t count = 0, at = 0;

	while (logs[count])
		count++;
	const char **words = calloc(count + WORDS_BEFORE, sizeof(*words));
	if (!words)
		return -ENOMEM;
	(void)snprintf(table_path, sizeof(table_path), "/proc/self/fd/%d", table);
	words[at++] = "--table";
	words[at++] = table_path;
	words[at++] = "--output";
	words[at++] = output;
	words[at++] = "--";
	memcpy(words + at, logs, count * sizeof(*words));
	int r = ts_python_become(python, part, words);
	free(words);
	return r;
}

static int fail(const char *what, int r)
{
	ts_message_say("cannot make the page: %s: %s", what, strerror(-r));
	return TS_EXIT_FAILED;
}

int ts_report_command(const struct ts_arguments *arguments, const struct ts_config *config)
{
	const char *output = arguments->value[TS_FLAG_OUTPUT];
	char **logs = arguments->files;
	char part[PATH_MAX] = "report", python[PATH_MAX];
	char log[TS_EVENTS_PATH];
	char *of_group[] = {log, NULL};

	if (!output || output[0] == '\0') {
		ts_message_say("tsrun report needs the name of the page");
		ts_message_hint("write -o FILE.html, or -o - for stdout");
		return TS_EXIT_FAILED;
	}
	int r = ts_python_part("report", part);
	if (r < 0)
		return fail(part, r);
	if (!logs && find_log(config, log) < 0) {
		ts_message_say(
			"the log of group '%s' is nowhere: HOME is no absolute path, or too "
			"long",
			config->group);
		ts_message_hint("name it: tsrun report -o %s LOG", output);
		return TS_EXIT_FAILED;
	}
	if (ts_python_find(python) < 0) {
		ts_message_say("tsrun report needs Python 3 with matplotlib, and there is no "
			       "python3 in PATH");
		ts_message_hint("install both, as `apt install python3-matplotlib` does");
		return TS_EXIT_FAILED;
	}
	int table = make_table();
	if (table < 0)
		return fail("the table of reasons", table);
	r = become(python, part, table, output, logs ? logs : of_group);
	return fail(python, r);
}
