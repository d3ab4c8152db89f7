/* SPDX-License-Identifier: MIT */
/* Where an event log is, and whether what lies there is one. */
#include "leader/events/events.h"

#include "shim/log.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Each line of a log begins with it, and so does the first one of other formats. */
#define MARK            "{\"tsshim_events\":"
#define THIS(format)    MARK #format ","
#define CURRENT(format) THIS(format)

#define KEY "\"group\":\""

/* ---- the name --------------------------------------------------------------------------- */

int ts_events_path(
	const struct ts_config *config, char *const *env, char ret_path[TS_EVENTS_PATH])
{
	if (config->events == TS_EVENTS_OFF)
		return -ENOENT;
	if (config->events == TS_EVENTS_ON)
		return ts_state_path(config->group, "events", env, ret_path);
	/* No longer than TS_FILE_MAX: ts_config_set() has seen to it. */
	ts_format(ret_path, TS_EVENTS_PATH, "%s", config->events_file);
	return 0;
}

/* ---- the file --------------------------------------------------------------------------- */

/* Whether the @n bytes at @start begin as @mark does, or are the beginning of it. */
static bool begins_with(const char *start, int64_t n, const char *mark)
{
	return strncmp(start, mark, ts_min_u64((uint64_t)n, strlen(mark))) == 0;
}

/* What the first line says; of one that a writer began and could not end, what is there. */
static int check_start(int fd, const char *group)
{
	char start[512];
	int64_t n = ts_sys_pread(fd, start, sizeof(start) - 1, 0);

	if (n < 0)
		return (int)n;
	start[n] = '\0';
	if (!begins_with(start, n, MARK) || strlen(start) != (size_t)n)
		return -EBADMSG;
	const char *end = strchr(start, '\n'), *found = strstr(start, KEY);
	if (!end && n < (int64_t)sizeof(start) - 1)
		return 0;
	size_t length = strlen(group);
	if (!found || (end && found > end))
		return -EBADMSG;
	found += sizeof(KEY) - 1;
	return strncmp(found, group, length) == 0 && found[length] == '"' ? 0 : -EXDEV;
}

bool ts_events_is_current(int fd)
{
	static const char mark[] = CURRENT(TS_EVENTS_FORMAT);
	char start[sizeof(mark)];
	int64_t n = ts_sys_pread(fd, start, sizeof(mark) - 1, 0);

	return n >= 0 && begins_with(start, n, mark);
}

int ts_events_open(const char *path, const char *group, int flags, int *ret_fd)
{
	struct stat st;
	/* O_NONBLOCK: a fifo of that name must not keep us waiting. */
	int fd = ts_sys_open(path,
		O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags,
		0600);

	if (fd == -ENXIO || fd == -EISDIR || fd == -ENODEV)
		return -EINVAL;
	if (fd < 0)
		return fd;
	int r = ts_sys_fstat(fd, &st);
	if (r == 0 && !S_ISREG(st.st_mode))
		r = -EINVAL;
	if (r == 0 && st.st_uid != geteuid())
		r = -EPERM;
	if (r == 0)
		r = check_start(fd, group);
	if (r < 0)
		ts_sys_close(fd);
	else
		*ret_fd = fd;
	return r;
}

static const struct {
	int error;
	const char *text;
} refusals[] = {
	{-ELOOP, "it is a symbolic link"},
	{-EINVAL, "it is no regular file"},
	{-EPERM, "it belongs to somebody else"},
	{-EBADMSG, "it is there already and no event log"},
	{-EXDEV, "it is the event log of another group"},
};

const char *ts_events_explain(int error)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(refusals); i++)
		if (refusals[i].error == error)
			return refusals[i].text;
	return NULL;
}

bool ts_events_is_refusal(int error)
{
	return ts_events_explain(error) != NULL;
}
