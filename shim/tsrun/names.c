/* SPDX-License-Identifier: MIT */
/* What the names in the directory of shared memory mean. */
#include "shim/tsrun/names.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int ts_names_init(struct ts_names *names)
{
	int r = ts_object_path(names->directory, sizeof(names->directory), "x", "ring");

	if (r < 0)
		return r;
	char *slash = strrchr(names->directory, '/');
	*slash = '\0';
	size_t length = strlen(slash + 1) - strlen("x.ring");
	memcpy(names->prefix, slash + 1, length);
	names->prefix[length] = '\0';
	return 0;
}

/* Step over a decimal number and the @end behind it; NULL when that is not what is there. */
static const char *skip_number(const char *at, char end)
{
	size_t digits = strspn(at, "0123456789");

	return digits > 0 && digits <= 20 && at[digits] == end ? at + digits + 1 : NULL;
}

/* Behind "tsshim.<uid>.<user namespace>-<PID namespace>."; *ret_pids is the last number. */
static const char *skip_prefix(const char *name, const char **ret_pids)
{
	static const char start[] = "tsshim.";

	if (strncmp(name, start, strlen(start)) != 0)
		return NULL;
	const char *at = skip_number(name + strlen(start), '.');
	if (at)
		at = skip_number(at, '-');
	*ret_pids = at;
	return at ? skip_number(at, '.') : NULL;
}

static enum ts_name_kind kind_of_suffix(const char *suffix)
{
	if (strcmp(suffix, "ledger") == 0)
		return TS_NAME_LEDGER;
	if (strcmp(suffix, "ring") == 0)
		return TS_NAME_RING;
	for (size_t i = 0; i < TS_DEPENDENTS; i++)
		if (strcmp(suffix, ts_dependents[i].suffix) == 0)
			return TS_NAME_BELONGING;
	return strcmp(suffix, TS_NAMES_OLD) == 0 ? TS_NAME_BELONGING : TS_NAME_OTHER;
}

/* Kind of an object by the last dot of its name; ".new.<pid>" begins a dot before it. */
static enum ts_name_kind kind_of(const char *group, const char **dot, int *ret_maker)
{
	static const char mark[] = ".new";
	const char *suffix = *dot + 1;

	enum ts_name_kind kind = kind_of_suffix(suffix);

	if (kind != TS_NAME_OTHER)
		return kind;
	if (!skip_number(suffix, '\0') || (size_t)(*dot - group) <= strlen(mark) ||
		memcmp(*dot - strlen(mark), mark, strlen(mark)) != 0)
		return TS_NAME_OTHER;
	*ret_maker = atoi(suffix);
	*dot -= strlen(mark);
	return TS_NAME_PRIVATE;
}

void ts_names_parse(const struct ts_names *names, const char *name, struct ts_name *ret_name)
{
	const char *pids, *group = skip_prefix(name, &pids);
	const char *dot = group ? strrchr(group, '.') : NULL;

	*ret_name = (struct ts_name){.kind = TS_NAME_OTHER};
	if (!dot || dot == group)
		return;
	enum ts_name_kind kind = kind_of(group, &dot, &ret_name->maker);
	size_t length = (size_t)(dot - group);
	if (length > TS_GROUP_MAX ||
		snprintf(ret_name->stem, sizeof(ret_name->stem), "%s/%.*s", names->directory,
			(int)(dot - name), name) >= (int)sizeof(ret_name->stem))
		return;
	memcpy(ret_name->group, group, length);
	const char *own_pids = strrchr(names->prefix, '-') + 1;
	ret_name->same_pids = strncmp(pids, own_pids, strlen(own_pids)) == 0;
	ret_name->foreign = strncmp(name, names->prefix, strlen(names->prefix)) != 0;
	ret_name->kind = kind;
}

int ts_names_own(const char *group, struct ts_name *ret_name)
{
	*ret_name = (struct ts_name){.kind = TS_NAME_LEDGER, .same_pids = true};
	int r = ts_object_path(ret_name->stem, sizeof(ret_name->stem), group, "ring");
	if (r < 0)
		return r;
	*strrchr(ret_name->stem, '.') = '\0';
	memcpy(ret_name->group, group, strlen(group));
	return 0;
}

/* Names of other users are not looked at; under our own anything may lie. */
static bool is_of_user(const struct ts_names *names, const char *name, bool foreign)
{
	char path[TS_PATH_BYTES];
	struct stat st;

	if (!foreign)
		return true;
	return snprintf(path, sizeof(path), "%s/%s", names->directory, name) <
		       (int)sizeof(path) &&
	       lstat(path, &st) == 0 && st.st_uid == geteuid();
}

int ts_names_each(void (*visit)(void *context, const struct ts_name *name), void *context)
{
	struct ts_names names;
	struct ts_name name;
	struct dirent **entries;

	int r = ts_names_init(&names);
	if (r < 0)
		return r;
	int count = scandir(names.directory, &entries, NULL, alphasort);
	if (count < 0)
		return -errno;
	for (int i = 0; i < count; i++) {
		ts_names_parse(&names, entries[i]->d_name, &name);
		if (name.kind != TS_NAME_OTHER &&
			is_of_user(&names, entries[i]->d_name, name.foreign))
			visit(context, &name);
		free(entries[i]);
	}
	free(entries);
	return 0;
}

struct counter {
	const char *group;
	unsigned count;
};

static void count_foreign(void *context, const struct ts_name *name)
{
	struct counter *counter = context;

	if (name->kind == TS_NAME_LEDGER && name->foreign &&
		strcmp(name->group, counter->group) == 0)
		counter->count++;
}

unsigned ts_names_elsewhere(const char *group)
{
	struct counter counter = {.group = group};

	(void)ts_names_each(count_foreign, &counter);
	return counter.count;
}
