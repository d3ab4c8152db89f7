/* SPDX-License-Identifier: MIT */
/*
 * tsshim-stager: copies one large file in the background and ends.  Started by the library
 * (leader/files/stager.c), never by a person:
 *
 *	tsshim-stager GROUP DATASET RING-BYTES ORIGINAL COPY BYTES
 *
 * with the original as descriptor 3 and the locked .part as 4.
 */
#include "leader/files/stager.h"
#include "shim/helper.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* The trainers come first. */
#define NICE 10

/* The host's signals are blocked, and it may ignore what should end us. */
static void reset_signals(void)
{
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		(void)signal(i, SIG_DFL);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Not stopped or ended with the job's terminal, and in nobody's way: it may outlive the job. */
static void step_aside(void)
{
	const struct sched_param none = {.sched_priority = 0};

	(void)setsid();
	/* The host may run in real time, which a copy must not. */
	(void)sched_setscheduler(0, SCHED_OTHER, &none);
	(void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICE);
	if (chdir("/") < 0)
		_exit(1);
}

int main(int argc, char **argv)
{
	if (argc != 7) {
		static const char text[] = "tsshim-stager is started by libtsshim.so only\n";
		(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
		return 2;
	}
	reset_signals();
	step_aside();
	const struct ts_stager_task task = {
		.group = argv[1],
		.dataset = argv[2],
		.ring_bytes = strtoull(argv[3], NULL, 10),
		.path = argv[4],
		.copy = argv[5],
		.bytes = strtoull(argv[6], NULL, 10),
		.source = TS_HELPER_FD,
		.part = TS_HELPER_FD + 1,
	};
	return ts_stager_run(&task) == 0 ? 0 : 1;
}
