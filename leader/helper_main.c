/* SPDX-License-Identifier: MIT */
/*
 * tsshim-stager: what the library does in processes of their own (shim/helper.h), under the
 * name that it is started by.
 */
#include "leader/events/events.h"
#include "leader/files/stager.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
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
	/* A limit of the host's for files is an error of write(2). */
	(void)signal(SIGXFSZ, SIG_IGN);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Not stopped or ended with the job's terminal, and in nobody's way: it may outlive the job. */
static void step_aside(void)
{
	const struct sched_param none = {.sched_priority = 0};

	(void)setsid();
	/* The host may run in real time, which we must not. */
	(void)sched_setscheduler(0, SCHED_OTHER, &none);
	(void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICE);
	if (chdir("/") < 0)
		_exit(1);
}

int main(int argc, char **argv)
{
	bool is_recorder = argc > 0 && strcmp(argv[0], TS_RECORDER_NAME) == 0;

	/* One that a person has started says so. */
	if (argc > 1) {
		reset_signals();
		step_aside();
	}
	return is_recorder ? ts_recorder_main(argc, argv) : ts_stager_main(argc, argv);
}
