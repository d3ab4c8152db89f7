/* SPDX-License-Identifier: MIT */
/* Kill points of the test build: die or stop at a named step of the protocol. */
#include "leader/object/killpoint.h"

#ifdef TS_TEST_BUILD

#include "shim/atomic.h"
#include "shim/sys.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How often the awaited name was reached in this process (a fork inherits the count). */
static _Atomic uint32_t kill_count, stop_count;

/* Whether @setting, "<name>[:<count>]", names this visit of @name. */
static bool is_due(const char *setting, const char *name, _Atomic uint32_t *count)
{
	size_t length = strlen(name);

	if (!setting || strncmp(setting, name, length) != 0)
		return false;
	if (setting[length] != '\0' && setting[length] != ':')
		return false;
	uint32_t wanted = setting[length] == ':' ? (uint32_t)atoi(setting + length + 1) : 1;
	return ts_add_relaxed(count, 1) + 1 == wanted;
}

/* The environment is read at every visit, because tests set it between fork and attach. */
void ts_killpoint_reached(const char *name)
{
	if (is_due(getenv("TSSHIM_TEST_KILL"), name, &kill_count))
		ts_sys_kill(getpid(), SIGKILL);
	if (is_due(getenv("TSSHIM_TEST_STOP"), name, &stop_count))
		ts_sys_kill(getpid(), SIGSTOP);
}

#endif
