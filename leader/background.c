/* SPDX-License-Identifier: MIT */
/* Out of the job's way: leader/background.h explains it. */
#include "leader/background.h"

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

/* The host's signals are blocked, and it may ignore what should end us. */
static void reset_signals(void)
{
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		(void)signal(i, SIG_DFL);
	(void)signal(SIGPIPE, SIG_IGN);
	/* A limit of the host's for files is an error of write(2). */
	(void)signal(SIGXFSZ, SIG_IGN);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

void ts_background_enter(int nice)
{
	const struct sched_param none = {.sched_priority = 0};

	reset_signals();
	/* Not stopped or ended with the job's terminal. */
	(void)setsid();
	/* The host may run in real time, which we must not. */
	(void)sched_setscheduler(0, SCHED_OTHER, &none);
	(void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + nice);
	if (chdir("/") < 0)
		_exit(1);
}
