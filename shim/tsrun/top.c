/* SPDX-License-Identifier: MIT */
/* tsrun top: what the jobs of the groups do, again and again. */
#include "shim/tsrun/top.h"
#include "shim/sys.h"
#include "shim/tsrun/log_line.h"
#include "shim/tsrun/message.h"
#include "shim/tsrun/rates.h"
#include "shim/tsrun/screen.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SECOND UINT64_C(1000000000)
#define NS_PER_MS     UINT64_C(1000000)
#define COUNT_MAX     UINT64_C(1000000000)

/* Faster, our own looking would show; slower, a loop around -n 1 does it. */
#define DELAY_MIN_NS (NS_PER_SECOND / 10)
#define DELAY_MAX_NS (3600 * NS_PER_SECOND)

/* ---- options ----------------------------------------------------------------------------- */

/* Digits, and up to nine behind a point, as units of 10^-9; UINT64_MAX when it is not that. */
static uint64_t parse_decimal(const char *text)
{
	uint64_t value = 0, scale = NS_PER_SECOND;
	const char *at = text;

	for (; *at >= '0' && *at <= '9'; at++) {
		value = 10 * value + (uint64_t)(*at - '0');
		if (value > COUNT_MAX)
			return UINT64_MAX;
	}
	if (at == text)
		return UINT64_MAX;
	value *= NS_PER_SECOND;
	if (*at == '.' && at[1] != '\0')
		for (at++; *at >= '0' && *at <= '9' && scale > 1; at++)
			value += (uint64_t)(*at - '0') * (scale /= 10);
	return *at == '\0' ? value : UINT64_MAX;
}

int ts_top_parse(const char *count, const char *delay, struct ts_top_options *ret_options)
{
	uint64_t times = count ? parse_decimal(count) : 0;
	uint64_t ns = delay ? parse_decimal(delay) : TS_TOP_DELAY_NS;

	if (count && (times == 0 || times == UINT64_MAX || strchr(count, '.'))) {
		ts_message_say("option '--count' has a bad value '%s'", count);
		ts_message_hint("it must be a number from 1 to %" PRIu64, COUNT_MAX);
		return -EINVAL;
	}
	if (ns < DELAY_MIN_NS || ns > DELAY_MAX_NS) {
		ts_message_say("option '--delay' has a bad value '%s'", delay);
		ts_message_hint("it must be a number of seconds from 0.1 to 3600");
		return -EINVAL;
	}
	ret_options->count = (uint32_t)(times / NS_PER_SECOND);
	ret_options->delay_ns = ns;
	return 0;
}

/* ---- what is shown ----------------------------------------------------------------------- */

/* What earlier lines of a group said. */
struct lines {
	struct lines *next;
	char group[TS_GROUP_MAX + 1];
	struct ts_log_jobs jobs;
};

/* The last two looks; the older one is what rates are told from. */
struct looks {
	struct ts_sample before, now;
	struct lines *lines; /* of JSON */
	uint64_t next_ns;    /* when the next one is due */
	uint32_t shown;
};

/* Those of the group called @name; NULL without memory. */
static struct lines *find_lines(struct looks *looks, const char *name)
{
	struct lines *lines = looks->lines;

	while (lines && strcmp(lines->group, name) != 0)
		lines = lines->next;
	if (lines || !(lines = calloc(1, sizeof(*lines))))
		return lines;
	(void)snprintf(lines->group, sizeof(lines->group), "%s", name);
	lines->next = looks->lines;
	looks->lines = lines;
	return lines;
}

/* A line of each group that has a job, or has lost its last one, or was named. */
static int compose_lines(FILE *out, const struct ts_top_options *options, struct looks *looks)
{
	for (uint32_t i = 0; i < looks->now.count; i++) {
		const struct ts_sample_group *group = &looks->now.groups[i];
		struct lines *lines = find_lines(looks, group->name);
		if (!lines)
			return -ENOMEM;
		if (options->group || group->jobs > 0 || ts_log_has_jobs(&lines->jobs))
			ts_log_write(&lines->jobs, group, (uint64_t)ts_real_ns() / NS_PER_MS,
				options->delay_ns / NS_PER_MS, out);
	}
	return 0;
}

static void compose_text(
	FILE *out, const struct ts_top_options *options, const struct looks *looks)
{
	char when[32] = "";
	time_t seconds = time(NULL);
	struct tm local;

	if (localtime_r(&seconds, &local))
		(void)strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &local);
	fprintf(out, "tsrun top  %s  every %" PRIu64 ".%" PRIu64 " s\n\n", when,
		options->delay_ns / NS_PER_SECOND,
		options->delay_ns % NS_PER_SECOND / (NS_PER_SECOND / 10));
	ts_rates_write(out, &looks->before, &looks->now, options->group != NULL);
}

/* The text of one picture, for free(); NULL without memory. */
static char *compose(const struct ts_top_options *options, struct looks *looks)
{
	char *text = NULL;
	size_t bytes;
	int r = 0;

	FILE *out = open_memstream(&text, &bytes);
	if (!out)
		return NULL;
	if (options->json)
		r = compose_lines(out, options, looks);
	else
		compose_text(out, options, looks);
	return fclose(out) == 0 && r == 0 ? text : (free(text), NULL);
}

/* Look again. Errors: those of ts_sample_take(). */
static int look(const struct ts_top_options *options, struct looks *looks)
{
	struct ts_sample sample = {.groups = NULL};
	uint64_t now_ns = ts_now_ns();

	int r = ts_sample_take(options->group, &sample);
	if (r < 0)
		return r;
	ts_sample_finish(&looks->before);
	looks->before = looks->now;
	looks->now = sample;
	looks->next_ns = now_ns + options->delay_ns;
	return 0;
}

static uint64_t rest_ns(const struct looks *looks)
{
	uint64_t now_ns = ts_now_ns();

	return looks->next_ns > now_ns ? looks->next_ns - now_ns : 0;
}

static bool is_last(const struct ts_top_options *options, const struct looks *looks)
{
	return options->count > 0 && looks->shown >= options->count;
}

/* Print one block; what could not be printed is seen when stdout is closed. */
static int show_block(
	const char *text, const struct ts_top_options *options, const struct looks *looks)
{
	if (looks->shown > 0 && !options->json)
		putchar('\n');
	fputs(text, stdout);
	return fflush(stdout) == 0 ? 0 : -EIO;
}

static void sleep_for(uint64_t ns)
{
	const struct timespec rest = {
		.tv_sec = (time_t)(ns / NS_PER_SECOND), .tv_nsec = (long)(ns % NS_PER_SECOND)};

	(void)nanosleep(&rest, NULL);
}

/* Look and show until the end; @screen is NULL for blocks of text. */
static int run(
	const struct ts_top_options *options, struct ts_screen *screen, struct looks *looks)
{
	for (;;) {
		int r = look(options, looks);
		if (r < 0)
			return r;
		char *text = compose(options, looks);
		if (!text)
			return -ENOMEM;
		r = screen ? ts_screen_draw(screen, text) : show_block(text, options, looks);
		free(text);
		looks->shown++;
		if (r < 0)
			return screen ? r : 0;
		if (is_last(options, looks))
			return 0;
		if (!screen)
			sleep_for(rest_ns(looks));
		else if (ts_screen_wait(screen, rest_ns(looks)) == TS_SCREEN_QUIT)
			return 0;
	}
}

int ts_top_run(const struct ts_top_options *options)
{
	struct looks looks = {.shown = 0};
	struct ts_screen screen;
	bool batch = options->batch || options->json || isatty(STDOUT_FILENO) != 1;

	int r = batch ? 0 : ts_screen_begin(&screen);
	if (r == 0)
		r = run(options, batch ? NULL : &screen, &looks);
	if (!batch)
		ts_screen_end(&screen);
	ts_sample_finish(&looks.before);
	ts_sample_finish(&looks.now);
	for (struct lines *next; looks.lines; looks.lines = next) {
		next = looks.lines->next;
		free(looks.lines);
	}
	if (r == 0)
		return 0;
	ts_message_say("cannot go on: %s", strerror(-r));
	return TS_EXIT_FAILED;
}
