/* SPDX-License-Identifier: MIT */
/*
 * Checks of `tsrun doctor`: shared memory and the limits that the ring has to fit into; whether
 * this is the node or a container; and what GPUs it has.
 */
#include "leader/group/store_private.h"
#include "leader/object/limits.h"
#include "shim/sys.h"
#include "shim/tsrun/check.h"
#include "shim/tsrun/gc.h"
#include "shim/tsrun/names.h"
#include "shim/tsrun/proof.h"
#include "shim/tsrun/units.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- shared memory, and limits ----------------------------------------------------------- */

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
	char asked[TS_UNITS_BYTES], given[TS_UNITS_BYTES], reason[TS_UNITS_RING];
	struct ts_shape shape;
	uint32_t why;
	uint64_t wanted = ts_limits_ring(scene->config.ring_bytes, ts_limits_memory(), &why);

	ts_units_size(wanted, asked);
	if (wanted == 0) {
		ts_check_find(
			check, TS_CHECK_ABSENT, "%s; a ring of size 0 was asked for", what);
		return true;
	}
	if (ts_limits_shape(wanted, &shape) < 0) {
		ts_check_find(check, TS_CHECK_FAIL,
			"a ring of %s was asked for: too little for any, so nothing is shared",
			asked);
		ts_check_advise(check, "a larger --ring, or none");
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
		ts_check_find(check, TS_CHECK_WARN, "%s, so the ring has %s instead of %s%s",
			what, ts_units_size(room, given), asked, ts_units_ring(why, reason));
		return false;
	}
	ts_check_find(check, TS_CHECK_OK, "%s: the ring may have all of its %s%s", what, asked,
		ts_units_ring(why, reason));
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
	uint64_t left = ts_limits_cgroup("/proc/self/cgroup", "/sys/fs/cgroup", false);

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
	uint32_t why;
	uint64_t wanted = ts_limits_ring(scene->config.ring_bytes, ts_limits_memory(), &why);
	uint64_t room = ts_limits_address_space();
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

/* ---- namespaces -------------------------------------------------------------------------- */

/* Where the kernel's first namespaces have their numbers from: include/linux/proc_ns.h. */
#define FIRST_IPC  UINT64_C(0xEFFFFFFF)
#define FIRST_USER UINT64_C(0xEFFFFFFD)
#define FIRST_PID  UINT64_C(0xEFFFFFFC)

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

/* ---- GPUs -------------------------------------------------------------------------------- */

#define DRIVER_PLACE "/proc/driver/nvidia"

static bool try_path(const char *path, size_t length, const char *name, char ret_path[PATH_MAX])
{
	/* An empty directory is the working directory to ld.so. */
	int written = snprintf(ret_path, PATH_MAX, "%.*s%s%s", (int)length,
		length > 0 ? path : ".", name[0] != '\0' ? "/" : "", name);

	return written < PATH_MAX && access(ret_path, R_OK) == 0;
}

/* The directories of @search, separated by colons or semicolons. */
static bool find_along(const char *search, const char *name, char ret_path[PATH_MAX])
{
	for (const char *at = search; *at;) {
		size_t length = strcspn(at, ":;");
		if (try_path(at, length, name, ret_path))
			return true;
		at += length;
		at += *at != '\0';
	}
	return false;
}

/*
 * The cache has a table of numbers and behind it all strings, each with its NUL.  A path that
 * ends in the name is one of them, whatever the version of the table.
 */
static bool find_in_strings(
	const char *strings, size_t bytes, const char *name, char ret_path[PATH_MAX])
{
	size_t length = strlen(name) + 1; /* with its NUL */
	const char *end = strings + bytes;

	for (const char *at = strings; at < end; at++) {
		at = memmem(at, (size_t)(end - at), name, length);
		if (!at)
			return false;
		const char *first = at;
		while (first > strings && first[-1] != '\0')
			first--;
		if (*first == '/' && at[-1] == '/' &&
			try_path(first, (size_t)(at - first) + length - 1, "", ret_path))
			return true;
	}
	return false;
}

static bool find_in_cache(const char *cache, const char *name, char ret_path[PATH_MAX])
{
	struct stat st;
	bool found = false;
	int fd = open(cache, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
		void *start = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (start != MAP_FAILED) {
			found = find_in_strings(start, (size_t)st.st_size, name, ret_path);
			(void)munmap(start, (size_t)st.st_size);
		}
	}
	(void)close(fd);
	return found;
}

bool ts_find_library(
	const char *name, const char *cache, const char *search, char ret_path[PATH_MAX])
{
	static const char standard[] = "/lib64:/usr/lib64:/lib:/usr/lib";

	return (search && find_along(search, name, ret_path)) ||
	       find_in_cache(cache, name, ret_path) || find_along(standard, name, ret_path);
}

/* Entries of the directory @path whose names begin with @start. */
static int count_entries(const char *path, const char *start)
{
	int count = 0;
	DIR *directory = opendir(path);

	if (!directory)
		return -errno;
	for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
		if (strncmp(entry->d_name, start, strlen(start)) == 0)
			count++;
	(void)closedir(directory);
	return count;
}

int ts_find_mig(const char *place)
{
	char path[PATH_MAX];
	int parts = 0;

	int r = count_entries(place, "");
	if (r < 0)
		return r;
	/* capabilities/gpu<N>/mig/gi<M>: one for each GPU instance, for as long as it is there.
	 */
	(void)snprintf(path, sizeof(path), "%s/capabilities", place);
	DIR *gpus = opendir(path);
	if (!gpus)
		return 0;
	for (const struct dirent *entry; (entry = readdir(gpus)) != NULL;) {
		if (strncmp(entry->d_name, "gpu", 3) != 0 ||
			snprintf(path, sizeof(path), "%s/capabilities/%s/mig", place,
				entry->d_name) >= (int)sizeof(path))
			continue;
		r = count_entries(path, "gi");
		parts += r > 0 ? r : 0;
	}
	(void)closedir(gpus);
	return parts;
}

void ts_check_cuda(const struct ts_check_scene *scene, struct ts_check *check)
{
	static const char name[] = "libcuda.so.1";
	char path[PATH_MAX];

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

static void find_no_proof(struct ts_check *check)
{
	char library[PATH_MAX], driver[TS_VERDICT_DRIVER];

	ts_verdict_driver(driver);
	if (strcmp(driver, TS_VERDICT_SOFTWARE) == 0 ||
		!ts_find_library("libcuda.so.1", "/etc/ld.so.cache", getenv("LD_LIBRARY_PATH"),
			library)) {
		ts_check_find(check, TS_CHECK_ABSENT,
			"no verdict on copies to a GPU, and no GPU to be seen");
		return;
	}
	ts_check_find(check, TS_CHECK_WARN,
		"copies to GPUs are not shared: nobody has tried on this machine whether that "
		"is right and pays");
	ts_check_advise(check, "`tsrun doctor --gpu`, once; it takes 30 s at most");
}

static void find_proof(struct ts_check *check, const struct ts_proof *proof)
{
	bool is_good = proof->is_current && proof->is_yes;

	ts_check_find(check,
		!proof->is_real ? TS_CHECK_ABSENT
		: is_good       ? TS_CHECK_OK
				: TS_CHECK_WARN,
		"%s", proof->said);
	if (!proof->is_current)
		ts_check_find(check, TS_CHECK_ABSENT, "that was with another driver than now");
	if (proof->is_real && !is_good)
		ts_check_advise(check, "`tsrun doctor --gpu` again, with the next driver");
}

void ts_check_gpu(const struct ts_check_scene *scene, struct ts_check *check)
{
	char path[TS_STATE_PATH], text[TS_VERDICT_BYTES];
	struct ts_proof proof = {.next = text};

	int r = ts_proof_read(path, text);
	if (r == -ENOENT) {
		find_no_proof(check);
		return;
	}
	if (r < 0) {
		ts_check_find(check, TS_CHECK_WARN, "%s does not count: %s", path,
			ts_proof_explain(r));
		ts_check_advise(check, "`tsrun doctor --gpu` writes it anew");
		return;
	}
	while (ts_proof_next(proof.next, &proof))
		find_proof(check, &proof);
	if (check->found[0] == '\0')
		ts_check_find(check, TS_CHECK_ABSENT, "%s has no GPU", path);
}
