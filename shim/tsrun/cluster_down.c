/* SPDX-License-Identifier: MIT */
/* tsrun cluster down: ends this node's server; the directory stays. */
#include "shim/identity.h"
#include "shim/sys.h"
#include "shim/tsrun/cluster.h"
#include "shim/tsrun/message.h"
#include "shim/tsrun/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *what, int r)
{
	ts_message_say("%s: %s", what, strerror(-r));
	return TS_EXIT_FAILED;
}

static int report_none(const struct ts_cluster_order *order)
{
	printf("not up: no server of %s runs here\n", order->directory);
	return 0;
}

static int go_down(const struct ts_cluster_order *order, const struct ts_server_files *files)
{
	struct ts_server_record record;
	int r = ts_server_read_record(files, &record);

	if (r == -EINVAL)
		return fail(files->record, r);
	if (r < 0 || !ts_server_is_alive(files, &record)) {
		ts_server_remove_files(files, r == 0 ? &record : NULL);
		return report_none(order);
	}
	r = ts_server_end(files, &record);
	if (r < 0)
		return fail("the server cannot be ended", r);
	ts_server_remove_files(files, &record);
	printf("down: %s:%u, process %d\n", record.host, record.port,
		(int)TS_PROCESS_PID(record.process));
	return 0;
}

int ts_cluster_down(const struct ts_cluster_order *order)
{
	struct ts_server_files *files = calloc(1, sizeof(*files));
	int r = files ? ts_server_find_files(order->directory, files) : -ENOMEM;

	if (r < 0) {
		free(files);
		/* Not even what is above the directory is there, so no server can be. */
		return r == -ENOENT ? report_none(order) : fail(order->directory, r);
	}
	int lock = ts_server_lock(files);
	int status = lock < 0 ? fail(files->lock, lock) : go_down(order, files);
	if (lock >= 0)
		ts_sys_close(lock);
	free(files);
	return status;
}
