/* SPDX-License-Identifier: MIT */
/* The recorder of a job: its row in the ledger, and its start, which is all that the host's
 * processes do for an event log. */
#include "leader/events/recorder.h"

#include "leader/events/events.h"
#include "leader/group/session_private.h"

#include "shim/atomic.h"
#include "shim/helper.h"
#include "shim/identity.h"
#include "shim/log.h"

/* No error of the kernel is larger. */
#define ERROR_MAX 4095u

/* ---- the row ---------------------------------------------------------------------------- */

bool ts_recorder_is_there(struct ts_ledger *ledger, uint32_t job, uint64_t id)
{
	uint64_t there = ts_load_relaxed(&ts_ledger_recorder_row(ledger, job)->recorder_xor_id);

	return there != 0 && ts_process_is_alive(there ^ id);
}

int ts_recorder_enter(
	struct ts_ledger *ledger, uint32_t job, uint64_t id, uint64_t process, uint64_t before)
{
	struct ts_recorder_row *row = ts_ledger_recorder_row(ledger, job);
	uint64_t there = ts_load_relaxed(&row->recorder_xor_id);

	if (ts_load_relaxed(&ts_ledger_job(ledger, job)->id) != id)
		return -ENOENT;
	if (there != 0 && (there ^ id) != before && ts_process_is_alive(there ^ id))
		return -EEXIST;
	if (!ts_cas(&row->recorder_xor_id, &there, process ^ id))
		return -EEXIST;
	return 0;
}

void ts_recorder_tell(struct ts_ledger *ledger, uint32_t job, uint64_t id,
	enum ts_recorder_state state, int error)
{
	uint64_t word = (uint64_t)state | (uint64_t)(uint32_t)-error << 8;

	if (job >= TS_JOB_MAX)
		return;
	struct ts_recorder_row *row = ts_ledger_recorder_row(ledger, job);
	uint64_t there = ts_load_relaxed(&row->state_xor_id);
	/* A row that got another job meanwhile is told what reads as nothing. */
	do
		if (there == (TS_RECORDER_DONE ^ id))
			return;
	while (!ts_cas(&row->state_xor_id, &there, word ^ id));
}

enum ts_recorder_state ts_recorder_state(
	struct ts_ledger *ledger, uint32_t job, uint64_t id, int *ret_error)
{
	uint64_t there = ts_load_relaxed(&ts_ledger_recorder_row(ledger, job)->state_xor_id);
	uint64_t word = there ? there ^ id : 0;
	bool is_sound = (word & 0xff) < TS_RECORDER_STATE_COUNT && word >> 8 <= ERROR_MAX;

	if (ret_error)
		*ret_error = is_sound ? -(int)(word >> 8) : 0;
	return is_sound ? (enum ts_recorder_state)(word & 0xff) : TS_RECORDER_NONE;
}

/* ---- the start -------------------------------------------------------------------------- */

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
