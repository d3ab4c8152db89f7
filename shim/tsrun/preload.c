/* SPDX-License-Identifier: MIT */
/* Paths: where the library and the command are, and the value of LD_PRELOAD. */
#include "shim/tsrun/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* From the directory of the installed tsrun to the library; set by meson from its options. */
#ifndef TS_LIBRARY_FROM_BINDIR
#error "TS_LIBRARY_FROM_BINDIR is defined by shim/tsrun/meson.build"
#endif

#define BUILD_PLACE "/shim/tsrun" /* of tsrun in a build directory, as meson lays it out */

static bool ends_with(const char *text, size_t length, const char *end)
{
	size_t end_length = strlen(end);
	return length >= end_length && memcmp(text + length - end_length, end, end_length) == 0;
}

/* Join and resolve; a file that is not there keeps its unresolved path for the message. */
static int try_place(
	const char *directory, size_t length, const char *rest, char ret_path[PATH_MAX])
{
	char path[PATH_MAX];
	if (snprintf(path, sizeof(path), "%.*s/%s", (int)length, directory, rest) >=
		(int)sizeof(path))
		return -ENAMETOOLONG;
	if (realpath(path, ret_path))
		return 0;
	memcpy(ret_path, path, strlen(path) + 1);
	return -ENOENT;
}

int ts_library_find(const char *program, char ret_path[PATH_MAX])
{
	const char *slash = strrchr(program, '/');
	if (program[0] != '/' || !slash)
		return -ENOENT;
	size_t length = (size_t)(slash - program);

	/* Only a directory of this very name: an installed bin/ must never look elsewhere. */
	if (ends_with(program, length, BUILD_PLACE) &&
		try_place(program, length - strlen(BUILD_PLACE), "libtsshim.so", ret_path) == 0)
		return 0;
	return try_place(program, length, TS_LIBRARY_FROM_BINDIR, ret_path);
}

int ts_library_which(const char *command, char ret_path[PATH_MAX])
{
	if (strchr(command, '/')) {
		if (strlen(command) >= PATH_MAX)
			return -ENAMETOOLONG;
		memcpy(ret_path, command, strlen(command) + 1);
		return access(command, X_OK) == 0 ? 0 : -errno;
	}

	char standard[256] = "/bin:/usr/bin";
	const char *path = getenv("PATH");
	if (!path) {
		(void)confstr(_CS_PATH, standard, sizeof(standard));
		path = standard;
	}
	int result = -ENOENT;
	for (;;) {
		size_t length = strcspn(path, ":");
		char candidate[PATH_MAX];
		/* An empty element is the working directory; execvp(3) thinks so too. */
		int written = snprintf(candidate, sizeof(candidate), "%.*s%s%s", (int)length,
			path, length > 0 ? "/" : "./", command);
		struct stat st;
		if (written < PATH_MAX && stat(candidate, &st) == 0 && S_ISREG(st.st_mode)) {
			if (access(candidate, X_OK) == 0) {
				memcpy(ret_path, candidate, (size_t)written + 1);
				return 0;
			}
			result = -EACCES;
		}
		if (path[length] == '\0')
			return result;
		path += length + 1;
	}
}

/*
 * Whether the entry of LD_PRELOAD is the shim already: the same file, or another copy of it
 * (an outer tsrun of another installation); two copies in one process would both hook.
 */
static bool is_shim(const char *entry, size_t length, const char *library)
{
	char path[PATH_MAX];
	struct stat theirs, ours;

	if (length == 0 || length >= sizeof(path))
		return false;
	memcpy(path, entry, length);
	path[length] = '\0';
	/* A bare name is searched for by ld.so, which loads a file once at most anyway. */
	const char *slash = strrchr(path, '/');
	if (!slash || stat(path, &theirs) < 0)
		return false;
	if (stat(library, &ours) == 0 && theirs.st_dev == ours.st_dev &&
		theirs.st_ino == ours.st_ino)
		return true;
	const char *name = slash + 1;
	return strncmp(name, "libtsshim", strlen("libtsshim")) == 0 &&
	       ends_with(name, strlen(name), ".so");
}

int ts_library_compose(const char *present, const char *library, char **ret_value)
{
	/* Blank and colon separate the entries for ld.so, and there is no way to quote them. */
	static const char separators[] = " :";

	if (library[strcspn(library, " :$")] != '\0')
		return -EINVAL;
	if (!present)
		present = "";
	bool empty = true;
	for (const char *p = present; *p;) {
		size_t length = strcspn(p, separators);
		if (is_shim(p, length, library)) {
			*ret_value = NULL;
			return 0;
		}
		if (length > 0)
			empty = false;
		p += length;
		p += strspn(p, separators);
	}
	char *value = NULL;
	if (asprintf(&value, "%s%s%s", empty ? "" : present, empty ? "" : ":", library) < 0)
		return -ENOMEM;
	*ret_value = value;
	return 0;
}
