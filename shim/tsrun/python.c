/* SPDX-License-Identifier: MIT */
/* tsrun becomes an interpreter of Python with a part of ours. */
#include "shim/tsrun/python.h"

#include "shim/tsrun/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int ts_python_part(const char *name, char ret_path[PATH_MAX])
{
	int r = ts_library_beside(name, ret_path);

	return r == 0 && access(ret_path, R_OK) < 0 ? -errno : r;
}

int ts_python_find(char ret_path[PATH_MAX])
{
	char program[PATH_MAX];

	int r = ts_library_own(program);
	if (r < 0)
		return r;
	int length = (int)(strrchr(program, '/') - program);
	if (snprintf(ret_path, PATH_MAX, "%.*s/python3", length, program) < PATH_MAX &&
		access(ret_path, X_OK) == 0)
		return 0;
	return ts_library_which("python3", ret_path);
}

int ts_python_become(const char *python, const char *part, const char *const *words)
{
	size_t count = 0;

	while (words[count])
		count++;
	const char **all = calloc(count + 4, sizeof(*all));
	if (!all)
		return -ENOMEM;
	all[0] = python;
	all[1] = "-B"; /* writes nothing beside our part */
	all[2] = part;
	memcpy(all + 3, words, count * sizeof(*all));
	/* It is no job, whatever this shell preloads into its commands. */
	if (setenv("TSSHIM_DISABLE", "1", 1) == 0)
		(void)execv(python, (char *const *)all);
	int r = -errno;
	free(all);
	return r;
}
