/* SPDX-License-Identifier: MIT */
/* tsrun gc: remove what the dead left behind. */
#include "shim/tsrun/gc.h"
#include "leader/stage_index.h"
#include "shim/tsrun/message.h"
#include "shim/tsrun/view.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Attaching holds the lock for some 100 us; longer than this is a stopped process. */
#define LOCK_TRIES    20
#define LOCK_PAUSE_NS 5000000

struct collector {
	bool dry_run, quiet, ring_only;
	unsigned removed;
	int status;
};

/* One object under its name; fd is -1 when there is none (or none of ours). */
struct part {
	char path[TS_PATH_BYTES];
	int fd;
	uint64_t bytes;   /* of memory, not of address space */
	const char *keep; /* why it must stay, or NULL */
};

static void report_kept(const struct collector *gc, const struct part *part)
{
	if (!gc->quiet && gc->dry_run)
		printf("would keep %s: %s\n", part->path, part->keep);
}

static void remove_part(struct collector *gc, const struct part *part)
{
	if (!gc->dry_run && unlink(part->path) < 0) {
		if (errno == ENOENT || gc->quiet)
			return;
		ts_message_say("cannot remove '%s': %s", part->path, strerror(errno));
		gc->status = TS_EXIT_FAILED;
		return;
	}
	gc->removed++;
	if (!gc->quiet)
		printf("%s %s (%llu KiB)\n", gc->dry_run ? "would remove" : "removed",
			part->path, (unsigned long long)(part->bytes / 1024));
}

/* Open @group's object; returns whether there is something under that name. */
static bool open_named(
	struct collector *gc, const char *group, const char *suffix, struct part *ret_part)
{
	struct stat st;

	*ret_part = (struct part){.fd = -1};
	int r = ts_object_path(ret_part->path, sizeof(ret_part->path), group, suffix);
	if (r == 0)
		r = ts_view_open(ret_part->path, true, &ret_part->fd, &st);
	if (r == -ENOENT)
		return false;
	if (r == 0)
		ret_part->bytes = (uint64_t)st.st_blocks * 512;
	else
		ret_part->keep = ts_view_explain(r);
	if (r < 0 && r != -EPERM && !gc->quiet) {
		ts_message_say("cannot open '%s': %s", ret_part->path, ts_view_explain(r));
		gc->status = TS_EXIT_FAILED;
	}
	return true;
}

/*
 * Take byte 0 of the ledger, under which attaching, replacing and unlinking happen
 * (leader/attach.h).  Another gc may have removed the ledger while we waited for it.
 */
static int lock_ledger(const struct collector *gc, const struct part *book)
{
	/* A job that is about to start does not wait for somebody who is stopped. */
	int tries = gc->quiet ? 1 : LOCK_TRIES;
	const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
	struct stat st, named;

	int r = ts_object_lock_byte(book->fd, 0, F_WRLCK);
	for (int i = 0; r == -EAGAIN && i < tries; i++) {
		(void)nanosleep(&pause, NULL);
		r = ts_object_lock_byte(book->fd, 0, F_WRLCK);
	}
	if (r < 0)
		return r;
	if (fstat(book->fd, &st) < 0 || stat(book->path, &named) < 0 ||
		st.st_dev != named.st_dev || st.st_ino != named.st_ino)
		return -ENOENT;
	return 0;
}

/*
 * Why an object that could not be read must stay: it is somebody else's, or in use.  Other
 * versions and damaged ones keep their processes' lock bytes where ours are.
 */
static const char *keep_unreadable(int fd, int error)
{
	if (error == -EXDEV || error == -ENOMEM)
		return ts_view_explain(error);
	return ts_view_is_locked(fd, 0) ? "a process holds a lock on it" : NULL;
}

/* Why the ring must stay, or NULL; @jobs is why the ledger's jobs need it, or NULL. */
static const char *keep_ring(int fd, const char *jobs)
{
	struct ts_view_ring ring;
	const char *keep = jobs;

	int r = ts_view_ring(fd, &ring);
	if (r < 0)
		return keep_unreadable(fd, r);
	for (uint32_t i = 0; i < ring.member_count; i++)
		if (ring.members[i].alive)
			keep = "a process uses it";
	/* Who joins takes a lock byte before it writes its name. */
	if (ts_view_is_locked(fd, 0))
		keep = "a process holds a lock on it";
	ts_view_ring_finish(&ring);
	return keep;
}

/* Why the ledger, whose byte 0 we have, and the ring beside it must stay, or NULL. */
static const char *keep_ledger(int fd)
{
	struct ts_ledger *ledger;

	int r = ts_view_ledger(fd, &ledger);
	if (r < 0)
		return keep_unreadable(fd, r);
	bool alive = ts_ledger_has_live_job(ledger, 0);
	free(ledger);
	return alive ? "a job of the group is alive" : NULL;
}

static void close_part(struct part *part)
{
	if (part->fd >= 0)
		(void)close(part->fd);
}

/* Copies of files and their index stay while the ring stays, and go before it. */
static void collect_copies(struct collector *gc, const char *group, const char *keep)
{
	struct ts_stage_usage usage = {.files = 0};
	struct part part;

	if (!open_named(gc, group, "stage", &part))
		return;
	if (!part.keep)
		part.keep = keep;
	close_part(&part);
	int r = part.keep ? 0 : ts_stage_remove(part.path, gc->dry_run, &usage);
	if (r == -EPERM)
		part.keep = ts_view_explain(r);
	if (part.keep) {
		report_kept(gc, &part);
	} else if (r == 0) {
		gc->removed++;
		if (!gc->quiet)
			printf("%s %s and %llu copies of files (%llu KiB)\n",
				gc->dry_run ? "would remove" : "removed", part.path,
				(unsigned long long)usage.files,
				(unsigned long long)((part.bytes + usage.bytes) / 1024));
	} else if (r != -ENOENT && !gc->quiet) {
		ts_message_say("cannot remove '%s': %s", part.path, ts_view_explain(r));
		gc->status = TS_EXIT_FAILED;
	}
}

static void collect_group(struct collector *gc, const char *group)
{
	struct part book, ring;
	bool locked = true; /* or nothing to lock */

	bool has_book = open_named(gc, group, "ledger", &book);
	if (book.fd >= 0) {
		int r = lock_ledger(gc, &book);
		locked = r == 0;
		book.keep = r == -EAGAIN ? "a process holds its lock"
			    : r < 0      ? ts_view_explain(r)
					 : keep_ledger(book.fd);
	}
	bool has_ring = open_named(gc, group, "ring", &ring);
	if (ring.fd >= 0)
		ring.keep = locked ? keep_ring(ring.fd, book.fd >= 0 ? book.keep : NULL)
				   : book.keep;

	collect_copies(gc, group, has_ring ? ring.keep : book.keep);
	/* The ring first: whoever finds a ledger without a ring makes a new one. */
	if (has_ring && !ring.keep)
		remove_part(gc, &ring);
	else if (has_ring)
		report_kept(gc, &ring);
	if (has_ring && ring.keep && !book.keep)
		book.keep = "its ring stays";
	if (has_book && !gc->ring_only) {
		if (book.keep)
			report_kept(gc, &book);
		else
			remove_part(gc, &book);
	}
	close_part(&ring);
	close_part(&book); /* and with it our lock */
}

/* A half-made object named "tsshim.<uid>.<group>.new.<pid>": its maker alone knows it. */
static void collect_private(struct collector *gc, const char *directory, const char *name)
{
	struct part part = {.fd = -1};
	struct stat st;
	int pid = atoi(strrchr(name, '.') + 1);

	if (snprintf(part.path, sizeof(part.path), "%s/%s", directory, name) >=
		(int)sizeof(part.path))
		return;
	if (ts_view_open(part.path, true, &part.fd, &st) < 0)
		part.keep = "it belongs to somebody else or is no regular file";
	else if (ts_view_is_process(pid))
		part.keep = "its maker is alive";
	part.bytes = part.fd >= 0 ? (uint64_t)st.st_blocks * 512 : 0;
	if (part.keep)
		report_kept(gc, &part);
	else
		remove_part(gc, &part);
	close_part(&part);
}

/* What a name in the directory of shared memory is. */
enum name_kind { NAME_OTHER, NAME_LEDGER, NAME_RING, NAME_STAGE, NAME_PRIVATE };

/* Split @name, which begins with @prefix; the group goes to @ret_group. */
static enum name_kind classify(
	const char *name, const char *prefix, char ret_group[TS_GROUP_MAX + 1])
{
	if (strncmp(name, prefix, strlen(prefix)) != 0)
		return NAME_OTHER;
	const char *group = name + strlen(prefix);
	const char *dot = strrchr(group, '.');
	if (!dot || dot == group)
		return NAME_OTHER;
	enum name_kind kind = strcmp(dot, ".ring") == 0    ? NAME_RING
			      : strcmp(dot, ".stage") == 0 ? NAME_STAGE
							   : NAME_LEDGER;
	size_t length = (size_t)(dot - group);
	if (kind == NAME_LEDGER && strcmp(dot, ".ledger") != 0) {
		static const char mark[] = ".new";
		size_t digits = strspn(dot + 1, "0123456789");
		if (digits == 0 || dot[1 + digits] != '\0' || length <= strlen(mark) ||
			memcmp(dot - strlen(mark), mark, strlen(mark)) != 0)
			return NAME_OTHER;
		kind = NAME_PRIVATE;
		length -= strlen(mark);
	}
	if (length > TS_GROUP_MAX)
		return NAME_OTHER;
	memcpy(ret_group, group, length);
	ret_group[length] = '\0';
	return kind;
}

/* Directory of the objects and the beginning of their names, from the path of any of them. */
static int split_place(char directory[TS_PATH_BYTES], char prefix[TS_PATH_BYTES])
{
	int r = ts_object_path(directory, TS_PATH_BYTES, "x", "ring");
	if (r < 0)
		return r;
	char *slash = strrchr(directory, '/');
	*slash = '\0';
	size_t length = strlen(slash + 1) - strlen("x.ring");
	memcpy(prefix, slash + 1, length);
	prefix[length] = '\0';
	return 0;
}

static bool has_object(const char *group, const char *suffix)
{
	char path[TS_PATH_BYTES];

	return ts_object_path(path, sizeof(path), group, suffix) == 0 &&
	       access(path, F_OK) == 0;
}

/* Whether @kind is the object at whose name all objects of @group are looked at. */
static bool is_first(enum name_kind kind, const char *group)
{
	if (kind == NAME_LEDGER)
		return true;
	if (has_object(group, "ledger"))
		return false;
	return kind == NAME_RING || !has_object(group, "ring");
}

static void collect_directory(struct collector *gc, const char *only)
{
	char directory[TS_PATH_BYTES], prefix[TS_PATH_BYTES], group[TS_GROUP_MAX + 1];
	struct dirent **names;

	int count = split_place(directory, prefix);
	if (count == 0)
		count = scandir(directory, &names, NULL, alphasort);
	if (count < 0) {
		ts_message_say("cannot list '%s': %s", directory, strerror(errno));
		gc->status = TS_EXIT_FAILED;
		return;
	}
	for (int i = 0; i < count; i++) {
		enum name_kind kind = classify(names[i]->d_name, prefix, group);
		if (kind != NAME_OTHER && (!only || strcmp(only, group) == 0)) {
			if (kind == NAME_PRIVATE)
				collect_private(gc, directory, names[i]->d_name);
			else if (is_first(kind, group))
				collect_group(gc, group); /* all objects, so once is enough */
		}
		free(names[i]);
	}
	free(names);
}

int ts_gc_collect(const char *group, bool dry_run)
{
	struct collector gc = {.dry_run = dry_run};

	collect_directory(&gc, group);
	if (gc.removed == 0)
		printf("nothing to remove\n");
	return gc.status;
}

void ts_gc_sweep(const char *group)
{
	struct collector gc = {.quiet = true, .ring_only = true};

	collect_group(&gc, group);
}
