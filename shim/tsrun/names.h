/* SPDX-License-Identifier: MIT */
/* What the names in the directory of shared memory mean. */
#ifndef TS_TSRUN_NAMES_H
#define TS_TSRUN_NAMES_H

#include "leader/group/store_private.h"

enum ts_name_kind {
	TS_NAME_OTHER, /* none of our making */
	TS_NAME_LEDGER,
	TS_NAME_RING,
	TS_NAME_BELONGING, /* goes with the ring: ts_dependents[], TS_NAMES_OLD */
	TS_NAME_PRIVATE,   /* half made: "tsshim.<uid>.<scope>.<group>.new.<pid>" */
};

/** One object by its name (leader/group/attach.h). */
struct ts_name {
	enum ts_name_kind kind;
	bool foreign;             /* of other namespaces, or of another user id in them */
	bool same_pids;           /* its maker's process ids are ours */
	int maker;                /* TS_NAME_PRIVATE: the process that makes it */
	char stem[TS_PATH_BYTES]; /* path of the group's objects without ".ring", ".ledger" ...
				   */
	char group[TS_GROUP_MAX + 1];
};

/* Of a version that had `tsrun stats --reset`. */
#define TS_NAMES_OLD "reset"

/** Where we look, and what names of our own begin with. */
struct ts_names {
	char directory[TS_PATH_BYTES], prefix[TS_PATH_BYTES];
};

/** Errors: those of ts_object_path(). */
int ts_names_init(struct ts_names *names);

/** What @name in that directory is; a name that only looks alike is TS_NAME_OTHER. */
void ts_names_parse(const struct ts_names *names, const char *name, struct ts_name *ret_name);

/** The name of our own @group's ledger, whether or not it is there. Errors: -EINVAL bad group.
 */
int ts_names_own(const char *group, struct ts_name *ret_name);

/**
 * Call @visit for all objects that belong to this user, in the order of their names.
 * Errors: those of ts_names_init() and scandir(3).
 */
int ts_names_each(void (*visit)(void *context, const struct ts_name *name), void *context);

/** How many other namespaces have counters of a group of this user's called @group. */
unsigned ts_names_elsewhere(const char *group);

#endif
