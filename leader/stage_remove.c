/* SPDX-License-Identifier: MIT */
/* Removing a group's copies of files, and the index that knows them. */
#include "leader/stage_index.h"

#include "shim/log.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <string.h>

#define DIGITS 32u

/* As getdents64(2) writes it; the C library's readdir allocates, which a host may not like. */
struct entry {
	uint64_t inode;
	int64_t offset;
	uint16_t bytes;
	uint8_t type;
	char name[];
};

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
	_Alignas(struct entry) char buffer[8192];
	char directory[TS_STAGE_STEM], path[TS_STAGE_STEM + DIGITS + 8];
	bool go_on = true;
	int64_t bytes;

	memcpy(directory, stem, sizeof(directory));
	char *slash = strrchr(directory, '/');
	const char *beginning = stem + (slash - directory) + 1;
	*slash = '\0';
	int fd = ts_sys_open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	while (fd >= 0 && go_on && (bytes = ts_sys_list(fd, buffer, sizeof(buffer))) > 0) {
		for (int64_t at = 0; at < bytes && go_on;) {
			const struct entry *entry = (const struct entry *)(buffer + at);
			at += entry->bytes;
			if (!is_copy_name(entry->name, beginning))
				continue;
			ts_format(path, sizeof(path), "%s/%s", directory, entry->name);
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

/* Where the copies lie, if that is an index of ours at all. */
static int read_stem(struct ts_object *object, char stem[TS_STAGE_STEM])
{
	int r = ts_object_open(object);

	if (r < 0)
		return r;
	r = ts_stage_index_stem(object, stem);
	ts_object_close(object);
	return r;
}

/* Where copies in shared memory lie, for an index that does not tell: "<path>.stage". */
static void guess_stem(const char *path, char stem[TS_STAGE_STEM])
{
	size_t length = ts_format(stem, TS_STAGE_STEM, "%s", path);

	length -= ts_min_u64(length, strlen("stage"));
	ts_format(stem + length, TS_STAGE_STEM - length, "f.");
}

int ts_stage_remove(const char *path, bool dry_run, struct ts_stage_usage *ret_usage)
{
	struct ts_stage_usage usage = {.files = 0};
	struct ts_object object = {.fd = -1};
	char stem[TS_STAGE_STEM];

	ts_format(object.path, sizeof(object.path), "%s", path);
	int r = read_stem(&object, stem);
	if (r == -ENOENT || r == -EPERM)
		return r;
	if (r < 0)
		guess_stem(path, stem);
	ts_stage_remove_copies(stem, dry_run, &usage);
	if (ret_usage)
		*ret_usage = usage;
	if (dry_run)
		return 0;
	size_t end = strlen(stem);
	/* A directory of ours holds nothing else: "<directory>/f." */
	if (end > 3 && memcmp(stem + end - 3, "/f.", 3) == 0) {
		stem[end - 3] = '\0';
		(void)ts_sys_rmdir(stem);
	}
	(void)ts_sys_unlink(path);
	return 0;
}
