/* SPDX-License-Identifier: MIT */
/* What /proc says of a job. */
#include "leader/events/process.h"

#include "shim/identity.h"
#include "shim/log.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S  UINT64_C(1000000000)
#define MS_PER_S  1000
#define NS_PER_MS UINT64_C(1000000)

/* Of a command line, or of an environment, what is looked at. */
#define TEXT_BYTES 131072

/* Settings of one job that are looked at. */
#define SETTINGS_MAX 64

static char text[TEXT_BYTES];

static uint64_t ticks_per_second(void)
{
	long ticks = sysconf(_SC_CLK_TCK);

	return ticks > 0 ? (uint64_t)ticks : 100;
}

/* ---- what it has used ------------------------------------------------------------------- */

/* Move *at behind the next blank, and read the number there. */
static uint64_t next_field(const char **at)
{
	const char *blank = strchr(*at, ' ');

	*at = blank ? blank + 1 : *at + strlen(*at);
	return strtoull(*at, NULL, 10);
}

void ts_event_process_look(int pid, struct ts_event_process *ret_process)
{
	char path[32], stat[1024];

	*ret_process = (struct ts_event_process){.id = 0};
	ts_format(path, sizeof(path), "/proc/%d/stat", pid);
	if (ts_sys_read_file(path, stat, sizeof(stat)) < 0)
		return;
	/* The name in parentheses may hold anything: fields count from behind the last ')'. */
	const char *at = strrchr(stat, ')');
	if (!at || at[1] != ' ')
		return;
	at += 2;
	uint64_t ticks = 0, start = 0, threads = 0;
	bool is_zombie = *at == 'Z' || *at == 'X';
	/* proc(5): the state is field 3; times from 14 to 17; the number of threads is field
	 * 20, the start field 22. */
	for (int field = 4; field <= 22; field++) {
		uint64_t value = next_field(&at);
		if (field >= 14 && field <= 17)
			ticks += value;
		if (field == 20)
			threads = value;
		start = value;
	}
	ret_process->id = (start & ((UINT64_C(1) << 40) - 1)) << 24 | (uint64_t)pid;
	ret_process->alive = !is_zombie || threads > 1;
	ret_process->cpu_ns = ticks * (NS_PER_S / ticks_per_second());
}

uint64_t ts_event_process_began(uint64_t id)
{
	struct timespec real, boot;

	if (clock_gettime(CLOCK_REALTIME, &real) < 0 ||
		clock_gettime(CLOCK_BOOTTIME, &boot) < 0)
		return 0;
	uint64_t since_boot = (id >> 24) * MS_PER_S / ticks_per_second();
	uint64_t now = (uint64_t)real.tv_sec * MS_PER_S + (uint64_t)real.tv_nsec / NS_PER_MS;
	uint64_t up = (uint64_t)boot.tv_sec * MS_PER_S + (uint64_t)boot.tv_nsec / NS_PER_MS;
	return now > up ? now - up + since_boot : 0;
}

/* ---- how it was started ----------------------------------------------------------------- */

/* Read a file of @pid into `text`; returns how many bytes, which end with a NUL. */
static size_t read_text(int pid, const char *name)
{
	char path[48];

	ts_format(path, sizeof(path), "/proc/%d/%s", pid, name);
	int length = ts_sys_read_file(path, text, sizeof(text));
	return length > 0 ? (size_t)length : 0;
}

/* The string behind the one at @at, or NULL at the end. */
static char *next_string(char *at, size_t length)
{
	char *next = at + strlen(at) + 1;

	return next < text + length ? next : NULL;
}

static bool is_python(const char *word)
{
	const char *slash = strrchr(word, '/');

	return strncmp(slash ? slash + 1 : word, "python", 6) == 0;
}

/*
 * Behind an interpreter: its script, or with -m its module.  The letters of options stand
 * together, and the value of one that has a value is the rest, or the next word; see
 * ts_launch_isolation() of tsrun.
 */
static const char *find_script(char *words, size_t length, const char **ret_between)
{
	*ret_between = " ";
	for (char *word = next_string(words, length); word; word = next_string(word, length)) {
		if (word[0] != '-')
			return word;
		if (word[1] == '-')
			continue;
		const char *letter = word + strcspn(word, "cmWX");
		bool has_rest = *letter != '\0' && letter[1] != '\0';
		char *next = next_string(word, length);
		if (*letter == 'c' || word[1] == '\0')
			return NULL;
		*ret_between = " -m ";
		if (*letter == 'm')
			return has_rest ? letter + 1 : next;
		*ret_between = " ";
		if (*letter != '\0' && !has_rest && next)
			word = next;
	}
	return NULL;
}

static void read_program(int pid, struct ts_event_start *start)
{
	const char *between = "";
	size_t length = read_text(pid, "cmdline");

	if (length == 0)
		return;
	const char *script = is_python(text) ? find_script(text, length, &between) : NULL;
	(void)snprintf(start->program, sizeof(start->program), "%s%s%s", text,
		script ? between : "", script ? script : "");
}

static void read_settings(int pid, struct ts_event_start *start)
{
	char *entries[SETTINGS_MAX + 1];
	size_t length = read_text(pid, "environ"), count = 0;

	/* One that is longer than what we read may say something else at its end. */
	if (length == 0 || length >= sizeof(text) - 1)
		return;
	for (char *at = text; at && count < SETTINGS_MAX; at = next_string(at, length))
		if (strncmp(at, "TSSHIM_", 7) == 0)
			entries[count++] = at;
	entries[count] = NULL;
	ts_config_load(&start->settings, entries, NULL);
	start->has_settings = true;
}

void ts_event_process_start(int pid, struct ts_event_start *ret_start)
{
	*ret_start = (struct ts_event_start){.has_settings = false};
	read_program(pid, ret_start);
	read_settings(pid, ret_start);
}
