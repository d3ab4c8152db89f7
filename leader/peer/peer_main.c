/* SPDX-License-Identifier: MIT */
/*
 * tsshim-peer: leader/peer/peer.h.  Started by the library, never by a person:
 *
 *	tsshim-peer GROUP RING-BYTES CLUSTER-DIRECTORY STAGE-BYTES
 */
#include "leader/background.h"
#include "leader/group/left.h"
#include "leader/peer/peer.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* A limit of 0 does not hold where a program takes the core, but an empty one says nothing. */
static void leave_no_core(void)
{
	const struct rlimit none = {0, 0};
	int fd = ts_sys_open("/proc/self/coredump_filter", O_WRONLY | O_CLOEXEC, 0);

	(void)setrlimit(RLIMIT_CORE, &none);
	if (fd < 0)
		return;
	(void)ts_sys_write(fd, "0", 1);
	ts_sys_close(fd);
}

/* A connection to each server, and files. */
static void have_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		static const char text[] = "tsshim-peer is started by libtsshim.so only\n";
		(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
		return 2;
	}
	const struct ts_peer_task task = {
		.group = argv[1],
		.ring_bytes = strtoull(argv[2], NULL, 10),
		.directory = argv[3],
		.stage_bytes = strtoull(argv[4], NULL, 10),
	};
	/* Not less urgent than the trainers, which wait for it. */
	ts_background_enter(0);
	leave_no_core();
	have_descriptors();
	int r = ts_peer_run(&task);
	/* Our own group's ring we have left; the last jobs of others may have been killed. */
	ts_left_remove(task.group, TS_LEFT_ALL);
	return r == 0 ? 0 : 1;
}
