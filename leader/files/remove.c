/* SPDX-License-Identifier: MIT */
/* Removing a group's copies of files, and the index that knows them. */
#include "leader/files/index.h"

#include "shim/log.h"
#include "shim/sys.h"

#include <string.h>

/* Where the copies lie, if that is an index of ours at all. */
static int read_stem(struct ts_object *object, char stem[TS_STAGE_STEM])
{
	int r = ts_object_open(object);

	if (r < 0)
		return r;
	r = ts_stage_index_stem(object, stem);
	ts_object_close(object);
	return r;
}

/* Where copies in shared memory lie, for an index that does not tell: "<path>.stage". */
static void guess_stem(const char *path, char stem[TS_STAGE_STEM])
{
	size_t length = ts_format(stem, TS_STAGE_STEM, "%s", path);

	length -= ts_min_u64(length, strlen("stage"));
	ts_format(stem + length, TS_STAGE_STEM - length, "f.");
}

int ts_stage_remove(const char *path, bool dry_run, struct ts_stage_usage *ret_usage)
{
	struct ts_stage_usage usage = {.files = 0};
	struct ts_object object = {.fd = -1};
	char stem[TS_STAGE_STEM];

	ts_format(object.path, sizeof(object.path), "%s", path);
	int r = read_stem(&object, stem);
	if (r == -ENOENT || r == -EPERM)
		return r;
	if (r < 0)
		guess_stem(path, stem);
	ts_stage_remove_copies(stem, dry_run, &usage);
	if (ret_usage)
		*ret_usage = usage;
	if (dry_run)
		return 0;
	size_t end = strlen(stem);
	/* A directory of ours holds nothing else: "<directory>/f." */
	if (end > 3 && memcmp(stem + end - 3, "/f.", 3) == 0) {
		stem[end - 3] = '\0';
		(void)ts_sys_rmdir(stem);
	}
	(void)ts_sys_unlink(path);
	return 0;
}
