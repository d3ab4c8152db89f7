/* SPDX-License-Identifier: MIT */
/* The ledger of a group: how jobs met, by what they made and by the time they ran. */
#include "leader/group/ledger.h"
#include "shim/atomic.h"
#include "shim/identity.h"

#include <time.h>
#include <unistd.h>

#define NS_PER_S UINT64_C(1000000000)

void ts_meeting_begin(struct ts_meeting_row *row, uint64_t id)
{
	ts_write_relaxed(&row->given_samples, 0);
	ts_write_relaxed(&row->given_images, 0);
	ts_write_relaxed(&row->own, 0);
	ts_write_relaxed(&row->met, 0);
	ts_write_relaxed(&row->published, 0);
	ts_write_relaxed(&row->id, id);
}

struct ts_meeting_row *ts_ledger_meeting(struct ts_ledger *ledger, uint32_t job)
{
	if (job >= TS_JOB_MAX)
		return NULL;
	struct ts_meeting_row *row = ts_ledger_meeting_row(ledger, job);
	uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, job)->id);
	return id != 0 && ts_load_relaxed(&row->id) == id ? row : NULL;
}

/* The row of job @producer, most often the one that was found last; NULL: it has lost it. */
static struct ts_meeting_row *find_producer(struct ts_ledger *ledger, uint64_t producer)
{
	static _Atomic uint32_t last;
	uint32_t first = ts_load_relaxed(&last) % TS_JOB_MAX;

	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		uint32_t at = (first + i) % TS_JOB_MAX;
		if (ts_load_relaxed(&ts_ledger_meeting_row(ledger, at)->id) != producer)
			continue;
		ts_write_relaxed(&last, at);
		return ts_ledger_meeting(ledger, at);
	}
	return NULL;
}

void ts_ledger_give(
	struct ts_ledger *ledger, uint32_t job, uint64_t producer, enum ts_kind kind)
{
	if (producer == 0 || job >= TS_JOB_MAX ||
		(kind != TS_KIND_SAMPLE && kind != TS_KIND_PIXELS))
		return;
	struct ts_meeting_row *mine = ts_ledger_meeting(ledger, job);
	if (mine && ts_load_relaxed(&mine->id) == producer) {
		ts_add_relaxed(&mine->own, 1);
		return;
	}
	struct ts_meeting_row *row = find_producer(ledger, producer);
	if (row)
		ts_add_relaxed(
			kind == TS_KIND_SAMPLE ? &row->given_samples : &row->given_images, 1);
}

/* ---- time -------------------------------------------------------------------------------- */

uint64_t ts_meeting_now_ns(void)
{
	struct timespec now;

	/* As the start of a process is counted; never 0, which says that a job is there. */
	if (clock_gettime(CLOCK_BOOTTIME, &now) < 0)
		return 1;
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec + 1;
}

/* When process @id started; ts_process_id() counts in clock ticks. */
static uint64_t started_ns(uint64_t id)
{
	long ticks = sysconf(_SC_CLK_TCK);

	return (id >> TS_PROCESS_PID_BITS) * (NS_PER_S / (ticks > 0 ? (uint64_t)ticks : 100));
}

/* When the job of @row ended; now, while it is there; 0: it is not known. */
static uint64_t ended_ns(struct ts_job_row *row, uint64_t now)
{
	uint64_t ended = ts_load_relaxed(&row->ended);

	if (ended != 0)
		return ended;
	return ts_process_is_alive(ts_load_relaxed(&row->id)) ? now : 0;
}

uint64_t ts_ledger_beside_ns(struct ts_ledger *ledger, uint32_t a, uint32_t b)
{
	if (a >= TS_JOB_MAX || b >= TS_JOB_MAX)
		return 0;
	struct ts_job_row *one = ts_ledger_job(ledger, a), *other = ts_ledger_job(ledger, b);
	uint64_t now = ts_meeting_now_ns();
	uint64_t from = ts_max_u64(
		started_ns(ts_load_relaxed(&one->id)), started_ns(ts_load_relaxed(&other->id)));
	uint64_t to = ts_min_u64(ended_ns(one, now), ended_ns(other, now));

	return to > from ? to - from : 0;
}
