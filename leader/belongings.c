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

const struct ts_belonging ts_belongings[TS_BELONGINGS] = {
	[TS_BELONGING_STAGE] = {.suffix = "stage", .remove = remove_stage},
	[TS_BELONGING_DEVICE] = {.suffix = "device",
		.stop = ts_device_stop,
		.remove = remove_object,
		.passes = true},
	[TS_BELONGING_JOURNAL] = {.suffix = "journal", .remove = remove_object},
	[TS_BELONGING_LOADERS] = {.suffix = "loaders",
		.remove = remove_object,
		.of_jobs = true},
	[TS_BELONGING_PEERS] = {.suffix = "peers", .remove = remove_object, .of_jobs = true},
	[TS_BELONGING_PLACES] = {.suffix = "places", .remove = remove_object, .of_jobs = true},
};
