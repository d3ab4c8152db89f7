/* SPDX-License-Identifier: MIT */
/*
 * tsshim-stager as a recorder: writes the event log of a group while a job lives, and ends.
 * Started by the library (leader/events/begin.c), never by a person:
 *
 *	tsshim-recorder GROUP JOB STARTER FILE MAKE-DIRECTORIES
 *
 * with JOB and STARTER as ts_process_id() has them.
 */
#include "leader/events/events.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

/* Whether a second ends sooner or later does not matter; that few timers expire does. */
#define SLACK_NS 50000000UL

int ts_recorder_main(int argc, char **argv)
{
	if (argc != 6)
		return 2;
	const struct ts_recorder_task task = {
		.group = argv[1],
		.job = strtoull(argv[2], NULL, 10),
		.starter = strtoull(argv[3], NULL, 10),
		.path = argv[4],
		.make_directories = strcmp(argv[5], "1") == 0,
	};
	(void)prctl(PR_SET_NAME, TS_RECORDER_NAME);
	(void)prctl(PR_SET_TIMERSLACK, SLACK_NS);
	return ts_recorder_run(&task) == 0 ? 0 : 1;
}
