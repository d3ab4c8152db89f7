/* SPDX-License-Identifier: MIT */
/* Checks of `tsrun doctor`: whether this is the node or a container, and what GPUs it has. */
#include "leader/object/object.h"
#include "shim/sys.h"
#include "shim/tsrun/check.h"
#include "shim/tsrun/find.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where the kernel's first namespaces have their numbers from: include/linux/proc_ns.h. */
#define FIRST_IPC  UINT64_C(0xEFFFFFFF)
#define FIRST_USER UINT64_C(0xEFFFFFFD)
#define FIRST_PID  UINT64_C(0xEFFFFFFC)

#define DRIVER_PLACE "/proc/driver/nvidia"

/* The number of a namespace, "user:[4026531837]"; 0 where it cannot be seen. */
static uint64_t namespace_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

void ts_check_namespaces(const struct ts_check_scene *scene, struct ts_check *check)
{
	uint64_t user = namespace_of("/proc/self/ns/user");
	uint64_t pid = namespace_of("/proc/self/ns/pid");

	(void)scene;
	if (user == 0 || pid == 0) {
		ts_check_find(check, TS_CHECK_FAIL,
			"/proc/self/ns cannot be read: the namespaces of jobs are not "
			"known, and nothing is shared");
		ts_check_advise(check, "mount -t proc proc /proc (as root)");
		return;
	}
	if (pid != FIRST_PID)
		ts_check_find(check, TS_CHECK_WARN,
			"a PID namespace of its own (a container): jobs inside share with one "
			"another only");
	if (user != FIRST_USER)
		ts_check_find(check, TS_CHECK_WARN,
			"a user namespace of its own: jobs inside share with one another only");
	if (check->state == TS_CHECK_WARN)
		ts_check_advise(check, "all jobs in one container, or containers with "
				       "--pid=host --ipc=host and "
				       "no user namespace (docs/cluster.md)");
	else
		ts_check_find(
			check, TS_CHECK_OK, "user and PID namespace are those of the node");
}

/* Compare with what process 1 of the node sees; nearly always only root may. */
static void compare_with_first(struct ts_check *check)
{
	struct stat ours, theirs;

	if (stat(TS_SHM_DIR, &ours) < 0) {
		ts_check_find(check, TS_CHECK_ABSENT, "there is no %s", TS_SHM_DIR);
	} else if (stat("/proc/1/root" TS_SHM_DIR, &theirs) < 0) {
		ts_check_find(check, TS_CHECK_ABSENT,
			"whether others see this %s cannot be seen: /proc/1: %s", TS_SHM_DIR,
			strerror(errno));
	} else if (ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino) {
		ts_check_find(
			check, TS_CHECK_OK, "%s is the one that process 1 has", TS_SHM_DIR);
	} else {
		ts_check_find(check, TS_CHECK_WARN,
			"%s is another one than process 1 has: only jobs that see this one "
			"share",
			TS_SHM_DIR);
		ts_check_advise(check,
			"docker run --ipc=host; Slurm: take /dev/shm out of Dirs "
			"in job_container.conf (docs/cluster.md)");
	}
}

void ts_check_shm_shared(const struct ts_check_scene *scene, struct ts_check *check)
{
	uint64_t ipc = namespace_of("/proc/self/ns/ipc");

	(void)scene;
	if (namespace_of("/proc/self/ns/pid") == FIRST_PID)
		compare_with_first(check);
	else
		ts_check_find(check, TS_CHECK_ABSENT,
			"whether other containers see this %s cannot be seen from inside a PID "
			"namespace",
			TS_SHM_DIR);
	/* Says nothing by itself, but container engines give both or none. */
	if (ipc != 0 && ipc != FIRST_IPC)
		ts_check_find(check, TS_CHECK_ABSENT,
			"the IPC namespace is not the node's, as in containers with a %s of "
			"their own",
			TS_SHM_DIR);
}

void ts_check_cuda(const struct ts_check_scene *scene, struct ts_check *check)
{
	static const char name[] = "libcuda.so.1";
	char path[PATH_MAX];

	(void)scene;
	if (ts_find_library(name, "/etc/ld.so.cache", getenv("LD_LIBRARY_PATH"), path))
		ts_check_find(check, TS_CHECK_OK, "%s", path);
	else
		ts_check_find(check, TS_CHECK_ABSENT,
			"%s is not there: there are no copies to GPUs to share; nothing else "
			"needs it",
			name);
}

void ts_check_mig(const struct ts_check_scene *scene, struct ts_check *check)
{
	(void)scene;
	int parts = ts_find_mig(DRIVER_PLACE);
	if (parts < 0)
		ts_check_find(check, TS_CHECK_ABSENT,
			"no NVIDIA driver is in the kernel: %s: %s", DRIVER_PLACE,
			strerror(-parts));
	else if (parts == 0)
		ts_check_find(check, TS_CHECK_OK, "no GPU is divided into parts");
	else
		ts_check_find(check, TS_CHECK_OK,
			"GPUs are divided into %d part%s: jobs on different ones share data "
			"loading, but no copies to the GPU",
			parts, parts == 1 ? "" : "s");
}
