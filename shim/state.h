/* SPDX-License-Identifier: MIT */
/* Where files lie that are kept for the user on this node. */
#ifndef TS_SHIM_STATE_H
#define TS_SHIM_STATE_H

#include "shim/config.h"

/** Room for a path. */
#define TS_STATE_PATH (TS_FILE_MAX + 16)

/**
 * ${XDG_STATE_HOME:-$HOME/.local/state}/tsshim/NAME@NODE.KIND by the variables of @env: with
 * the node, as homes are shared by nodes.  Threads: any; allocates nothing.  Errors: -ENOTDIR
 * there is no home; -ENAMETOOLONG.
 */
int ts_state_path(
	const char *name, const char *kind, char *const *env, char ret_path[TS_STATE_PATH]);

#endif
