/* SPDX-License-Identifier: MIT */
/* A recorder at work: leader/events/events.h explains it. */
#include "leader/events/write.h"

#include "leader/group/summary.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/log.h"
#include "shim/sys.h"

#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MS_PER_S  UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)

/* Between two looks; and at least, when jobs end in between. */
#define PERIOD_MS 1000
#define LEAST_MS  100

/* A writer has so long to write the end of our job, and is asked so often whether it has. */
#define END_MS      5000
#define END_STEP_MS 50

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

struct recorder {
	const struct ts_recorder_task *task;
	struct ts_ledger *ledger;
	uint32_t row; /* of our job */
	struct ts_event_log log;
	/* Who wakes us when a job ends; -1: nobody can, which costs a second at most. */
	uint64_t ids[TS_JOB_MAX];
	struct pollfd fds[TS_JOB_MAX];
};

static struct recorder recorder;
static struct ts_event_writer writer;
static struct ts_event_start own;

/* ---- beginning -------------------------------------------------------------------------- */

/* Errors: of ts_scope_check(); -EBADMSG: there is none that can be trusted. */
static int map_ledger(const char *group, struct ts_ledger **ret_ledger)
{
	struct ts_ledger *map = ts_summary_map_to_count(group);
	int r = map ? ts_scope_check(&writer.scope, &map->head) : -EBADMSG;

	if (r < 0)
		ts_summary_unmap(map);
	else
		*ret_ledger = map;
	return r;
}

/* All directories above @path, as the XDG Base Directory Specification wants them. */
static void make_directories(const char *path)
{
	char directory[TS_EVENTS_PATH];

	ts_format(directory, sizeof(directory), "%s", path);
	for (char *at = strchr(directory + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		(void)ts_sys_mkdir(directory, 0700);
		*at = '/';
	}
}

static int begin(const struct ts_recorder_task *task)
{
	recorder.task = task;
	recorder.log = (struct ts_event_log){
		.path = task->path, .group = task->group, .max = TS_EVENTS_BYTES, .fd = -1};
	for (uint32_t i = 0; i < TS_JOB_MAX; i++)
		recorder.fds[i] = (struct pollfd){.fd = -1, .events = POLLIN};
	int r = ts_scope_read(&writer.scope);
	if (r == 0)
		r = map_ledger(task->group, &recorder.ledger);
	if (r < 0)
		return r;
	while (recorder.row < TS_JOB_MAX &&
		ts_load_relaxed(&ts_ledger_job(recorder.ledger, recorder.row)->id) != task->job)
		recorder.row++;
	if (recorder.row == TS_JOB_MAX)
		return -ENOENT;
	r = ts_recorder_enter(recorder.ledger, recorder.row, task->job,
		ts_process_id(getpid(), false), task->starter);
	if (r < 0)
		return r;
	writer.ledger = recorder.ledger;
	writer.log = &recorder.log;
	writer.group = task->group;
	ts_event_process_start(TS_PROCESS_PID(task->job), &own);
	if (ts_process_is_alive(task->job)) {
		writer.own = &own;
		writer.own_id = task->job;
	}
	if (task->make_directories)
		make_directories(task->path);
	return 0;
}

static void tell(enum ts_recorder_state state, int error)
{
	ts_recorder_tell(recorder.ledger, recorder.row, recorder.task->job, state, error);
}

/* ---- sleeping --------------------------------------------------------------------------- */

/* Watch job @id of row @index; 0: none. */
static void watch(uint32_t index, uint64_t id)
{
	struct pollfd *fd = &recorder.fds[index];

	if (recorder.ids[index] == id)
		return;
	if (fd->fd >= 0)
		ts_sys_close(fd->fd);
	recorder.ids[index] = id;
	fd->fd = id ? (int)syscall(SYS_pidfd_open, (pid_t)TS_PROCESS_PID(id), 0) : -1;
	/* Another process may have got the number before we asked. */
	if (fd->fd >= 0 && !ts_process_is_alive(id)) {
		ts_sys_close(fd->fd);
		fd->fd = -1;
	}
}

static void watch_all(void)
{
	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		bool is_wanted = i == recorder.row || recorder.log.is_ours;
		uint64_t id = ts_load_relaxed(&ts_ledger_job(recorder.ledger, i)->id);
		if (i == recorder.row)
			id = recorder.task->job;
		else if (is_wanted && !writer.rows[i].alive)
			is_wanted = false;
		watch(i, is_wanted ? id : 0);
	}
}

/* Until a job ends, @ms at most. */
static void sleep_watching(uint64_t ms)
{
	if (poll(recorder.fds, TS_JOB_MAX, (int)ms) <= 0)
		return;
	/* Each one wakes us once, whatever else says that it is there. */
	for (uint32_t i = 0; i < TS_JOB_MAX; i++)
		if (recorder.fds[i].fd >= 0 && recorder.fds[i].revents != 0) {
			ts_sys_close(recorder.fds[i].fd);
			recorder.fds[i].fd = -1;
		}
}

static void sleep_until(uint64_t begin_ns, uint64_t ms)
{
	uint64_t passed = (ts_now_ns() - begin_ns) / NS_PER_MS;

	if (passed < ms)
		(void)poll(NULL, 0, (int)(ms - passed));
}

/* ---- working ---------------------------------------------------------------------------- */

static uint64_t real_ms(void)
{
	struct timespec now = {0};

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * MS_PER_S + (uint64_t)now.tv_nsec / NS_PER_MS;
}

/* Write, if that is ours to do.  Errors: what ends the log for us. */
static int work(void)
{
	if (!recorder.log.is_ours) {
		int r = ts_event_log_take(&recorder.log);
		if (r < 0)
			return r == -EAGAIN ? 0 : r;
		ts_event_writer_forget(&writer);
		tell(TS_RECORDER_WRITES, 0);
	}
	int r = ts_event_writer_look(&writer, real_ms());
	if (r == -ESTALE) /* there is another file the next time */
		r = 0;
	return r;
}

/* Whether the log has the end of our job, which is over. */
static bool is_written(void)
{
	return ts_load_relaxed(&ts_ledger_job(recorder.ledger, recorder.row)->id) !=
		       recorder.task->job ||
	       ts_recorder_state(recorder.ledger, recorder.row, recorder.task->job, NULL) ==
		       TS_RECORDER_DONE;
}

/* Our job is over: somebody writes its end, whether we or the one that has the lock. */
static int finish(void)
{
	uint64_t begin_ns = ts_now_ns();
	int r = work();

	while (r == 0 && !is_written() && ts_now_ns() - begin_ns < END_MS * NS_PER_MS) {
		(void)poll(NULL, 0, END_STEP_MS);
		r = work();
	}
	return r;
}

/* Who would be told of the end need not ask. */
static bool is_over(void)
{
	return recorder.fds[recorder.row].fd < 0 && !ts_process_is_alive(recorder.task->job);
}

static int run(void)
{
	tell(TS_RECORDER_WAITS, 0);
	for (;;) {
		uint64_t begin_ns = ts_now_ns();
		if (is_over())
			return finish();
		int r = work();
		if (r < 0)
			return r;
		watch_all();
		sleep_watching(PERIOD_MS);
		sleep_until(begin_ns, LEAST_MS);
	}
}

int ts_recorder_run(const struct ts_recorder_task *task)
{
	int r = begin(task);

	if (r < 0)
		return r;
	r = run();
	if (r < 0)
		tell(TS_RECORDER_ENDED, r);
	ts_event_log_close(&recorder.log);
	return r;
}
