/* SPDX-License-Identifier: MIT */
/*
 * Shared memory of a test's own: a directory below /dev/shm, also of its children and of the
 * helpers that they start.  Each job of the machine's that starts or ends meanwhile removes
 * what dead jobs have left (leader/group/left.h), and a test of ours may be looking at just
 * that; or has a clock of its own, by which the time of a kept ring is over.
 */
#ifndef TS_TESTS_UNIT_OWN_SHM_H
#define TS_TESTS_UNIT_OWN_SHM_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define OWN_SHM "TSSHIM_TEST_SHM"

/** Make it, before any fork.  Returns whether that was possible. */
static inline bool own_shm_begin(void)
{
	char path[] = "/dev/shm/tsshim-unit.XXXXXX";

	return mkdtemp(path) && chmod(path, 0777) == 0 && setenv(OWN_SHM, path, 1) == 0;
}

/** Remove it with what the test has left in it. */
static inline void own_shm_end(void)
{
	const char *path = getenv(OWN_SHM);
	DIR *directory = path ? opendir(path) : NULL;
	char name[600];

	if (!directory)
		return;
	for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
		(void)snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		(void)unlink(name);
	}
	(void)closedir(directory);
	(void)rmdir(path);
	(void)unsetenv(OWN_SHM);
}

#endif
