/* SPDX-License-Identifier: MIT */
/* Calls that reach a copy by another way than the descriptor they are made on. */
#include "hooks/file/staged_through.h"

#include "hooks/file/staged_join.h"
#include "hooks/file/staged_restore.h"
#include "hooks/file/staged_root.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <string.h>
#include <unistd.h>

/* linux/loop.h; the last one is not in older headers. */
#define LOOP_SET_FD    0x4c00
#define LOOP_CHANGE_FD 0x4c06
#define LOOP_CONFIGURE 0x4c0a

/* It leads nowhere, as NULL, 1 and -1 do: the kernel shall say so. */
static bool is_nowhere(const void *address)
{
	const uintptr_t page = 4096;
	return (uintptr_t)address + page < 2 * page;
}

/* ---- names ------------------------------------------------------------------------------ */

/* The number that all of @digits is, -1: it is none, or too large for a descriptor. */
static int number(const char *digits, const char **ret_rest)
{
	int64_t value = -1;
	for (; *digits >= '0' && *digits <= '9' && value < INT_MAX; digits++)
		value = (value < 0 ? 0 : value * 10) + (*digits - '0');
	*ret_rest = digits;
	return value > INT_MAX ? -1 : (int)value;
}

static const char *behind(const char *path, const char *beginning)
{
	size_t length = strlen(beginning);
	return strncmp(path, beginning, length) == 0 ? path + length : NULL;
}

/* The descriptor of this process that @path is a name of, or -1. */
static int descriptor_of(const char *path)
{
	static const char *const ways[] = {
		"/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"};
	const char *rest = NULL, *own = behind(path, "/proc/");
	if (strcmp(path, "/dev/stdin") == 0)
		return STDIN_FILENO;
	for (size_t i = 0; i < TS_ARRAY_SIZE(ways) && !rest; i++)
		rest = behind(path, ways[i]);
	if (!rest && own && number(own, &own) == (int)getpid())
		rest = behind(own, "/fd/");
	int fd = rest ? number(rest, &rest) : -1;
	return fd >= 0 && *rest == '\0' ? fd : -1;
}

bool ts_staged_is_itself(const char *path, int flags)
{
	return (flags & AT_EMPTY_PATH) != 0 &&
	       (!path || (!is_nowhere(path) && path[0] == '\0'));
}

bool ts_staged_before_path(int directory, const char *path, int flags)
{
	int fd = directory;
	if (!ts_staged_is_itself(path, flags))
		fd = is_nowhere(path) || path[0] != '/' ? -1 : descriptor_of(path);
	return fd < 0 || ts_staged_give_back(fd);
}

/* ---- numbers ---------------------------------------------------------------------------- */

void ts_staged_before_clone(int from, int to)
{
	struct ts_stage_attributes was;
	struct stat copy, target;
	uint64_t type, wanted = ts_staged_root_type();
	int saved = errno;
	if (ts_sys_fstat(from, &copy) == 0 && ts_staged_find(&copy, &was, NULL) &&
		ts_sys_fstat(to, &target) == 0 && ts_sys_file_system(to, &type) == 0 &&
		(wanted == 0 || type == wanted || target.st_dev == copy.st_dev))
		(void)ts_staged_give_back(from);
	errno = saved;
}

static void give_back(int64_t fd)
{
	int saved = errno;
	if (fd >= 0 && fd <= INT_MAX)
		(void)ts_staged_give_back((int)fd);
	errno = saved;
}

void ts_staged_before_argument(int fd, unsigned long request, const void *argument)
{
	const struct file_dedupe_range *dedupe = argument;
	switch ((unsigned)request) {
	case FICLONE:
		ts_staged_before_clone((int)(intptr_t)argument, fd);
		return;
	case LOOP_SET_FD:
	case LOOP_CHANGE_FD:
		give_back((int)(intptr_t)argument);
		return;
	default:
		break;
	}
	if (is_nowhere(argument))
		return;
	switch ((unsigned)request) {
	case FICLONERANGE:
		ts_staged_before_clone(
			(int)((const struct file_clone_range *)argument)->src_fd, fd);
		break;
	case LOOP_CONFIGURE:
		give_back(*(const uint32_t *)argument);
		break;
	case FIDEDUPERANGE:
		for (unsigned i = 0; i < dedupe->dest_count; i++)
			give_back(dedupe->info[i].dest_fd);
		break;
	default:
		break;
	}
}
