/* SPDX-License-Identifier: MIT */
/* Who may still use a group of other namespaces; shim/tsrun/foreign.h has the reasons. */
#include "shim/tsrun/foreign.h"
#include "shim/atomic.h"
#include "shim/tsrun/view.h"

#include <stdlib.h>
#include <time.h>

/* Whether nobody has written into the object behind @fd, if there is one, for long. */
static bool is_idle(int fd)
{
	struct stat st;

	if (fd < 0)
		return true;
	return fstat(fd, &st) == 0 && st.st_mtime < time(NULL) - TS_FOREIGN_IDLE_S;
}

/* Whether a job has not said that it is leaving. */
static bool has_open_job(struct ts_ledger *ledger)
{
	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		struct ts_job_row *row = ts_ledger_job(ledger, i);
		if (ts_load_relaxed(&row->id) != 0 && !ts_load_relaxed(&row->ended))
			return true;
	}
	return false;
}

static const char *keep_jobs(int book, int ring)
{
	struct ts_view_origin origin;
	struct ts_ledger *ledger;
	const char *keep = NULL;

	int r = book < 0 ? -ENOENT : ts_view_any_ledger(book, &origin, &ledger);
	if (r < 0) {
		/* Without a ledger that can be read, its age is all there is. */
		return is_idle(book) && is_idle(ring) ? NULL
						      : "it cannot be read, and is young";
	}
	if (!origin.same_boot)
		keep = NULL;
	else if (origin.same_pids)
		keep = ts_ledger_has_live_job(ledger, 0) ? "a job of the group is alive" : NULL;
	else if (has_open_job(ledger) && !(is_idle(book) && is_idle(ring)))
		keep = "a job of another PID namespace may be alive";
	free(ledger);
	return keep;
}

const char *ts_foreign_keep(int book, int ring)
{
	if ((book >= 0 && ts_view_is_locked(book)) || (ring >= 0 && ts_view_is_locked(ring)))
		return "a process of another namespace holds a lock on it";
	return keep_jobs(book, ring);
}

const char *ts_foreign_keep_private(int fd)
{
	return is_idle(fd) ? NULL : "its maker is of another PID namespace";
}
