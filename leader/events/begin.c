/* SPDX-License-Identifier: MIT */
/* Starting a recorder: all that the host's processes do for an event log. */
#include "leader/events/events.h"

#include "leader/group/recorder.h"
#include "shim/atomic.h"
#include "shim/helper.h"
#include "shim/identity.h"
#include "shim/log.h"

extern char **environ;

static char path[TS_EVENTS_PATH]; /* empty: no log is wanted */

void ts_events_begin(void)
{
	const struct ts_config *config = ts_config();

	if (config->events == TS_EVENTS_OFF)
		return;
	if (ts_events_path(config, environ, path) < 0)
		path[0] = '\0';
	else
		ts_helper_find();
}

/* A process 1 that is the job would find the recorder among its children, were it started by a
 * worker. */
static int start(uint64_t id)
{
	const struct ts_config *config = ts_config();
	char job[24], self[24];

	if (TS_PROCESS_PID(id) == 1)
		return -ENOENT;
	ts_format(job, sizeof(job), "%llu", (unsigned long long)id);
	ts_format(self, sizeof(self), "%llu", (unsigned long long)ts_identity_self());
	/* In the order of ts_recorder_main(). */
	char *const arguments[] = {(char *)TS_RECORDER_NAME, (char *)config->group, job, self,
		path, (char *)(config->events == TS_EVENTS_ON ? "1" : "0"), NULL};
	return ts_helper_start(TS_HELPER_STAGER, arguments, NULL, 0);
}

void ts_recorder_begin(struct ts_ledger *ledger, uint32_t job)
{
	if (path[0] == '\0' || job >= TS_JOB_MAX)
		return;
	uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, job)->id);
	if (id == 0 || ts_recorder_is_there(ledger, job, id) ||
		ts_recorder_enter(ledger, job, id, ts_identity_self(), 0) < 0)
		return;
	int r = start(id);
	if (r < 0)
		ts_recorder_tell(ledger, job, id, TS_RECORDER_NO_HELPER, r);
}
