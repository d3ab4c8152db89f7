/* SPDX-License-Identifier: MIT */
/* Looking at the directory of a cluster again: leader/peer/watch.h explains it. */
#include "leader/peer/watch.h"

#include "shim/sys.h"

#include <string.h>

#define DIRECTORY 0
#define SECRET    1

static const char *const names[TS_CLUSTER_WATCHED] = {
	NULL, "secret", "nodes", "cluster.conf", "cert.pem", "key.pem"};

static struct ts_cluster_stamp stamp_of(const char *path, bool is_directory)
{
	struct stat st;

	if (ts_sys_lstat(path, &st) < 0)
		return (struct ts_cluster_stamp){.inode = 0};
	struct ts_cluster_stamp stamp = {.device = st.st_dev, .inode = st.st_ino};
	/* Those of a directory change with each file that is exchanged. */
	if (!is_directory) {
		stamp.bytes = (uint64_t)st.st_size;
		stamp.changed = st.st_ctim;
	}
	return stamp;
}

static bool is_same(const struct ts_cluster_stamp *one, const struct ts_cluster_stamp *other)
{
	return one->device == other->device && one->inode == other->inode &&
	       one->bytes == other->bytes && one->changed.tv_sec == other->changed.tv_sec &&
	       one->changed.tv_nsec == other->changed.tv_nsec;
}

int ts_cluster_watch_init(struct ts_cluster_watch *watch, const char *directory)
{
	if (strlen(directory) >= sizeof(watch->paths[DIRECTORY]))
		return -ENAMETOOLONG;
	memcpy(watch->paths[DIRECTORY], directory, strlen(directory) + 1);
	for (int i = 0; i < TS_CLUSTER_WATCHED; i++) {
		int r = names[i] ? ts_cluster_path(directory, names[i], watch->paths[i]) : 0;
		if (r < 0)
			return r;
		watch->stamps[i] = stamp_of(watch->paths[i], i == DIRECTORY);
	}
	return 0;
}

int ts_cluster_watch_look(struct ts_cluster_watch *watch, bool *ret_is_other_secret)
{
	for (int i = 0; i < TS_CLUSTER_WATCHED; i++) {
		struct ts_cluster_stamp now = stamp_of(watch->paths[i], i == DIRECTORY);
		if (i == DIRECTORY && now.inode == 0)
			return -ENOENT;
		if (i == SECRET)
			watch->secret = now;
		else if (!is_same(&now, &watch->stamps[i]))
			return -ESTALE;
	}
	*ret_is_other_secret = !is_same(&watch->secret, &watch->stamps[SECRET]);
	return 0;
}

void ts_cluster_watch_took_secret(struct ts_cluster_watch *watch)
{
	watch->stamps[SECRET] = watch->secret;
}
