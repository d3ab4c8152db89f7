/* SPDX-License-Identifier: MIT */
/* Starting a program of ours that the host never notices. */
#include "shim/helper.h"

#include "shim/atomic.h"
#include "shim/elf.h"
#include "shim/log.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef TS_TEST_BUILD
#define TEST "-test"
#else
#define TEST ""
#endif

static const char *const names[] = {
#define TS_X(name, file) "/" file TEST,
	TS_HELPERS(TS_X)
#undef TS_X
};

#define NAME_BYTES 32

#define STACK_BYTES (UINT64_C(64) << 10)

/* execve(2) takes milliseconds, unless the file system of our library has stopped to answer. */
#define EXECUTE_MS 500
#define DEATH_MS   100
#define MS         UINT64_C(1000000)

/* Where descriptors wait until their numbers are free. */
#define FD_ABOVE (TS_HELPER_FD + TS_HELPER_FDS)

/* Settings of tests that a helper is told as well. */
#define SETTINGS_MAX 15

extern char **environ;

static char directory[PATH_MAX]; /* of our library and its helpers; empty: there are none */

/* One could not be executed in time, as the next one may not be: once is enough. */
static _Atomic bool has_given_up;

/** What the host and the two processes that share its memory for a moment know. */
struct start {
	char *program;
	char *const *arguments;
	const int *fds;
	int fd_count;
	char *stack; /* of the second one */
	int error;
};

/* ---- finding ---------------------------------------------------------------------------- */

/*
 * LD_PRELOAD may name the library relatively, and the program may go elsewhere: what the
 * kernel calls the directory is absolute and without links.
 */
static int find(const char *library, char path[PATH_MAX])
{
	char *named TS_SCRATCH = ts_scratch(), link[32];
	const char *slash = strrchr(library, '/');
	size_t length = slash ? (size_t)(slash - library) : 0;

	if (!named)
		return -ENOMEM;
	if (!slash || length + 2 > PATH_MAX)
		return -ENOENT;
	memcpy(named, library, length + 1);
	named[length + 1] = '\0';
	int fd = ts_sys_open(named, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	ts_format(link, sizeof(link), "/proc/self/fd/%d", fd);
	int r = ts_sys_readlink(link, path, PATH_MAX - NAME_BYTES);
	ts_sys_close(fd);
	return r < 0 ? r : 0;
}

void ts_helper_find(void)
{
	struct ts_elf_object self;
	char *program TS_SCRATCH = ts_scratch();
	struct stat st;

	if (!program || !ts_elf_containing((uintptr_t)ts_helper_find, &self) ||
		find(self.path, directory) < 0) {
		directory[0] = '\0';
		return;
	}
	/* Who has installed the library alone has none of them. */
	ts_format(program, PATH_MAX, "%s%s", directory, names[TS_HELPER_STAGER]);
	if (ts_sys_stat(program, &st) < 0 || !S_ISREG(st.st_mode))
		directory[0] = '\0';
}

bool ts_helper_is_possible(void)
{
	int reaper = 0, saved = errno;

	if (directory[0] == '\0' || getpid() == 1 || ts_load_relaxed(&has_given_up))
		return false;
	int r = prctl(PR_GET_CHILD_SUBREAPER, &reaper);
	errno = saved;
	return r == 0 && reaper == 0;
}

/* ---- starting --------------------------------------------------------------------------- */

/* What follows changes errno, also in the two processes: ts_helper_start() keeps it. */

/* Linux 5.9 closes them at once; older ones are asked which there are. */
static void close_from(int first)
{
	_Alignas(uint64_t) char buffer[512];
	int64_t bytes;

#ifdef SYS_close_range
	if (syscall(SYS_close_range, (unsigned)first, ~0u, 0) == 0)
		return;
#endif
	int list = ts_sys_open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	while (list >= 0 && (bytes = ts_sys_list(list, buffer, sizeof(buffer))) > 0) {
		/* As getdents64(2) writes it: inode, offset, length of the entry, type, name.
		 */
		for (int64_t at = 0; at < bytes;) {
			uint16_t length;
			int fd = 0;
			memcpy(&length, buffer + at + 16, sizeof(length));
			const char *name = buffer + at + 19;
			while (*name >= '0' && *name <= '9')
				fd = fd * 10 + (*name++ - '0');
			if (fd >= first && fd != list)
				ts_sys_close(fd);
			at += length;
		}
	}
	/* O_CLOEXEC ends the list itself. */
}

/* What holds somebody's pipe open would keep its reader from seeing the end. */
static int arrange(const int *fds, int count)
{
	int moved[TS_HELPER_FDS], r = 0;

	for (int i = 0; i < count; i++) {
		moved[i] = ts_sys_fcntl(fds[i], F_DUPFD, (void *)(intptr_t)FD_ABOVE);
		if (moved[i] < 0)
			return moved[i];
	}
	int null = ts_sys_open("/dev/null", O_RDWR, 0);
	for (int i = 0; i < TS_HELPER_FD; i++) {
		/* Without /dev/null they are closed; dup3 refuses to copy onto itself. */
		if (null < 0)
			ts_sys_close(i);
		else if (null != i)
			(void)ts_sys_dup3(null, i, 0);
	}
	for (int i = 0; i < count && r >= 0; i++)
		r = ts_sys_dup3(moved[i], TS_HELPER_FD + i, 0);
	close_from(TS_HELPER_FD + count);
	return r < 0 ? r : 0;
}

static void choose_environment(char *ret_environment[SETTINGS_MAX + 1])
{
	int count = 0;

#ifdef TS_TEST_BUILD
	for (char **entry = environ; entry && *entry && count < SETTINGS_MAX; entry++)
		if (strncmp(*entry, "TSSHIM_TEST_", 12) == 0)
			ret_environment[count++] = *entry;
#endif
	ret_environment[count] = NULL;
}

/*
 * The host's thread waits until we have executed the helper or are gone, so we go in time.
 * SIGALRM has its default action here and nowhere else: the table of actions is our own, timers
 * are not inherited, and execve(2) removes them.  Where there is no timer we go without.
 */
static void end_in_time(void)
{
	const uint64_t action[8] = {0}, mask = UINT64_C(1) << (SIGALRM - 1);
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
	const struct itimerspec time = {.it_value = {.tv_nsec = EXECUTE_MS * (long)MS}};
	int timer;

	if (syscall(SYS_rt_sigaction, SIGALRM, action, NULL, sizeof(mask)) == 0 &&
		syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) == 0 &&
		syscall(SYS_timer_settime, timer, 0, &time, NULL) == 0)
		syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &mask, NULL, sizeof(mask));
}

/* Storage that does not answer, for tests. */
static void hang_if_told(char *const environment[])
{
#ifdef TS_TEST_BUILD
	for (; *environment; environment++)
		while (strcmp(*environment, "TSSHIM_TEST_HELPER_HANGS=1") == 0)
			syscall(SYS_ppoll, NULL, 0, NULL, NULL, 8);
#else
	(void)environment;
#endif
}

/* In the host's memory, whose thread waits: nothing but system calls from here on. */
static int become_helper(void *data)
{
	struct start *start = data;
	char *environment[SETTINGS_MAX + 1];

	choose_environment(environment);
	end_in_time();
	int r = arrange(start->fds, start->fd_count);
	if (r == 0) {
		hang_if_told(environment);
		syscall(SYS_execve, start->program, start->arguments, environment);
		r = -errno;
	}
	start->error = r;
	return 1;
}

/* Signal 0 at the end: the parent is not told, and only __WCLONE finds it. */
static int clone_sharing(int (*run)(void *data), char *stack, struct start *start)
{
	int pid = clone(run, stack + STACK_BYTES, CLONE_VM | CLONE_VFORK, start);

	return pid < 0 ? -errno : pid;
}

/*
 * Whether the helper @pid, begun at @begin, has died of its timer.  We were let go when it left
 * the memory, and it can be waited for a moment later.
 */
static bool has_run_out_of_time(int pid, uint64_t begin)
{
	uint32_t never_woken = 0;
	int status = 0;
	long r = 0;

	if (ts_now_ns() - begin < EXECUTE_MS * MS)
		return false;
	for (int i = 0; i < DEATH_MS && r == 0; i++) {
		r = syscall(SYS_wait4, pid, &status, WNOHANG | __WCLONE, NULL);
		if (r == 0)
			ts_sys_futex_wait(&never_woken, 0, MS);
	}
	return r == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
}

static int run_middle(void *data)
{
	struct start *start = data;
	uint64_t begin = ts_now_ns();
	int r = clone_sharing(become_helper, start->stack, start);

	if (r < 0)
		start->error = r;
	else if (has_run_out_of_time(r, begin))
		start->error = -ETIMEDOUT;
	return 0;
}

static int start_blocked(struct start *start, char *stacks)
{
	const uint64_t all = UINT64_MAX;
	uint64_t before;

	/* The C library's own as well: a handler would run in memory that two share. */
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
	int middle = clone_sharing(run_middle, stacks, start);
	if (middle > 0) /* a program that waits for children of any kind may have been faster */
		syscall(SYS_wait4, middle, NULL, __WCLONE, NULL);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
	return middle < 0 ? middle : start->error;
}

int ts_helper_start(enum ts_helper which, char *const arguments[], const int *fds, int count)
{
	char *program TS_SCRATCH = ts_scratch();
	struct start start = {
		.program = program, .arguments = arguments, .fds = fds, .fd_count = count};
	int saved = errno;

	if (!ts_helper_is_possible())
		return -ENOENT;
	if (!program)
		return -ENOMEM;
	ts_format(program, PATH_MAX, "%s%s", directory, names[which]);
	char *stacks = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	int r = -ENOMEM;
	if (stacks != MAP_FAILED) {
		start.stack = stacks + STACK_BYTES;
		r = start_blocked(&start, stacks);
		munmap(stacks, 2 * STACK_BYTES);
	}
	if (r == -ETIMEDOUT)
		ts_write_relaxed(&has_given_up, true);
	errno = saved;
	return r;
}
