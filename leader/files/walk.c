/* SPDX-License-Identifier: MIT */
/* Walking through the copies of files that lie in a place. */
#include "leader/files/index.h"

#include "shim/log.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#define DIGITS 32u

/* "<beginning><32 hexadecimal digits>", or with ".part" behind. */
static bool is_copy_name(const char *name, const char *beginning)
{
	size_t length = strlen(beginning);

	if (strncmp(name, beginning, length) != 0 ||
		strspn(name + length, "0123456789abcdef") != DIGITS)
		return false;
	const char *rest = name + length + DIGITS;
	return rest[0] == '\0' || strcmp(rest, ".part") == 0;
}

void ts_stage_each_copy(
	const char *stem, bool (*visit)(void *context, const char *path), void *context)
{
	/* The C library's readdir allocates, which a host may not like. */
	char *buffer TS_SCRATCH = ts_scratch();
	char directory[TS_STAGE_STEM], path[TS_STAGE_STEM + DIGITS + 8];
	bool go_on = true;
	int64_t bytes;

	if (!buffer)
		return;
	memcpy(directory, stem, sizeof(directory));
	char *slash = strrchr(directory, '/');
	const char *beginning = stem + (slash - directory) + 1;
	*slash = '\0';
	int fd = ts_sys_open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	while (fd >= 0 && go_on && (bytes = ts_sys_list(fd, buffer, TS_SCRATCH_BYTES)) > 0) {
		for (int64_t at = 0; at < bytes && go_on;) {
			const struct dirent64 *entry = (const void *)(buffer + at);
			at += entry->d_reclen;
			if (!is_copy_name(entry->d_name, beginning))
				continue;
			ts_format(path, sizeof(path), "%s/%s", directory, entry->d_name);
			go_on = visit(context, path);
		}
	}
	if (fd >= 0)
		ts_sys_close(fd);
}

struct removal {
	bool dry_run;
	struct ts_stage_usage *usage;
};

static bool remove_one(void *context, const char *path)
{
	const struct removal *removal = context;
	struct stat st;

	if (ts_sys_stat(path, &st) < 0)
		return true;
	removal->usage->files++;
	removal->usage->bytes += (uint64_t)st.st_blocks * 512;
	if (!removal->dry_run)
		(void)ts_sys_unlink(path);
	return true;
}

void ts_stage_remove_copies(const char *stem, bool dry_run, struct ts_stage_usage *usage)
{
	struct removal removal = {.dry_run = dry_run, .usage = usage};

	ts_stage_each_copy(stem, remove_one, &removal);
}
