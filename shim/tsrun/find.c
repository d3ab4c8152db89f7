/* SPDX-License-Identifier: MIT */
/* Where things lie on this machine: libraries as ld.so finds them, and parts of GPUs. */
#include "shim/tsrun/find.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
