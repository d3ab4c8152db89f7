/* SPDX-License-Identifier: MIT */
/*
 * Files of settings: "name = value", a line each, names as those of the options without "--".
 *
 * Read by tsrun only, which turns them into the environment of the command: a process that the
 * library is preloaded into opens no file for them.
 */
#ifndef TS_TSRUN_CONF_H
#define TS_TSRUN_CONF_H

#include "shim/options.h"
#include "shim/base.h"

#include <limits.h>

#define TS_CONF_SYSTEM_PATH "/etc/tsshim/tsshim.conf"
#define TS_CONF_BYTES_MAX   65536u

/** Where they are; what the first one says wins. */
enum ts_conf_place { TS_CONF_USER, TS_CONF_SYSTEM, TS_CONF_COUNT };

/** What one file says; all NULL where there is none, or it is ignored. */
struct ts_conf {
	char path[PATH_MAX]; /* "": no such place */
	char *text;          /* what the values point into */
	const char *value[TS_OPTION_COUNT];
	unsigned line[TS_OPTION_COUNT];
};

/** Name of @option in a file: "group", "stage-size", ...; @name has TS_CONF_NAME bytes. */
#define TS_CONF_NAME 32
void ts_conf_name(enum ts_option option, char name[TS_CONF_NAME]);

/**
 * Take @text (@bytes, and a NUL behind; changed, and pointed into) for what stands in
 * @conf->path.  A name that is not known is told, and the line ignored, as in the environment;
 * whatever else is wrong is told with its line, and -EINVAL: nothing of it counts.
 */
int ts_conf_parse(struct ts_conf *conf, char *text, size_t bytes);

/**
 * Read the user's file ($XDG_CONFIG_HOME, else $HOME/.config) and the system's.  One that
 * cannot be used is told and ignored: somebody else's, one that all may write, no regular file,
 * a large one.  What was read is freed by ts_conf_free().
 */
void ts_conf_read(struct ts_conf ret_files[TS_CONF_COUNT]);
void ts_conf_free(struct ts_conf files[TS_CONF_COUNT]);

/** The file whose value for @option counts, or NULL. */
const struct ts_conf *ts_conf_find(
	const struct ts_conf files[TS_CONF_COUNT], enum ts_option option);

#endif
