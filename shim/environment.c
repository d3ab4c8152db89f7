/* SPDX-License-Identifier: MIT */
/* Settings of this process, read from its environment. */
#include "shim/config.h"

#include "shim/atomic.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

extern char **environ;

#define PREFIX "TSSHIM_"

/* Longest part of a variable's name that is looked at and shown. */
#define NAME_SHOWN 63

static_assert(TS_OPTION_COUNT <= 64, "a bit for each");

static const char *const names[] = {
#define TS_OPTION(name, ...) PREFIX #name,
#include "shim/options.def"
	NULL,
};

/*
 * Names that tests, and programs that measure us, use among themselves; and the one that
 * scripts/slurm reads before there is a process of ours.
 */
static bool is_internal(const char *entry)
{
	return strncmp(entry, PREFIX "SLURM=", sizeof(PREFIX "SLURM=") - 1) == 0 ||
	       strncmp(entry, PREFIX "TEST_", sizeof(PREFIX "TEST_") - 1) == 0 ||
	       strncmp(entry, PREFIX "BENCH_", sizeof(PREFIX "BENCH_") - 1) == 0;
}

/* The option that is given by @name; -ENOENT: none is. */
static int option_of(const char *name)
{
	for (int i = 0; names[i]; i++)
		if (strcmp(name, names[i]) == 0)
			return i;
	return -ENOENT;
}

/* Looks up one "NAME=value" of the environment; *seen has a bit for each option met before. */
static void load_one(struct ts_config *config, const char *entry, uint64_t *seen,
	void (*complain)(enum ts_option, const char *, const char *, const char *))
{
	char name[NAME_SHOWN + 1];
	const char *equals = strchr(entry, '=');
	if (!equals || strncmp(entry, PREFIX, sizeof(PREFIX) - 1) != 0 || is_internal(entry))
		return;
	/* No name of ours is so long that cutting it could make it one. */
	size_t length = (size_t)ts_min_u64((uint64_t)(equals - entry), NAME_SHOWN);
	memcpy(name, entry, length);
	name[length] = '\0';
	int option = option_of(name);
	if (option < 0) {
		if (complain)
			complain(TS_OPTION_COUNT, name, equals + 1,
				ts_config_nearest(name, names));
		return;
	}
	/* Of a name that is there twice getenv(3) takes the first, and so do we. */
	if (*seen >> option & 1)
		return;
	*seen |= UINT64_C(1) << option;
	if (ts_config_set(config, (enum ts_option)option, equals + 1) < 0 && complain)
		complain((enum ts_option)option, name, equals + 1, NULL);
}

void ts_config_load(struct ts_config *config, char *const *env,
	void (*complain)(enum ts_option option, const char *name, const char *value,
		const char *suggestion))
{
	uint64_t seen = 0;
	ts_config_init(config);
	for (; env && *env; env++)
		load_one(config, *env, &seen, complain);
}

/* Who gives itself a title (setproctitle, $0) writes it where the environment was. */
static void keep(const char **text, char *place, size_t bytes)
{
	size_t length = *text ? strnlen(*text, bytes) : 0;
	if (length == bytes)
		*text = NULL;
	if (!*text)
		return;
	memcpy(place, *text, length + 1);
	*text = place;
}

static struct ts_config config;

void ts_config_set_line(const struct ts_line_place *place)
{
	(void)ts_config();
	config.line = *place;
}

const struct ts_config *ts_config(void)
{
	static char dataset_dir[PATH_MAX], stage_dir[TS_STAGE_DIR_MAX + 1];
	static _Atomic int loaded;
	/* Two threads may both load the same values; the pointer into the environment is the
	 * same too.  Pairs with the release below. */
	if (TS_UNLIKELY(!ts_load_acquire(&loaded))) {
		struct ts_config fresh;
		ts_config_load(&fresh, environ, NULL);
		keep(&fresh.dataset_dir, dataset_dir, sizeof(dataset_dir));
		keep(&fresh.stage_dir, stage_dir, sizeof(stage_dir));
		config = fresh;
		ts_write_release(&loaded, 1);
	}
	return &config;
}
