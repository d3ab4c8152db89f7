/* SPDX-License-Identifier: MIT */
/* Handing a large file to a stager in the background: what the host's thread does for it. */
#include "leader/files/stager.h"

#include "leader/files/index_private.h"
#include "leader/files/stage_private.h"
#include "shim/config.h"
#include "shim/helper.h"
#include "shim/identity.h"
#include "shim/log.h"
#include "shim/sys.h"

#include <fcntl.h>

/* A process 1 that is the job would find the stager among its children, were it started by a
 * worker. */
static bool is_possible(void)
{
	return ts_helper_is_possible() && TS_PROCESS_PID(ts_identity_job()) != 1;
}

bool ts_stager_has_slot(struct ts_stage *stage, int command)
{
	int fd = ts_object_fd(&stage->index.object, NULL);

	for (int i = 0; fd >= 0 && i < TS_STAGER_SLOTS; i++) {
		struct flock lock = {
			.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = i, .l_len = 1};
		if (ts_sys_fcntl(fd, command, &lock) == 0 &&
			(command == F_OFD_SETLK || lock.l_type == F_UNLCK))
			return true;
	}
	return false;
}

static bool is_paused(const struct ts_stage *stage)
{
	return ts_now_ns() < ts_load_relaxed(&stage->index.head->stager_pause);
}

static void pause_all(struct ts_stage *stage)
{
	ts_write_relaxed(&stage->index.head->stager_pause, ts_now_ns() + TS_STAGER_PAUSE_NS);
}

/* NEW -> GROWING, unless it is further already. */
static int take_room(struct ts_stage *stage, int part, uint64_t bytes)
{
	struct stat st;
	int r = ts_sys_fstat(part, &st);

	if (r < 0 || st.st_size != 0)
		return r;
	if (!ts_limits_allow_file(bytes + TS_STAGER_MARK))
		return -ENOSPC;
	r = ts_stage_admit(stage, bytes);
	if (r < 0)
		return r;
	TS_KILLPOINT(stager_admitted);
	r = ts_sys_ftruncate(part, bytes + TS_STAGER_MARK);
	if (r < 0)
		ts_stage_index_return(&stage->index, bytes);
	TS_KILLPOINT(stager_sized);
	return r;
}

int ts_stager_take(struct ts_stage *stage, const struct ts_stage_source *source,
	const char *path, int *ret_part)
{
	char part_path[TS_STAGE_PATH];
	int part;

	ts_format(part_path, sizeof(part_path), "%s.part", path);
	int r = ts_stage_take_part(part_path, path, &part);
	if (r < 0)
		return r;
	r = take_room(stage, part, (uint64_t)source->stat->st_size);
	if (r < 0) {
		(void)ts_sys_unlink(part_path);
		ts_stage_release_part(part);
		return r;
	}
	*ret_part = part;
	return 0;
}

static int start(const struct ts_stage_source *source, const char *path, int part)
{
	const struct ts_config *config = ts_config();
	const int fds[] = {source->fd, part};
	char ring[24], bytes[24];

	ts_format(ring, sizeof(ring), "%llu", (unsigned long long)config->ring_bytes);
	ts_format(bytes, sizeof(bytes), "%llu", (unsigned long long)source->stat->st_size);
	/* In the order of stager_main.c. */
	char *const arguments[] = {(char *)"tsshim-stager", (char *)config->group,
		(char *)config->dataset, ring, (char *)source->path, (char *)path, bytes,
		(char *)(config->cluster ? "1" : "0"), NULL};
	return ts_helper_start(TS_HELPER_STAGER, arguments, fds, TS_ARRAY_SIZE(fds));
}

int ts_stager_begin(
	struct ts_stage *stage, const struct ts_stage_source *source, const char *path)
{
	int part;

	if (!is_possible() || is_paused(stage) || !ts_stager_has_slot(stage, F_OFD_GETLK))
		return -EFBIG;
	int r = ts_stager_take(stage, source, path, &part);
	if (r < 0)
		return r == -EBUSY ? -EFBIG : r;
	ts_stage_call_helper(stage);
	r = start(source, path, part);
	if (r < 0) {
		/* The .part stays for who can; it takes no memory yet, only its room. */
		pause_all(stage);
		ts_stage_release_part(part);
		return -EFBIG;
	}
	TS_KILLPOINT(stager_started);
	/* Not unlocked: the lock is the stager's now. */
	ts_sys_close(part);
	return -EFBIG;
}
