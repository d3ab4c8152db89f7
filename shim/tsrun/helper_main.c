/* SPDX-License-Identifier: MIT */
/*
 * tsshim-stager: what the library does in processes of their own (shim/helper.h), under the
 * name that it is started by.
 */
#include "leader/background.h"
#include "leader/events/events.h"
#include "leader/files/stager.h"
#include "leader/group/left.h"
#include "shim/tsrun/log_recorder.h"

#include <string.h>

/* The trainers come first. */
#define NICE 10

int main(int argc, char **argv)
{
	bool is_recorder = argc > 0 && strcmp(argv[0], TS_RECORDER_NAME) == 0;

	/* One that a person has started says so. */
	if (argc > 1)
		ts_background_enter(NICE);
	int status = is_recorder ? ts_recorder_main(argc, argv) : ts_stager_main(argc, argv);
	/* Our last job may have been killed.  A stager has left its own group's ring already.
	 */
	if (argc > 1)
		ts_left_remove(is_recorder ? NULL : argv[1], TS_LEFT_ALL);
	return status;
}
