/* SPDX-License-Identifier: MIT */
/*
 * tsshim-stager: what the library does in processes of their own (shim/helper.h), under the
 * name that it is started by.
 */
#include "leader/aside.h"
#include "leader/events/events.h"
#include "leader/files/stager.h"

#include <string.h>

/* The trainers come first. */
#define NICE 10

int main(int argc, char **argv)
{
	bool is_recorder = argc > 0 && strcmp(argv[0], TS_RECORDER_NAME) == 0;

	/* One that a person has started says so. */
	if (argc > 1)
		ts_aside_step(NICE);
	return is_recorder ? ts_recorder_main(argc, argv) : ts_stager_main(argc, argv);
}
