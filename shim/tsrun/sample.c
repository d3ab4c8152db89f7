/* SPDX-License-Identifier: MIT */
/* One look at the counters of all groups of the user, to be compared with a later one. */
#include "shim/tsrun/sample.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/sys.h"
#include "shim/tsrun/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void ts_sample_count(struct ts_sample_group *group)
{
	group->jobs = group->processes = 0;
	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		struct ts_ledger *ledger = group->report.ledger;
		group->alive[i] = ledger && ts_process_is_alive(ts_load_relaxed(
						    &ts_ledger_job(ledger, i)->id));
		group->jobs += group->alive[i];
	}
	for (uint32_t i = 0; i < group->report.ring.member_count; i++)
		group->processes += group->report.ring.members[i].live;
}

/* The first error counts; @part is what could not be read then, for people. */
static void note_error(struct ts_sample_group *group, const char *part, int error)
{
	if (error == 0 || error == -ENOENT || group->error < 0)
		return;
	group->error = error;
	group->part = part;
}

/* Open "ledger", "ring" or "peers" of the group at @stem.  Errors: -ENOENT; of ts_view_open().
 */
static int open_part(const char *stem, const char *suffix, int *ret_fd, struct stat *ret_stat)
{
	char path[TS_PATH_BYTES + 8];

	(void)snprintf(path, sizeof(path), "%s.%s", stem, suffix);
	return ts_view_open(path, false, ret_fd, ret_stat);
}

static void look_at(const char *stem, struct ts_sample_group *group)
{
	struct stat st;
	int fd;

	int r = open_part(stem, "ledger", &fd, &st);
	if (r == 0) {
		group->inode = (uint64_t)st.st_ino;
		group->at_ns = ts_now_ns();
		r = ts_view_ledger(fd, &group->report.ledger);
		(void)close(fd);
	}
	note_error(group, "the counters", r);
	r = open_part(stem, "ring", &fd, &st);
	if (r == 0) {
		r = ts_view_ring(fd, &group->report.ring);
		(void)close(fd);
	}
	note_error(group, "the ring", r);
	r = open_part(stem, "peers", &fd, &st);
	if (r == 0) {
		r = ts_view_mail(fd, &group->report.nodes);
		(void)close(fd);
	}
	note_error(group, "what is told of other nodes", r);
	ts_sample_count(group);
}

struct gathering {
	struct ts_sample sample;
	uint32_t room;
	int error;
};

static void add_group(struct gathering *gathering, const struct ts_name *name)
{
	struct ts_sample *sample = &gathering->sample;

	if (sample->count == gathering->room) {
		uint32_t room = gathering->room ? 2 * gathering->room : 8;
		void *groups = realloc(sample->groups, room * sizeof(*sample->groups));
		if (!groups) {
			gathering->error = -ENOMEM;
			return;
		}
		sample->groups = groups;
		gathering->room = room;
	}
	struct ts_sample_group *group = &sample->groups[sample->count++];
	memset(group, 0, sizeof(*group));
	memcpy(group->name, name->group, sizeof(group->name));
	look_at(name->stem, group);
}

static void visit(void *context, const struct ts_name *name)
{
	if (name->kind == TS_NAME_LEDGER && !name->foreign)
		add_group(context, name);
}

int ts_sample_take(const char *only, struct ts_sample *ret_sample)
{
	struct gathering gathering = {.room = 0};
	struct ts_name name;

	int r = only ? ts_names_own(only, &name) : ts_names_each(visit, &gathering);
	if (r == 0 && only)
		add_group(&gathering, &name);
	if (r == 0)
		r = gathering.error;
	if (r < 0) {
		ts_sample_finish(&gathering.sample);
		return r;
	}
	/* Not before: the groups have been moved. */
	for (uint32_t i = 0; i < gathering.sample.count; i++)
		gathering.sample.groups[i].report.group = gathering.sample.groups[i].name;
	*ret_sample = gathering.sample;
	return 0;
}

void ts_sample_finish(struct ts_sample *sample)
{
	for (uint32_t i = 0; i < sample->count; i++) {
		free(sample->groups[i].report.ledger);
		free(sample->groups[i].report.nodes);
		free(sample->groups[i].report.ring.members);
	}
	free(sample->groups);
	*sample = (struct ts_sample){.groups = NULL};
}

const struct ts_sample_group *ts_sample_find(const struct ts_sample *sample, const char *name)
{
	for (uint32_t i = 0; i < sample->count; i++)
		if (strcmp(sample->groups[i].name, name) == 0)
			return &sample->groups[i];
	return NULL;
}
