/* SPDX-License-Identifier: MIT */
/* tsrun stats: gather what a group did, and have it printed. */
#include "shim/tsrun/stats.h"
#include "leader/group/store_private.h"
#include "shim/tsrun/message.h"
#include "shim/tsrun/names.h"
#include "shim/tsrun/report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Open "ledger" or "ring" of @group; 0 with *ret_fd -1 when there is none. */
static int open_part(const char *group, const char *suffix, int *ret_fd)
{
	char path[TS_PATH_BYTES];
	struct stat st;

	*ret_fd = -1;
	int r = ts_object_path(path, sizeof(path), group, suffix);
	if (r == 0)
		r = ts_view_open(path, false, ret_fd, &st);
	return r == -ENOENT ? 0 : r;
}

static int gather(struct ts_report *report)
{
	int fd;

	int r = open_part(report->group, "ledger", &fd);
	if (r == 0 && fd >= 0) {
		r = ts_view_ledger(fd, &report->ledger);
		(void)close(fd);
	}
	if (r < 0) {
		ts_message_say("cannot read the counters of group '%s': %s", report->group,
			ts_view_explain(r));
		return r;
	}
	r = open_part(report->group, "ring", &fd);
	if (r == 0 && fd >= 0) {
		r = ts_view_ring(fd, &report->ring);
		(void)close(fd);
	}
	/* The counters are worth printing without the ring. */
	if (r < 0)
		ts_message_say("cannot read the ring of group '%s': %s", report->group,
			ts_view_explain(r));
	return r;
}

int ts_stats_print(const char *group, bool json)
{
	struct ts_report report = {.group = group, .elsewhere = ts_names_elsewhere(group)};

	int r = gather(&report);
	if (r == -EBADMSG || r == -EPROTO || r == -ESTALE)
		ts_message_hint("`tsrun gc --group %s` removes it when nobody uses it", group);
	if (r == 0 || report.ledger) {
		if (json)
			ts_report_json(&report, stdout);
		else
			ts_report_text(&report, stdout);
	}
	free(report.ledger);
	free(report.ring.members);
	return r < 0 ? TS_EXIT_FAILED : 0;
}
