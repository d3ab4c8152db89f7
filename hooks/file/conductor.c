/* SPDX-License-Identifier: MIT */
/* Around an open: whose turn it is. */
#include "hooks/file/conductor.h"

#include "shim/sys.h"

#include <string.h>

/* Listed first: what a sample was made from is the original. */
static void note(const struct ts_file_call *call, int fd)
{
	struct ts_opens *opens = ts_opens_armed;
	if (opens) /* still: a signal handler may have ended it */
		ts_opens_note(opens, call->directory, call->path, call->flags, fd);
}

int ts_before_open_known(struct ts_file_call *call)
{
	int fd = ts_known_open(call->directory, call->path, call->flags, &call->known);
	if (fd >= 0)
		note(call, fd);
	return fd;
}

int ts_after_open(const struct ts_file_call *call, int fd)
{
	note(call, fd);
	if (fd >= 0 && ts_file_is_staging())
		ts_staged_open(fd, call->path, call->flags, &call->known);
	return fd;
}

/* What fopen's mode asks for: only "r", with letters that do not matter here, is reading. */
static int flags_of(const char *mode)
{
	if (mode[0] != 'r')
		return O_WRONLY | O_CREAT;
	return strchr(mode, '+') ? O_RDWR : O_RDONLY;
}

bool ts_before_fopening(const char *path, const char *mode)
{
	return flags_of(mode) == O_RDONLY || ts_before_path(AT_FDCWD, path, 0);
}

FILE *ts_before_fopen(struct ts_file_call *call, const char *path, const char *mode)
{
	int flags = flags_of(mode);
	int cloexec = strchr(mode, 'e') ? O_CLOEXEC : 0;
	ts_file_call_set(call, AT_FDCWD, path, flags);
	/* With a character set behind a comma only the real call knows what to do. */
	if (strchr(mode, ',')) {
		ts_known_look(AT_FDCWD, path, &call->known);
		return NULL;
	}
	int fd = ts_known_open(AT_FDCWD, path, flags | cloexec, &call->known);
	if (fd < 0)
		return NULL;
	FILE *stream = fdopen(fd, mode);
	if (!stream)
		ts_sys_close(fd);
	else
		note(call, fd);
	return stream;
}

/* Nothing was read from the stream yet, so its descriptor may become another file's. */
FILE *ts_after_fopen(const struct ts_file_call *call, FILE *stream)
{
	(void)ts_after_open(call, stream ? fileno(stream) : -1);
	return stream;
}

bool ts_before_freopen(
	struct ts_file_call *call, const char *path, const char *mode, FILE *stream)
{
	/* Without a path it is the file that is open, with another mode. */
	if (!path && stream && !ts_staged_give_back(fileno(stream)))
		return false;
	if (path && !ts_before_fopening(path, mode))
		return false;
	ts_file_call_set(call, AT_FDCWD, path, flags_of(mode));
	ts_known_look(AT_FDCWD, path, &call->known);
	return true;
}
