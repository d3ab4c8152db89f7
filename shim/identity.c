/* SPDX-License-Identifier: MIT */
/* Telling a process from its fork and vfork children, and finding the job it works for. */
#include "shim/identity.h"

#include "shim/atomic.h"
#include "shim/log.h"
#include "shim/sys.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* Linux 4.14 */
#endif

/* A spawned child of a spawned child of ...: deeper than this nobody nests loaders. */
#define MAX_LEVELS 8

/*
 * 1 while this is the process that settled, 0 in a fork child.  Lies in a page of its own,
 * which the kernel zeroes in every fork child; where that is not to be had it is `plain`,
 * which only the atfork handler clears.  A child that ran no handler then differs in its
 * pid alone and is taken for a vfork child, which is safe: it passes everything.
 */
static _Atomic(_Atomic uint32_t *) sentinel;
static _Atomic uint32_t plain;

static _Atomic int32_t settled_pid;
static _Atomic uint64_t self_id; /* 0: not worked out yet */
static _Atomic uint64_t job_id;

/* A vfork child shares our memory and our thread-local data, so only the kernel can tell. */
static pid_t current_pid(void)
{
	return (pid_t)syscall(SYS_getpid);
}

static TS_COLD _Atomic uint32_t *make_sentinel(void)
{
	int saved = errno;
	void *page = (void *)syscall(SYS_mmap, NULL, TS_PAGE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page != MAP_FAILED && madvise(page, TS_PAGE_BYTES, MADV_WIPEONFORK) != 0) {
		munmap(page, TS_PAGE_BYTES);
		page = MAP_FAILED;
	}
	errno = saved;
	return page == MAP_FAILED ? &plain : page;
}

TS_COLD void ts_identity_init(void)
{
	_Atomic uint32_t *mine, *none = NULL;

	if (ts_load_acquire(&sentinel))
		return;
	mine = make_sentinel();
	ts_store_relaxed(&settled_pid, current_pid());
	ts_store_relaxed(mine, 1);
	/* I1: pid and mark before the pointer; pairs with the loads of `sentinel`. */
	if (!ts_cas(&sentinel, &none, mine) && mine != &plain)
		syscall(SYS_munmap, mine, TS_PAGE_BYTES);
}

static inline _Atomic uint32_t *get_sentinel(void)
{
	_Atomic uint32_t *mark = ts_load_acquire(&sentinel);

	if (TS_UNLIKELY(!mark)) {
		ts_identity_init();
		mark = ts_load_acquire(&sentinel);
	}
	return mark;
}

void ts_identity_note_fork(void)
{
	_Atomic uint32_t *mark = ts_load_acquire(&sentinel);

	if (mark)
		ts_store_relaxed(mark, 0);
}

bool ts_identity_forked(void)
{
	return ts_load_relaxed(get_sentinel()) == 0;
}

enum ts_continuity ts_identity_check(void)
{
	if (TS_UNLIKELY(ts_load_relaxed(get_sentinel()) == 0))
		return TS_FORK_CHILD;
	if (TS_UNLIKELY(current_pid() != ts_load_relaxed(&settled_pid)))
		return TS_VFORK_CHILD;
	return TS_SAME_PROCESS;
}

struct stat_line {
	char state;
	uint64_t parent;
	uint64_t start; /* clock ticks since boot */
};

/* Next number of a space-separated list; -1 when there is none. */
static int take_number(const char **cursor, uint64_t *ret_value)
{
	const char *p = *cursor;
	uint64_t value = 0;

	while (*p == ' ')
		p++;
	if (*p == '-') /* some fields may be negative; their size does not matter here */
		p++;
	if (*p < '0' || *p > '9')
		return -1;
	for (; *p >= '0' && *p <= '9'; p++)
		value = value * 10 + (uint64_t)(*p - '0');
	*cursor = p;
	*ret_value = value;
	return 0;
}

/* proc_pid_stat(5): "pid (comm) state ppid ..."; comm may contain spaces and parentheses. */
static int read_stat(pid_t pid, struct stat_line *ret_line)
{
	struct stat_line line = {0};
	char path[32], text[512];
	uint64_t ignored;
	const char *p;
	int r;

	ts_format(path, sizeof(path), "/proc/%d/stat", (int)pid);
	r = ts_sys_read_file(path, text, sizeof(text));
	if (r < 0)
		return r;
	p = strrchr(text, ')');
	if (!p || p[1] != ' ' || !p[2])
		return -EBADMSG;
	line.state = p[2];
	p += 3;
	if (take_number(&p, &line.parent) < 0)
		return -EBADMSG;
	for (int field = 5; field < 22; field++)
		if (take_number(&p, &ignored) < 0)
			return -EBADMSG;
	if (take_number(&p, &line.start) < 0)
		return -EBADMSG;
	*ret_line = line;
	return 0;
}

uint64_t ts_process_id(pid_t pid, bool zombie_is_gone)
{
	struct stat_line line;
	int r;

	if (pid <= 0 || pid > 0xffffff)
		return 0;
	if (read_stat(pid, &line) == 0) {
		if (zombie_is_gone && (line.state == 'Z' || line.state == 'X'))
			return 0;
		return (line.start & ((UINT64_C(1) << 40) - 1)) << 24 | (uint64_t)pid;
	}
	r = ts_sys_kill(pid, 0);
	return r == 0 || r == -EPERM ? (uint64_t)pid : 0;
}

/* Whether @pid is an interpreter that Python's multiprocessing started to work for its parent. */
static bool is_multiprocessing_child(pid_t pid)
{
	static const char *const signs[] = {"--multiprocessing-fork", "multiprocessing.spawn",
		"multiprocessing.forkserver", "multiprocessing.resource_tracker"};
	char path[32], line[1024];
	int length;

	ts_format(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	length = ts_sys_read_file(path, line, sizeof(line));
	for (int i = 0; i < length; i++)
		if (line[i] == '\0')
			line[i] = ' ';
	for (size_t i = 0; length > 0 && i < TS_ARRAY_SIZE(signs); i++)
		if (strstr(line, signs[i]))
			return true;
	return false;
}

/* An orphan's parent is init or a reaper, which does not run the child's program. */
static bool same_program(pid_t a, pid_t b)
{
	struct stat first, second;
	char path[32];

	ts_format(path, sizeof(path), "/proc/%d/exe", (int)a);
	if (ts_sys_stat(path, &first) < 0)
		return false;
	ts_format(path, sizeof(path), "/proc/%d/exe", (int)b);
	if (ts_sys_stat(path, &second) < 0)
		return false;
	return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

/* The job of @pid: itself, or who it is a multiprocessing child of.  0 when @pid is gone. */
static uint64_t find_job(pid_t pid)
{
	struct stat_line line;

	for (int level = 0; level < MAX_LEVELS && is_multiprocessing_child(pid); level++) {
		if (read_stat(pid, &line) < 0 || line.parent == 0)
			break;
		if (!same_program(pid, (pid_t)line.parent))
			break;
		pid = (pid_t)line.parent;
	}
	return ts_process_id(pid, true);
}

uint64_t ts_identity_self(void)
{
	uint64_t id = ts_load_relaxed(&self_id);

	if (!id) {
		id = ts_process_id(current_pid(), false);
		ts_store_relaxed(&self_id, id);
	}
	return id;
}

uint64_t ts_identity_job(void)
{
	uint64_t id = ts_load_relaxed(&job_id);

	if (!id) {
		id = find_job(current_pid());
		if (!id)
			id = ts_identity_self();
		ts_store_relaxed(&job_id, id);
	}
	return id;
}

void ts_identity_settle(void)
{
	_Atomic uint32_t *mark = get_sentinel();
	pid_t before = ts_load_relaxed(&settled_pid);
	pid_t now = current_pid();

	if (before != now) {
		/* A fork child inherits the job, also one that its parent never asked for. */
		if (!ts_load_relaxed(&job_id))
			ts_store_relaxed(&job_id, find_job(before));
		ts_store_relaxed(&self_id, 0);
		ts_store_relaxed(&settled_pid, now);
	}
	ts_store_relaxed(mark, 1);
}
