/* SPDX-License-Identifier: MIT */
/* tsrun gc: files of servers that have ended without `tsrun cluster down`. */
#include "shim/tsrun/gc_servers.h"
#include "shim/sys.h"
#include "shim/tsrun/server.h"
#include "shim/tsrun/units.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* Of a server that was found in a place. */
struct left {
	struct ts_server_files files;
	struct ts_server_record record;
	bool has_record;
};

/* "server.<16 hexadecimal digits>.<anything>"; false: another name. */
static bool parse(const char *name, uint64_t *ret_number)
{
	static const char start[] = "server.";
	const char *digits = name + strlen(start);
	char *end;

	if (strncmp(name, start, strlen(start)) != 0 ||
		strspn(digits, "0123456789abcdef") != 16 || digits[16] != '.')
		return false;
	*ret_number = strtoull(digits, &end, 16);
	return true;
}

/* Why it stays, or NULL. */
static const char *keep(struct left *left)
{
	int r = ts_server_read_any_record(&left->files, &left->record);

	left->has_record = r == 0;
	if (r == -ENOENT)
		return NULL;
	if (r < 0)
		return "its record is damaged";
	return ts_server_is_gone(&left->files, &left->record) ? NULL : "its process may live";
}

/* Without making a lock, which would have to be removed. */
static bool is_locked(const struct ts_server_files *files)
{
	int fd = ts_sys_open(files->lock, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);

	if (fd < 0)
		return false;
	bool locked = ts_sys_flock(fd, LOCK_SH | LOCK_NB) == -EAGAIN;
	ts_sys_close(fd);
	return locked;
}

static void say(const char *verb, const char *place, uint64_t number, const struct left *left)
{
	printf("%s %s/server.%016" PRIx64 ".*", verb, place, number);
	if (left->has_record) {
		fputs(": the server ", stdout);
		ts_units_print_safely(stdout, left->record.host);
		printf(":%u of ", left->record.port);
		ts_units_print_safely(stdout, left->record.directory);
		fputs(" has ended", stdout);
	}
	if (left->has_record && left->record.nvme[0] != '\0') {
		fputs("; and ", stdout);
		ts_units_print_safely(stdout, left->record.nvme);
	}
	fputs("\n", stdout);
}

static bool list(const char *place, uint64_t number, struct left *left)
{
	const char *why = is_locked(&left->files) ? "a tsrun works at it" : keep(left);

	if (why)
		printf("would keep %s/server.%016" PRIx64 ".*: %s\n", place, number, why);
	else
		say("would remove", place, number, left);
	return !why;
}

static bool clear(const char *place, uint64_t number, struct left *left)
{
	/* No lock is made for what stays. */
	if (keep(left))
		return false;
	int lock = ts_server_try_lock(&left->files);
	if (lock < 0)
		return false;
	bool goes = !keep(left);
	if (goes) {
		ts_server_remove_files(&left->files, left->has_record ? &left->record : NULL);
		say("removed", place, number, left);
	}
	ts_sys_close(lock);
	return goes;
}

/* All files of one server have one number, and so stand together. */
static unsigned collect_place(const char *place, bool dry_run, struct left *left)
{
	struct dirent **entries;
	uint64_t number, last = 0;
	unsigned found = 0;
	bool any = false;
	int count = scandir(place, &entries, NULL, alphasort);

	for (int i = 0; i < count; i++) {
		bool is_new = parse(entries[i]->d_name, &number) && !(any && number == last);
		if (is_new && ts_server_name_files(place, number, &left->files) == 0) {
			found += dry_run ? list(place, number, left)
					 : clear(place, number, left);
			last = number;
			any = true;
		}
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return found;
}

unsigned ts_gc_collect_servers(bool dry_run)
{
	struct left *left = calloc(1, sizeof(*left));
	char place[PATH_MAX];
	unsigned found = 0;

	for (unsigned i = 0; left && i < TS_SERVER_PLACES; i++)
		if (ts_server_place(i, place))
			found += collect_place(place, dry_run, left);
	free(left);
	return found;
}
