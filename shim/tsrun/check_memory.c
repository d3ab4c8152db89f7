/* SPDX-License-Identifier: MIT */
/* Checks of `tsrun doctor`: shared memory, and the limits that the ring has to fit into. */
#include "leader/group/store_private.h"
#include "leader/object/limits.h"
#include "shim/sys.h"
#include "shim/tsrun/check.h"
#include "shim/tsrun/gc.h"
#include "shim/tsrun/names.h"
#include "shim/tsrun/units.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* What loaders with workers and the hand-over of batches want (docs/rooms/torch.md). */
#define FILES_MIN 1024u

/* The first version of the memory controller writes "no limit" as a number beyond this. */
#define NO_LIMIT (UINT64_C(1) << 60)

/* Open the directory of shared memory; < 0 after a finding. */
static int open_directory(struct ts_check *check)
{
	struct ts_names names;

	int fd = ts_names_init(&names);
	if (fd == 0)
		fd = ts_sys_open(names.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (fd < 0) {
		ts_check_find(check, TS_CHECK_FAIL, "%s cannot be opened: %s", TS_SHM_DIR,
			strerror(-fd));
		ts_check_advise(
			check, "mount -t tmpfs tmpfs %s -o mode=1777 (as root)", TS_SHM_DIR);
	}
	return fd;
}

void ts_check_shm_type(const struct ts_check_scene *scene, struct ts_check *check)
{
	uint64_t type;

	(void)scene;
	int fd = open_directory(check);
	if (fd < 0)
		return;
	int r = ts_sys_file_system(fd, &type);
	ts_sys_close(fd);
	if (r < 0) {
		ts_check_find(check, TS_CHECK_ABSENT, "the kind of %s cannot be seen: %s",
			TS_SHM_DIR, strerror(-r));
	} else if (type == TMPFS_MAGIC) {
		ts_check_find(check, TS_CHECK_OK, "%s is a tmpfs", TS_SHM_DIR);
	} else {
		ts_check_find(check, TS_CHECK_WARN,
			"%s is no tmpfs (file system 0x%llx): shared memory may be written "
			"to a disk",
			TS_SHM_DIR, (unsigned long long)type);
		ts_check_advise(
			check, "mount -t tmpfs tmpfs %s -o mode=1777 (as root)", TS_SHM_DIR);
	}
}

/* Whether a file can be made there; the file never has a name.  Errors: those of open(2). */
static int try_file(int directory)
{
	int fd = openat(directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0)
		return close(fd);
	if (errno == EOPNOTSUPP || errno == EISDIR) /* not every file system has such files */
		return faccessat(directory, ".", W_OK | X_OK, AT_EACCESS) < 0 ? -errno : 0;
	return -errno;
}

void ts_check_shm_access(const struct ts_check_scene *scene, struct ts_check *check)
{
	struct stat st;

	(void)scene;
	int fd = open_directory(check);
	if (fd < 0)
		return;
	int r = fstat(fd, &st) < 0 ? -errno : try_file(fd);
	(void)close(fd);
	if (r < 0) {
		ts_check_find(check, TS_CHECK_FAIL, "no file can be made in %s: %s", TS_SHM_DIR,
			strerror(-r));
		ts_check_advise(
			check, "it must be mounted read-write, with mode 1777 or yours");
		return;
	}
	ts_check_find(check, TS_CHECK_OK, "files can be made in %s, mode %04o", TS_SHM_DIR,
		(unsigned)st.st_mode & 07777);
	if ((st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX)) {
		ts_check_find(check, TS_CHECK_WARN,
			"it is not sticky: others may remove what your jobs share");
		ts_check_advise(check, "chmod 1777 %s (as root)", TS_SHM_DIR);
	}
}

/*
 * Judge @room, the most that a ring may have for one reason, against what is asked for; @what
 * says the reason.  Returns whether the ring will be as large as that.
 */
static bool judge_room(const struct ts_check_scene *scene, struct ts_check *check,
	uint64_t room, const char *what)
{
	char asked[TS_UNITS_BYTES], given[TS_UNITS_BYTES];
	struct ts_shape shape;
	uint64_t wanted = scene->config.ring_bytes;

	ts_units_size(wanted, asked);
	if (wanted == 0) {
		ts_check_find(
			check, TS_CHECK_ABSENT, "%s; a ring of size 0 was asked for", what);
		return true;
	}
	if (ts_limits_shape(ts_min_u64(wanted, room), &shape) < 0) {
		ts_check_find(check, TS_CHECK_FAIL,
			"%s, of which a ring may have %s: too little for any, so nothing is "
			"shared",
			what, ts_units_size(room, given));
		return false;
	}
	if (room < wanted) {
		ts_check_find(check, TS_CHECK_WARN, "%s, so the ring has %s instead of %s",
			what, ts_units_size(room, given), asked);
		return false;
	}
	ts_check_find(check, TS_CHECK_OK, "%s: the ring may have all of its %s", what, asked);
	return true;
}

/* A quarter of what is free there; 0 where that cannot be seen. */
static uint64_t shm_room(int directory)
{
	uint64_t free_bytes;

	if (ts_sys_free_bytes(directory, &free_bytes) < 0)
		return 0;
	return free_bytes / 100 * TS_LIMITS_TMPFS_PERCENT +
	       free_bytes % 100 * TS_LIMITS_TMPFS_PERCENT / 100;
}

void ts_check_shm_room(const struct ts_check_scene *scene, struct ts_check *check)
{
	char text[128], size[TS_UNITS_BYTES], rest[TS_UNITS_BYTES];
	struct statvfs fs;

	int fd = open_directory(check);
	if (fd < 0)
		return;
	int r = fstatvfs(fd, &fs) < 0 ? -errno : 0;
	uint64_t room = shm_room(fd);
	(void)close(fd);
	if (r < 0) {
		ts_check_find(check, TS_CHECK_ABSENT, "the size of %s cannot be seen: %s",
			TS_SHM_DIR, strerror(-r));
		return;
	}
	(void)snprintf(text, sizeof(text), "%s of %s in %s is free",
		ts_units_size((uint64_t)fs.f_bavail * fs.f_frsize, rest),
		ts_units_size((uint64_t)fs.f_blocks * fs.f_frsize, size), TS_SHM_DIR);
	if (!judge_room(scene, check, room, text))
		ts_check_advise(check,
			"the ring takes %u %% of what is free: docker run --shm-size=SIZE, an "
			"emptyDir with a larger sizeLimit, or mount -o remount,size=SIZE %s "
			"(as "
			"root)",
			TS_LIMITS_TMPFS_PERCENT, TS_SHM_DIR);
}

void ts_check_memory(const struct ts_check_scene *scene, struct ts_check *check)
{
	char text[128], size[TS_UNITS_BYTES];
	uint64_t left = ts_limits_cgroup("/proc/self/cgroup", "/sys/fs/cgroup");

	if (left >= NO_LIMIT) {
		ts_check_find(check, TS_CHECK_OK, "no memory limit of a control group is seen");
		return;
	}
	int fd = open_directory(check);
	if (fd < 0)
		return;
	/* The share of the group is whatever is less than what all else allows. */
	uint64_t room = ts_limits_machine(fd, 0);
	uint64_t others = ts_min_u64(shm_room(fd), ts_limits_address_space());
	(void)close(fd);
	(void)snprintf(text, sizeof(text), "the control group leaves %s of memory",
		ts_units_size(left, size));
	if (room >= others)
		ts_check_find(check, TS_CHECK_OK, "%s: that does not limit the ring", text);
	else if (!judge_room(scene, check, room, text))
		ts_check_advise(check, "a higher memory limit: Slurm --mem, docker --memory, "
				       "limits.memory of a pod");
}

void ts_check_sizes(const struct ts_check_scene *scene, struct ts_check *check)
{
	char text[128], size[TS_UNITS_BYTES];
	uint64_t wanted = scene->config.ring_bytes, room = ts_limits_address_space();
	struct rlimit limit;

	if (room == UINT64_MAX) {
		ts_check_find(check, TS_CHECK_OK, "address space is not limited");
	} else {
		(void)getrlimit(RLIMIT_AS, &limit);
		(void)snprintf(text, sizeof(text), "address space is limited to %s",
			ts_units_size(limit.rlim_cur, size));
		if (!judge_room(scene, check, room, text))
			ts_check_advise(check, "ulimit -v unlimited");
	}
	if (ts_limits_allow_file(wanted)) {
		ts_check_find(check, TS_CHECK_OK, "files may be as large as the ring");
		return;
	}
	(void)getrlimit(RLIMIT_FSIZE, &limit);
	ts_check_find(check, TS_CHECK_FAIL,
		"files may have %s only, and the ring is one: nothing is shared",
		ts_units_size(limit.rlim_cur, size));
	ts_check_advise(check, "ulimit -f unlimited, or --ring with less");
}

void ts_check_memlock(const struct ts_check_scene *scene, struct ts_check *check)
{
	char size[TS_UNITS_BYTES];
	struct rlimit limit;

	(void)scene;
	if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
		ts_check_find(check, TS_CHECK_ABSENT, "the limit cannot be read: %s",
			strerror(errno));
	else if (limit.rlim_cur == RLIM_INFINITY)
		ts_check_find(check, TS_CHECK_OK, "any memory may be locked");
	else
		ts_check_find(check, TS_CHECK_OK,
			"%s may be locked (ulimit -l); tsshim locks no memory",
			ts_units_size(limit.rlim_cur, size));
}

void ts_check_files(const struct ts_check_scene *scene, struct ts_check *check)
{
	struct rlimit limit;

	(void)scene;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
		ts_check_find(check, TS_CHECK_ABSENT, "the limit cannot be read: %s",
			strerror(errno));
		return;
	}
	bool enough = limit.rlim_cur >= FILES_MIN;
	ts_check_find(check, enough ? TS_CHECK_OK : TS_CHECK_WARN, "%llu files may be open%s",
		(unsigned long long)limit.rlim_cur,
		enough ? "" : ": few for loaders with workers, which hand over less in memory");
	if (!enough)
		ts_check_advise(check, "ulimit -n %u or more", FILES_MIN);
}

void ts_check_leftovers(const struct ts_check_scene *scene, struct ts_check *check)
{
	struct ts_gc_tally all = {.objects = 0}, dead = {.objects = 0};
	char size[TS_UNITS_BYTES];

	(void)scene;
	int r = ts_gc_count(false, &all);
	if (r == 0)
		r = ts_gc_count(true, &dead);
	if (r < 0) {
		ts_check_find(check, TS_CHECK_ABSENT, "the shared memory cannot be listed: %s",
			strerror(-r));
		return;
	}
	if (dead.objects > 0) {
		ts_check_find(check, TS_CHECK_WARN, "%u object%s of dead jobs, %s, in %s",
			dead.objects, dead.objects == 1 ? "" : "s",
			ts_units_size(dead.bytes, size), TS_SHM_DIR);
		ts_check_advise(check, "tsrun gc");
	} else {
		ts_check_find(check, TS_CHECK_OK, "no memory of dead jobs is left");
	}
	if (all.objects > dead.objects)
		ts_check_find(check, TS_CHECK_OK, "%u more %s kept (--keep)",
			all.objects - dead.objects,
			all.objects - dead.objects == 1 ? "is" : "are");
	if (dead.ledgers > 0)
		ts_check_find(check, TS_CHECK_OK, "counters of %u group%s without jobs",
			dead.ledgers, dead.ledgers == 1 ? "" : "s");
}
