/* SPDX-License-Identifier: MIT */
/* What goes with a ring when its last user goes: objects of other rooms, by their names. */
#ifndef TS_LEADER_GROUP_BELONGINGS_H
#define TS_LEADER_GROUP_BELONGINGS_H

#include <stdbool.h>

struct ts_store;

/** In the order of removal. */
enum ts_belonging_index { TS_BELONGING_STAGE, TS_BELONGING_DEVICE, TS_BELONGINGS };

struct ts_belonging {
	const char *suffix; /* of its object's name */
	/* No more use of it by this process; false when some is left. NULL: nothing to stop. */
	bool (*stop)(struct ts_store *store);
	void (*remove)(const char *path);
};

/* In leader/belongings.c, above the rooms whose objects these are. */
extern const struct ts_belonging ts_belongings[TS_BELONGINGS];

#endif
