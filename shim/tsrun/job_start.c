/* SPDX-License-Identifier: MIT */
/* What /proc says of a job. */
#include "shim/tsrun/job_start.h"
#include "shim/config.h"
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

uint64_t ts_job_cpu_ns(uint64_t id)
{
	char path[32], stat[1024];

	ts_format(path, sizeof(path), "/proc/%d/stat", (int)TS_PROCESS_PID(id));
	if (ts_sys_read_file(path, stat, sizeof(stat)) < 0)
		return 0;
	/* The name in parentheses may hold anything: fields count from behind the last ')'. */
	const char *at = strrchr(stat, ')');
	if (!at || at[1] != ' ')
		return 0;
	at += 2;
	uint64_t ticks = 0, start = 0;
	/* proc(5): the state is field 3; times are 14 to 17; the start is 22. */
	for (int field = 4; field <= 22; field++) {
		start = next_field(&at);
		if (field >= 14 && field <= 17)
			ticks += start;
	}
	bool is_same = (start & ((UINT64_C(1) << 40) - 1)) == id >> 24;
	return is_same ? ticks * (NS_PER_S / ticks_per_second()) : 0;
}

uint64_t ts_job_real_ms(uint64_t ns)
{
	struct timespec real, boot;

	if (clock_gettime(CLOCK_REALTIME, &real) < 0 ||
		clock_gettime(CLOCK_BOOTTIME, &boot) < 0)
		return 0;
	uint64_t now = (uint64_t)real.tv_sec * MS_PER_S + (uint64_t)real.tv_nsec / NS_PER_MS;
	uint64_t up = (uint64_t)boot.tv_sec * MS_PER_S + (uint64_t)boot.tv_nsec / NS_PER_MS;
	return now > up ? now - up + ns / NS_PER_MS : 0;
}

uint64_t ts_job_began_ms(uint64_t id)
{
	return ts_job_real_ms((id >> 24) * (NS_PER_S / ticks_per_second()));
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

static void read_program(int pid, struct ts_job_start *start)
{
	const char *between = "";
	size_t length = read_text(pid, "cmdline");

	if (length == 0)
		return;
	const char *script = is_python(text) ? find_script(text, length, &between) : NULL;
	(void)snprintf(start->program, sizeof(start->program), "%s%s%s", text,
		script ? between : "", script ? script : "");
}

static void read_mode(int pid, struct ts_job_start *start)
{
	struct ts_config config;
	char *entries[SETTINGS_MAX + 1];
	size_t length = read_text(pid, "environ"), count = 0;

	/* One that is longer than what we read may say something else at its end. */
	if (length == 0 || length >= sizeof(text) - 1)
		return;
	for (char *at = text; at && count < SETTINGS_MAX; at = next_string(at, length))
		if (strncmp(at, "TSSHIM_", 7) == 0)
			entries[count++] = at;
	entries[count] = NULL;
	ts_config_load(&config, entries, NULL);
	start->seed = config.align_seed;
	start->mode = !config.align                   ? "default"
		      : config.order == TS_ORDER_FREE ? "free"
						      : "aligned";
}

void ts_job_read_start(int pid, struct ts_job_start *ret_start)
{
	*ret_start = (struct ts_job_start){.mode = NULL};
	read_program(pid, ret_start);
	read_mode(pid, ret_start);
}
