/* SPDX-License-Identifier: MIT */
/* The recorder of a job: leader/events/events.h explains it. */
#include "shim/tsrun/log_recorder.h"
#include "leader/events/recorder.h"
#include "leader/group/attach.h"
#include "leader/object/killpoint.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/log.h"
#include "shim/sys.h"
#include "shim/tsrun/log_line.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- the file: taking it, writing at its end, and beginning another one ------------------ */

/* A file may be replaced between the looks at its name and at its lock, but not for ever. */
#define TAKE_TRIES 8

void ts_log_file_close(struct ts_log_file *file)
{
	if (file->fd >= 0)
		ts_sys_close(file->fd);
	file->fd = -1;
	file->is_ours = false;
}

/* Whether the file that we have open is the one that has the name. */
static bool is_named(const struct ts_log_file *file)
{
	struct stat st;

	return ts_sys_lstat(file->path, &st) == 0 && st.st_dev == file->device &&
	       st.st_ino == file->inode;
}

static int open_file(struct ts_log_file *file)
{
	struct stat st = {.st_ino = 0};

	if (file->fd >= 0)
		return 0;
	int r = ts_events_open(file->path, file->group, O_CREAT, &file->fd);
	if (r == 0)
		r = ts_sys_fstat(file->fd, &st);
	if (r < 0)
		return r;
	file->device = st.st_dev;
	file->inode = st.st_ino;
	return 0;
}

/*
 * Our file becomes the one before, whose place is taken only from a log of this group.  Whoever
 * waits for the lock gets it when the file is closed, sees that the name is gone, and asks for
 * that of the next file.
 */
static int rotate(struct ts_log_file *file)
{
	char before[TS_EVENTS_PATH];
	int fd;

	ts_format(before, sizeof(before), "%s" TS_EVENTS_BEFORE, file->path);
	int r = ts_events_open(before, file->group, 0, &fd);
	if (r == 0)
		ts_sys_close(fd);
	if (r == 0 || r == -ENOENT)
		r = ts_sys_rename(file->path, before);
	TS_KILLPOINT(events_rotated);
	ts_log_file_close(file);
	return r < 0 ? r : -ESTALE;
}

/* The writer before us may have been killed within a line. */
static int end_line(struct ts_log_file *file)
{
	char last = '\n';
	struct stat st;

	int r = ts_sys_fstat(file->fd, &st);
	if (r < 0)
		return r;
	file->bytes = (uint64_t)st.st_size;
	if (file->bytes > 0 && ts_sys_pread(file->fd, &last, 1, file->bytes - 1) < 0)
		return -EIO;
	return last == '\n' ? 0 : ts_log_file_append(file, "\n", 1);
}

/* One try. Errors: -ESTALE the file is not the one that has the name: try again. */
static int take(struct ts_log_file *file)
{
	int r = open_file(file);
	if (r == 0)
		r = ts_sys_flock(file->fd, LOCK_EX | LOCK_NB);
	if (r < 0)
		return r == -EWOULDBLOCK ? -EAGAIN : r;
	if (!is_named(file)) {
		ts_log_file_close(file);
		return -ESTALE;
	}
	file->is_ours = true;
	return ts_events_is_current(file->fd) ? end_line(file) : rotate(file);
}

int ts_log_file_take(struct ts_log_file *file)
{
	int r = -ESTALE;

	for (int i = 0; i < TAKE_TRIES && r == -ESTALE; i++)
		r = take(file);
	if (r < 0 && r != -EAGAIN)
		ts_log_file_close(file);
	return r == -ESTALE ? -EAGAIN : r;
}

/* Whether the file is what it was when we wrote last. */
static int check_file(struct ts_log_file *file)
{
	struct stat st;
	int r = ts_sys_fstat(file->fd, &st);

	if (r < 0)
		return r;
	if ((uint64_t)st.st_size < file->bytes || !is_named(file))
		return -ESTALE;
	file->bytes = (uint64_t)st.st_size;
	return 0;
}

int ts_log_file_append(struct ts_log_file *file, const char *text, size_t bytes)
{
	uint64_t done = 0;
	int64_t n = check_file(file);

	if (n == 0 && file->bytes > 0 && file->bytes + bytes > file->max)
		return rotate(file);
	while (n >= 0 && done < bytes) {
		n = ts_sys_write(file->fd, text + done, bytes - done);
		if (n == -EINTR)
			n = 0;
		else if (n > 0)
			done += (uint64_t)n;
		else if (n == 0)
			n = -ENOSPC;
		TS_KILLPOINT(events_written);
	}
	if (n >= 0) {
		file->bytes += bytes;
		return 0;
	}
	if (done > 0) /* no half line */
		(void)ts_sys_ftruncate(file->fd, file->bytes);
	ts_log_file_close(file);
	return (int)n;
}

/* ---- the recorder ------------------------------------------------------------------------ */

#define NS_PER_MS UINT64_C(1000000)

/* Between two looks at who is there; and at least, when jobs end in between. */
#define LOOK_MS  1000
#define LEAST_MS 100

/* A writer has so long to write the end of our job, and is asked so often whether it has. */
#define END_MS      5000
#define END_STEP_MS 50

/* Whether a second ends sooner or later does not matter; that few timers expire does. */
#define SLACK_NS 50000000UL

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

static struct {
	const char *group;
	uint64_t job,
		starter; /* ts_process_id() of our job, and of the process that started us */
	struct ts_ledger *ledger;
	uint32_t row; /* of our job */
	struct ts_log_file file;
	struct ts_log_jobs jobs;
	uint64_t next_ms; /* when a line is due; since the epoch */
	bool is_due;      /* at once */
	/* Who wakes us when a job ends; -1: nobody can, which costs a second at most. */
	uint64_t ids[TS_JOB_MAX];
	struct pollfd fds[TS_JOB_MAX];
} recorder;

/* ---- beginning -------------------------------------------------------------------------- */

/* Errors: of ts_scope_check(); -EBADMSG: there is none that can be trusted. */
static int map_ledger(void)
{
	struct ts_scope scope;
	int r = ts_scope_read(&scope);
	struct ts_ledger *map = r == 0 ? ts_ledger_map_to_count(recorder.group) : NULL;

	if (r == 0)
		r = map ? ts_scope_check(&scope, &map->head) : -EBADMSG;
	if (r < 0)
		ts_ledger_unmap(map);
	else
		recorder.ledger = map;
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

/* Errors: -EEXIST the job has a recorder; -ENOENT no group, or no such job in it. */
static int begin(void)
{
	for (uint32_t i = 0; i < TS_JOB_MAX; i++)
		recorder.fds[i] = (struct pollfd){.fd = -1, .events = POLLIN};
	int r = map_ledger();
	if (r < 0)
		return r;
	while (recorder.row < TS_JOB_MAX &&
		ts_load_relaxed(&ts_ledger_job(recorder.ledger, recorder.row)->id) !=
			recorder.job)
		recorder.row++;
	if (recorder.row == TS_JOB_MAX)
		return -ENOENT;
	r = ts_recorder_enter(recorder.ledger, recorder.row, recorder.job,
		ts_process_id(getpid(), false), recorder.starter);
	/* Who writes may see it only when it is over. */
	if (r == 0)
		ts_log_meet(&recorder.jobs, recorder.row, recorder.job);
	return r;
}

static void tell(enum ts_recorder_state state, int error)
{
	ts_recorder_tell(recorder.ledger, recorder.row, recorder.job, state, error);
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
		const struct ts_log_job *job = &recorder.jobs.rows[i];
		bool is_watched = recorder.file.is_ours && job->is_live;
		watch(i, i == recorder.row ? recorder.job : is_watched ? job->id : 0);
	}
}

/* Until a job ends, @ms at most. */
static void sleep_watching(int ms)
{
	if (poll(recorder.fds, TS_JOB_MAX, ms) <= 0)
		return;
	/* Each one wakes us once, whatever else says that it is there. */
	for (uint32_t i = 0; i < TS_JOB_MAX; i++)
		if (recorder.fds[i].fd >= 0 && recorder.fds[i].revents != 0) {
			ts_sys_close(recorder.fds[i].fd);
			recorder.fds[i].fd = -1;
			recorder.is_due = true;
		}
}

static void sleep_until(uint64_t begin_ns, uint64_t ms)
{
	uint64_t passed = (ts_now_ns() - begin_ns) / NS_PER_MS;

	if (passed < ms)
		(void)poll(NULL, 0, (int)(ms - passed));
}

/* ---- working ---------------------------------------------------------------------------- */

/* The line of now, for free(). Errors: -ENOMEM; of ts_sample_take(). */
static int compose(uint64_t now_ms, uint64_t every_ms, char **ret_line, size_t *ret_bytes)
{
	struct ts_sample sample;
	int r = ts_sample_take(recorder.group, &sample);

	if (r < 0)
		return r;
	FILE *out = open_memstream(ret_line, ret_bytes);
	if (out)
		ts_log_write(&recorder.jobs, &sample.groups[0], now_ms, every_ms, out);
	ts_sample_finish(&sample);
	return out && fclose(out) == 0 ? 0 : -ENOMEM;
}

/* Only what is in the log counts as told. */
static void tell_ends(void)
{
	for (uint32_t i = 0; i < TS_JOB_MAX; i++)
		if (recorder.jobs.rows[i].is_over)
			ts_recorder_tell(recorder.ledger, i, recorder.jobs.rows[i].id,
				TS_RECORDER_DONE, 0);
}

static int write_line(void)
{
	uint64_t now_ms = (uint64_t)ts_real_ns() / NS_PER_MS;
	uint64_t every_ms = ts_log_period_ms(&recorder.jobs, now_ms);
	char *line = NULL;
	size_t bytes;

	/* A clock that was put back does not keep us waiting. */
	bool is_time = now_ms >= recorder.next_ms || recorder.next_ms - now_ms > every_ms;
	if (!is_time && !recorder.is_due && !ts_log_has_news(&recorder.jobs, recorder.ledger))
		return 0;
	int r = compose(now_ms, every_ms, &line, &bytes);
	if (r == 0)
		r = ts_log_file_append(&recorder.file, line, bytes);
	free(line);
	if (r < 0)
		return r;
	recorder.is_due = false;
	recorder.next_ms = now_ms + every_ms;
	tell_ends();
	return 0;
}

/* Write, if that is ours to do.  Errors: what ends the log for us. */
static int work(void)
{
	int r = -ESTALE;

	/* In the place of a file that is full or gone there is another one at once. */
	for (int i = 0; i < 2 && r == -ESTALE; i++) {
		if (!recorder.file.is_ours) {
			r = ts_log_file_take(&recorder.file);
			if (r < 0)
				break;
			recorder.jobs.anew = recorder.is_due = true;
			tell(TS_RECORDER_WRITES, 0);
		}
		r = write_line();
	}
	return r == -ESTALE || r == -EAGAIN ? 0 : r;
}

/* Whether the log has the end of our job, which is over. */
static bool is_written(void)
{
	return ts_load_relaxed(&ts_ledger_job(recorder.ledger, recorder.row)->id) !=
		       recorder.job ||
	       ts_recorder_state(recorder.ledger, recorder.row, recorder.job, NULL) ==
		       TS_RECORDER_DONE;
}

/* Our job is over: somebody writes its end, whether we or the one that has the lock. */
static int finish(void)
{
	uint64_t begin_ns = ts_now_ns();

	recorder.is_due = true;
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
	return recorder.fds[recorder.row].fd < 0 && !ts_process_is_alive(recorder.job);
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
		sleep_watching(LOOK_MS);
		sleep_until(begin_ns, LEAST_MS);
	}
}

int ts_recorder_main(int argc, char **argv)
{
	if (argc != 6)
		return 2;
	(void)prctl(PR_SET_NAME, TS_RECORDER_NAME);
	(void)prctl(PR_SET_TIMERSLACK, SLACK_NS);
	recorder.group = argv[1];
	recorder.job = strtoull(argv[2], NULL, 10);
	recorder.starter = strtoull(argv[3], NULL, 10);
	recorder.file = (struct ts_log_file){
		.path = argv[4], .group = argv[1], .max = TS_EVENTS_BYTES, .fd = -1};
	int r = begin();
	if (r < 0)
		return 1;
	if (strcmp(argv[5], "1") == 0)
		make_directories(argv[4]);
	r = run();
	if (r < 0)
		tell(TS_RECORDER_ENDED, r);
	ts_log_file_close(&recorder.file);
	return r == 0 ? 0 : 1;
}
