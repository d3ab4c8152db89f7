/* SPDX-License-Identifier: MIT */
/* The inodes that the kernel knows; see slowfs.h. */
#include "slowfs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUCKETS 65536u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct slow_inode *buckets[BUCKETS];
static struct slow_inode root = {.fd = -1};
static char *root_path;

static struct slow_inode **bucket_of(dev_t dev, ino_t ino)
{
	return &buckets[((uint64_t)ino ^ (uint64_t)dev * 31) % BUCKETS];
}

static void raise_limit(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

int slow_tree_init(const char *source)
{
	struct stat found;
	raise_limit();
	root.fd = open(source, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root.fd < 0 || fstat(root.fd, &found) < 0)
		return -errno;
	root_path = realpath(source, NULL);
	if (!root_path)
		return -errno;
	root.dev = found.st_dev;
	root.ino = found.st_ino;
	return 0;
}

struct slow_inode *slow_tree_get(fuse_ino_t number)
{
	return number == FUSE_ROOT_ID ? &root : (struct slow_inode *)(uintptr_t)number;
}

/* Find or add; takes over @fd, also on failure. */
static struct slow_inode *keep(int fd, const struct stat *found)
{
	pthread_mutex_lock(&lock);
	struct slow_inode **place = bucket_of(found->st_dev, found->st_ino);
	struct slow_inode *inode = *place;
	while (inode && (inode->ino != found->st_ino || inode->dev != found->st_dev))
		inode = inode->next;
	if (!inode && (inode = malloc(sizeof(*inode)))) {
		*inode = (struct slow_inode){
			.next = *place, .fd = fd, .dev = found->st_dev, .ino = found->st_ino};
		*place = inode;
		fd = -1;
	}
	if (inode)
		inode->lookups++;
	pthread_mutex_unlock(&lock);
	if (fd >= 0)
		close(fd);
	return inode;
}

int slow_tree_lookup(fuse_ino_t parent, const char *name, struct fuse_entry_param *ret_entry)
{
	struct fuse_entry_param entry = {
		.attr_timeout = (double)slow_get(SLOW_ATTR_TIMEOUT) / 1000,
		.entry_timeout = (double)slow_get(SLOW_ENTRY_TIMEOUT) / 1000,
	};
	int fd = openat(slow_tree_get(parent)->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstatat(fd, "", &entry.attr, AT_EMPTY_PATH) < 0) {
		int r = -errno;
		close(fd);
		return r;
	}
	struct slow_inode *inode = keep(fd, &entry.attr);
	if (!inode)
		return -ENOMEM;
	slow_tree_age(&entry.attr);
	entry.ino = (fuse_ino_t)(uintptr_t)inode;
	*ret_entry = entry;
	return 0;
}

void slow_tree_forget(fuse_ino_t number, uint64_t lookups)
{
	struct slow_inode *inode = slow_tree_get(number);
	if (inode == &root)
		return;
	pthread_mutex_lock(&lock);
	inode->lookups -= lookups;
	bool unused = inode->lookups == 0;
	if (unused) {
		struct slow_inode **place = bucket_of(inode->dev, inode->ino);
		while (*place != inode)
			place = &(*place)->next;
		*place = inode->next;
	}
	pthread_mutex_unlock(&lock);
	if (unused) {
		close(inode->fd);
		free(inode);
	}
}

void slow_tree_age(struct stat *attr)
{
	time_t age = (time_t)slow_get(SLOW_AGE);
	attr->st_mtim.tv_sec -= age;
	attr->st_ctim.tv_sec -= age;
	if (slow_get(SLOW_STILL) && S_ISDIR(attr->st_mode)) {
		attr->st_mtim = attr->st_ctim = (struct timespec){.tv_sec = 1000000000};
		attr->st_size = 0;
	}
}

void slow_tree_proc(const struct slow_inode *inode, char ret_path[static SLOW_PROC_BYTES])
{
	snprintf(ret_path, SLOW_PROC_BYTES, "/proc/self/fd/%d", inode->fd);
}

int slow_tree_path(const struct slow_inode *inode, char ret_path[static PATH_MAX])
{
	char proc[SLOW_PROC_BYTES];
	slow_tree_proc(inode, proc);
	ssize_t length = readlink(proc, ret_path, PATH_MAX - 1);
	if (length < 0)
		return -errno;
	ret_path[length] = '\0';
	size_t prefix = strlen(root_path);
	if (strncmp(ret_path, root_path, prefix) == 0 && ret_path[prefix] == '/')
		memmove(ret_path, ret_path + prefix + 1, (size_t)length - prefix);
	return 0;
}
