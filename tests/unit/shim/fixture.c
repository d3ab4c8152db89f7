/* SPDX-License-Identifier: MIT */
/* What the unit tests of shim/ and of the session need: a group of their own, and children. */
#include "fixture.h"

#include "leader/group/attach.h"
#include "leader/group/store_private.h"
#include "shim/identity.h"
#include "tests/unit/own_shm.h"

#include <limits.h>
#include <sys/prctl.h>

static char group[32];

void fixture_init(void)
{
	snprintf(group, sizeof(group), "shim-%d", (int)getpid());
	cr_assert(own_shm_begin());
	setenv("TSSHIM_GROUP", group, 1);
	setenv("TSSHIM_RING", "8M", 1);
	ts_identity_init();
}

void fixture_finish(void)
{
	ts_session_finish();
	own_shm_end();
}

const struct ts_session *fixture_enter(void)
{
	enum ts_reason reason = TS_REASON_COUNT;
	const struct ts_session *session = ts_session_enter(&reason);

	cr_assert(session != NULL, "reason %d", (int)reason);
	return session;
}

struct ts_ledger *fixture_ledger(void)
{
	return ts_store_ledger(fixture_enter()->store);
}

int fixture_catch_stderr(void)
{
	int ends[2];

	cr_assert(eq(int, pipe2(ends, O_NONBLOCK), 0));
	dup2(ends[1], 2);
	close(ends[1]);
	return ends[0];
}

int fixture_lines(int end)
{
	char text[4096];
	int lines = 0;
	ssize_t n = read(end, text, sizeof(text));

	for (ssize_t i = 0; i < n; i++)
		lines += text[i] == '\n';
	return lines;
}

void fixture_end_with_parent(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

int fixture_wait(int pid)
{
	int status = -1;

	cr_assert(eq(int, waitpid(pid, &status, 0), pid));
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int fixture_fork(int (*body)(void))
{
	pid_t pid = fork();

	cr_assert(ge(int, pid, 0));
	if (pid == 0)
		_exit(body());
	return fixture_wait(pid);
}

const char *fixture_program(const char *name)
{
	static char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

	cr_assert(gt(int, (int)length, 0));
	path[length] = '\0';
	char *last = strrchr(path, '/') + 1;
	snprintf(last, (size_t)(path + sizeof(path) - last), "%s", name);
	return path;
}
