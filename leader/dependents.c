/* SPDX-License-Identifier: MIT */
/* What goes with a ring: each room's own way to stop using its object and to remove it. */
#include "leader/files/index.h"
#include "leader/slots/device_private.h"
#include "shim/sys.h"

static void remove_stage(const char *path)
{
	(void)ts_stage_remove(path, false, NULL);
}

static void remove_object(const char *path)
{
	ts_sys_unlink(path);
}

const struct ts_dependent ts_dependents[TS_DEPENDENTS] = {
	[TS_DEPENDENT_STAGE] = {.suffix = "stage", .remove = remove_stage},
	[TS_DEPENDENT_DEVICE] = {.suffix = "device",
		.stop = ts_device_stop,
		.remove = remove_object,
		.passes = true},
	[TS_DEPENDENT_JOURNAL] = {.suffix = "journal", .remove = remove_object},
	[TS_DEPENDENT_LOADERS] = {.suffix = "loaders",
		.remove = remove_object,
		.of_jobs = true},
	[TS_DEPENDENT_PEERS] = {.suffix = "peers", .remove = remove_object, .of_jobs = true},
	[TS_DEPENDENT_PLACES] = {.suffix = "places", .remove = remove_object, .of_jobs = true},
};
