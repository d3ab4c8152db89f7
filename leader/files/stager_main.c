/* SPDX-License-Identifier: MIT */
/*
 * tsshim-stager as a stager: copies one large file in the background and ends.  Started by the
 * library (leader/files/stager.c), never by a person:
 *
 *	tsshim-stager GROUP DATASET RING-BYTES ORIGINAL COPY BYTES OTHERS
 *
 * with the original as descriptor 3 and the locked .part as 4.  OTHERS is 1 where other nodes
 * are asked, else 0.
 */
#include "leader/files/stager.h"
#include "shim/helper.h"

#include <stdlib.h>
#include <unistd.h>

int ts_stager_main(int argc, char **argv)
{
	if (argc != 8) {
		static const char text[] = "tsshim-stager is started by libtsshim.so only\n";
		(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
		return 2;
	}
	const struct ts_stager_task task = {
		.group = argv[1],
		.dataset = argv[2],
		.ring_bytes = strtoull(argv[3], NULL, 10),
		.path = argv[4],
		.copy = argv[5],
		.bytes = strtoull(argv[6], NULL, 10),
		.asks_others = argv[7][0] == '1',
		.source = TS_HELPER_FD,
		.part = TS_HELPER_FD + 1,
	};
	return ts_stager_run(&task) == 0 ? 0 : 1;
}
