/* SPDX-License-Identifier: MIT */
/* The ledger of a group: who writes down what a job does. */
#include "leader/group/recorder.h"

#include "shim/atomic.h"
#include "shim/identity.h"

/* No error of the kernel is larger. */
#define ERROR_MAX 4095u

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
