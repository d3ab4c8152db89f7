/* SPDX-License-Identifier: MIT */
/* Who this process is: itself, its job, and whether it still is who it was. */
#include "shim/identity.h"

#include "shim/atomic.h"
#include "shim/log.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define START_BITS ((UINT64_C(1) << 40) - 1)

/* Levels walked up from a multiprocessing child: forkserver, then its parent, and spare. */
#define ANCESTORS_MAX 8

/* Set to 1 by ts_identity_settle(); the kernel wipes the page in a fork child. */
static _Atomic uint32_t *sentinel;
static _Atomic uint32_t sentinel_without_wipe = 1;
static _Atomic pid_t settled_pid;
/* The process that the program was started in; fork children remember their ancestor. */
static _Atomic pid_t origin_pid;
static _Atomic uint64_t self_id, job_id;
static _Atomic uint32_t settled_serial; /* grows with each settle in a fork child */
static _Atomic uint32_t forks;

uint64_t ts_process_id(pid_t pid, bool zombie_is_gone)
{
	/* Enough up to field 22: the name has 64 bytes at most, a number 20. */
	char path[32], text[512];
	if (pid <= 0)
		return 0;
	ts_format(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (ts_sys_read_file(path, text, sizeof(text)) < 0) {
		int r = ts_sys_kill(pid, 0);
		return r == 0 || r == -EPERM ? (uint64_t)pid : 0;
	}
	/* The name in parentheses may hold anything: fields count from behind the last ')'. */
	const char *at = strrchr(text, ')');
	if (!at || at[1] != ' ')
		return 0;
	at += 2;
	/* proc(5): state is field 3, num_threads field 20, starttime field 22. */
	bool zombie = *at == 'Z' || *at == 'X';
	for (int field = 3; field < 22; field++) {
		at = strchr(at, ' ');
		if (!at)
			return 0;
		at++;
		/* A process whose first thread has ended shows as a zombie while others run. */
		if (field + 1 == 20 && zombie && zombie_is_gone &&
			(at[0] == '0' || at[0] == '1') && at[1] == ' ')
			return 0;
	}
	uint64_t start = 0;
	while (*at >= '0' && *at <= '9')
		start = start * 10 + (uint64_t)(*at++ - '0');
	return (start & START_BITS) << 24 | (uint64_t)pid;
}

bool ts_process_is_alive(uint64_t id)
{
	return id != 0 && ts_process_id(TS_PROCESS_PID(id), true) == id;
}

/* The parent's pid; 0 when it cannot be read. */
static pid_t parent_of(pid_t pid)
{
	char path[32], text[256];
	ts_format(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (ts_sys_read_file(path, text, sizeof(text)) < 0)
		return 0;
	const char *at = strrchr(text, ')');
	if (!at || strlen(at) < 4)
		return 0;
	pid_t parent = 0;
	for (at += 4; *at >= '0' && *at <= '9'; at++)
		parent = parent * 10 + (*at - '0');
	return parent;
}

/*
 * Whether @pid was started by Python's multiprocessing to work for its parent.  The command
 * lines are those of CPython's Lib/multiprocessing: spawn.py get_command_line(),
 * forkserver.py, resource_tracker.py.
 */
static bool is_multiprocessing_child(pid_t pid)
{
	static const char *const marks[] = {"--multiprocessing-fork", "multiprocessing.spawn",
		"multiprocessing.forkserver", "multiprocessing.resource_tracker"};
	char path[32], *text TS_SCRATCH = ts_scratch();
	if (!text)
		return false;
	ts_format(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	int length = ts_sys_read_file(path, text, TS_SCRATCH_BYTES);
	for (int i = 0; i < length; i++)
		if (text[i] == '\0')
			text[i] = ' ';
	for (size_t i = 0; length > 0 && i < TS_ARRAY_SIZE(marks); i++)
		if (strstr(text, marks[i]))
			return true;
	return false;
}

/* Whether two processes run the same program file; false when we may not look. */
static bool run_same_program(pid_t one, pid_t other)
{
	char path[32];
	struct stat first, second;
	ts_format(path, sizeof(path), "/proc/%d/exe", (int)one);
	if (ts_sys_stat(path, &first) < 0)
		return false;
	ts_format(path, sizeof(path), "/proc/%d/exe", (int)other);
	return ts_sys_stat(path, &second) == 0 && first.st_dev == second.st_dev &&
	       first.st_ino == second.st_ino;
}

/*
 * A trainer may be process 1 of a container, and an orphan's parent is whoever reaps it: only
 * a parent that runs the same interpreter is taken for the one that started the worker.
 */
static uint64_t find_job(void)
{
	pid_t pid = ts_load_relaxed(&origin_pid);
	for (int i = 0; i < ANCESTORS_MAX && is_multiprocessing_child(pid); i++) {
		pid_t parent = parent_of(pid);
		if (parent <= 0 || !run_same_program(pid, parent))
			break;
		pid = parent;
	}
	uint64_t id = ts_process_id(pid, false);
	return id ? id : ts_identity_self();
}

static void count_fork(void)
{
	ts_add_relaxed(&forks, 1);
}

uint32_t ts_identity_forks(void)
{
	return ts_load_relaxed(&forks);
}

/* Async-signal-safe: plain stores.  The job stays the parent's. */
static void forget_at_fork(void)
{
	ts_write_relaxed(&sentinel_without_wipe, 0);
	ts_write_relaxed(&self_id, 0);
}

void ts_identity_init(void)
{
	void *page = mmap(NULL, TS_PAGE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page != MAP_FAILED) {
		if (madvise(page, TS_PAGE_BYTES, MADV_WIPEONFORK) == 0)
			sentinel = page;
		else
			munmap(page, TS_PAGE_BYTES);
	}
	(void)pthread_atfork(count_fork, count_fork, forget_at_fork);
	ts_write_relaxed(&origin_pid, getpid());
	ts_identity_settle();
}

void ts_identity_settle(void)
{
	if (ts_identity_forked())
		ts_add_relaxed(&settled_serial, 1);
	ts_write_relaxed(&settled_pid, getpid());
	ts_write_relaxed(&self_id, 0);
	/* Last, and pairs with the loads in ts_identity_forked(): all that was done before. */
	ts_write_release(&sentinel_without_wipe, 1);
	if (sentinel)
		ts_write_release(sentinel, 1);
}

bool ts_identity_forked(void)
{
	if (sentinel)
		return ts_load_acquire(sentinel) == 0;
	return ts_load_acquire(&sentinel_without_wipe) == 0;
}

uint32_t ts_identity_serial(void)
{
	return ts_load_relaxed(&settled_serial) + (ts_identity_forked() ? 1 : 0);
}

enum ts_continuity ts_identity_check(void)
{
	if (ts_identity_forked())
		return TS_FORK_CHILD;
	pid_t settled = ts_load_relaxed(&settled_pid);
	return settled == 0 || getpid() == settled ? TS_SAME_PROCESS : TS_VFORK_CHILD;
}

uint64_t ts_identity_self(void)
{
	uint64_t id = ts_load_relaxed(&self_id);
	if (id == 0) {
		id = ts_process_id(getpid(), false);
		ts_write_relaxed(&self_id, id);
	}
	return id;
}

uint64_t ts_identity_job(void)
{
	uint64_t id = ts_load_relaxed(&job_id);
	if (id == 0) {
		id = find_job();
		ts_write_relaxed(&job_id, id);
	}
	return id;
}
