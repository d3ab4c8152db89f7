/* SPDX-License-Identifier: MIT */
/* One look at the counters of all groups of the user, to be compared with a later one. */
#ifndef TS_TSRUN_SAMPLE_H
#define TS_TSRUN_SAMPLE_H

#include "leader/group/attach.h"
#include "shim/tsrun/report.h"

/** One group at one time. */
struct ts_sample_group {
	char name[TS_GROUP_MAX + 1];
	struct ts_report report; /* copies; its ledger is NULL where there is none to read */
	int error;               /* why one of its objects could not be read, or 0 */
	const char *part;        /* which one that is, for people */
	uint64_t at_ns;          /* ts_now_ns() when the ledger was copied */
	uint64_t inode;          /* of the ledger: counters of another one begin anew */
	bool alive[TS_JOB_MAX];  /* whether the process of the job in that row lives */
	uint32_t jobs;           /* so many do */
	uint32_t processes;      /* live members of the ring */
};

/** Begin with all zero. */
struct ts_sample {
	struct ts_sample_group *groups; /* in the order of their names */
	uint32_t count;
};

/**
 * Look at group @only, or at all of the user's in these namespaces when it is NULL.  Nothing is
 * attached or written.  End *ret_sample with ts_sample_finish().
 * Errors: -ENOMEM; those of ts_names_each().
 */
int ts_sample_take(const char *only, struct ts_sample *ret_sample);

/** Free what it holds; it may be taken anew. */
void ts_sample_finish(struct ts_sample *sample);

/** Work out @alive, @jobs and @processes of @group from its report. */
void ts_sample_count(struct ts_sample_group *group);

/** The group called @name, or NULL. */
const struct ts_sample_group *ts_sample_find(const struct ts_sample *sample, const char *name);

#endif
