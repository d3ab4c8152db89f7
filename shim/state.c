/* SPDX-License-Identifier: MIT */
/* Where files lie that are kept for the user on this node. */
#include "shim/state.h"

#include "shim/log.h"

#include <string.h>
#include <sys/utsname.h>

static const char *variable(char *const *env, const char *name)
{
	size_t length = strlen(name);

	for (; env && *env; env++)
		if (strncmp(*env, name, length) == 0 && (*env)[length] == '=')
			return *env + length + 1;
	return NULL;
}

/* By the XDG Base Directory Specification, which wants relative paths to be ignored. */
int ts_state_path(
	const char *name, const char *kind, char *const *env, char ret_path[TS_STATE_PATH])
{
	const char *directory = variable(env, "XDG_STATE_HOME"), *below = "";
	struct utsname node;

	if (!directory || directory[0] != '/') {
		directory = variable(env, "HOME");
		below = "/.local/state";
	}
	if (!directory || directory[0] != '/')
		return -ENOTDIR;
	if (uname(&node) < 0)
		return -EINVAL;
	for (char *at = node.nodename; *at; at++)
		if (*at == '/')
			*at = '_';
	size_t length = ts_format(ret_path, TS_STATE_PATH, "%s%s/tsshim/%s@%s.%s", directory,
		below, name, node.nodename, kind);
	return length > TS_FILE_MAX ? -ENAMETOOLONG : 0;
}
