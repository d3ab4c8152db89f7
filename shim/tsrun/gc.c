/* SPDX-License-Identifier: MIT */
/* tsrun gc: remove what the dead left behind. */
#include "shim/tsrun/gc.h"
#include "leader/files/index.h"
#include "leader/group/left.h"
#include "leader/object/limits.h"
#include "shim/identity.h"
#include "shim/sys.h"
#include "shim/tsrun/foreign.h"
#include "shim/tsrun/gc_servers.h"
#include "shim/tsrun/message.h"
#include "shim/tsrun/names.h"
#include "shim/tsrun/view.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Attaching holds the lock for some 100 us; longer than this is a stopped process. */
#define LOCK_TRIES    20
#define LOCK_PAUSE_NS 5000000

/* How often one group is looked at again. */
#define LEAVE_ROUNDS 8

struct collector {
	const char *only; /* one group, or NULL for all */
	bool dry_run, quiet, ring_only;
	bool keeps;  /* what is kept stays */
	bool counts; /* says nothing of who holds a lock for a moment */
	struct ts_gc_tally removed;
	int status;
};

/* One object under its name; fd is -1 when there is none (or none of ours). */
struct part {
	char path[TS_PATH_BYTES];
	int fd;
	uint64_t bytes;   /* of memory, not of address space */
	const char *keep; /* why it must stay, or NULL */
	bool old;         /* a ledger of another boot: it must go */
};

static void tally(struct collector *gc, const struct part *part, uint64_t bytes)
{
	const char *dot = strrchr(part->path, '.');

	if (dot && (strcmp(dot, ".ledger") == 0 || strcmp(dot, ".reset") == 0))
		gc->removed.ledgers++;
	else
		gc->removed.objects++;
	gc->removed.bytes += bytes;
}

/* Remove the object, unless it must stay, and say what was done or would be. */
static void settle(struct collector *gc, const struct part *part)
{
	if (part->keep) {
		if (!gc->quiet && gc->dry_run)
			printf("would keep %s: %s\n", part->path, part->keep);
		return;
	}
	if (!gc->dry_run && unlink(part->path) < 0) {
		if (errno == ENOENT || gc->quiet)
			return;
		ts_message_say("cannot remove '%s': %s", part->path, strerror(errno));
		gc->status = TS_EXIT_FAILED;
		return;
	}
	tally(gc, part, part->bytes);
	if (!gc->quiet)
		printf("%s %s (%llu KiB)\n", gc->dry_run ? "would remove" : "removed",
			part->path, (unsigned long long)(part->bytes / 1024));
}

/* Open an object of @group's; returns whether there is something under that name. */
static bool open_named(struct collector *gc, const struct ts_name *group, const char *suffix,
	struct part *ret_part)
{
	struct stat st;

	*ret_part = (struct part){.fd = -1};
	int length =
		snprintf(ret_part->path, sizeof(ret_part->path), "%s.%s", group->stem, suffix);
	int r = length < (int)sizeof(ret_part->path) ? 0 : -ENAMETOOLONG;
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
 * (leader/group/attach.h).  Another gc may have removed the ledger while we waited for it.
 */
static int lock_ledger(const struct collector *gc, const struct part *book)
{
	/* A job that is about to start does not wait for somebody who is stopped. */
	int tries = gc->quiet ? 1 : LOCK_TRIES;
	const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
	struct stat st, named;

	/* Who only looks must not be in the way of a job that is about to join, or to leave. */
	if (gc->dry_run)
		return !gc->counts && ts_view_is_locked(book->fd) ? -EAGAIN : 0;
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
	return ts_view_is_locked(fd) ? "a process holds a lock on it" : NULL;
}

/* Why the ring must stay, or NULL; @jobs is why the ledger's jobs need it, or NULL. */
static const char *keep_ring(const struct collector *gc, int fd, const char *jobs)
{
	struct ts_scope scope;
	int r = ts_scope_read(&scope);

	if (r == 0)
		r = ts_ring_ask_use(fd, &scope);
	if (r < 0)
		return keep_unreadable(fd, r);
	switch ((enum ts_ring_use)r) {
	case TS_RING_LOCKED:
		return "a process holds a lock on it";
	case TS_RING_MEMBER:
		return "a process uses it";
	case TS_RING_KEPT:
		return gc->keeps ? "it is kept" : jobs;
	default:
		return jobs;
	}
}

/* Decide about the ledger @book, whose byte 0 we have, and so about the ring beside it. */
static void judge_ledger(struct part *book)
{
	struct ts_ledger *ledger;

	int r = ts_view_ledger(book->fd, &ledger);
	book->old = r == -ESTALE;
	if (r < 0) {
		book->keep = keep_unreadable(book->fd, r);
		return;
	}
	if (ts_ledger_has_live_job(ledger, 0))
		book->keep = "a job of the group is alive";
	free(ledger);
}

static void close_part(struct part *part)
{
	if (part->fd >= 0)
		(void)close(part->fd);
}

/* What stays while the ring stays, for @keep or for a reason of its own. Not open. */
static bool find_belonging(struct collector *gc, const struct ts_name *group,
	const char *suffix, const char *keep, struct part *ret_part)
{
	if (!open_named(gc, group, suffix, ret_part))
		return false;
	if (!ret_part->keep)
		ret_part->keep = keep;
	close_part(ret_part);
	return true;
}

/* Copies of files and their index stay while the ring stays, and go before it. */
static void collect_copies(struct collector *gc, const struct ts_name *group, const char *keep)
{
	struct ts_stage_usage usage = {.files = 0};
	struct part part;

	if (!find_belonging(gc, group, "stage", keep, &part))
		return;
	int r = part.keep ? 0 : ts_stage_remove(part.path, gc->dry_run, &usage);
	if (r == -EPERM)
		part.keep = ts_view_explain(r);
	if (part.keep) {
		settle(gc, &part);
	} else if (r == 0) {
		tally(gc, &part, part.bytes + usage.bytes);
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

/* So do the table of GPUs, the journal, the table of loaders, that of other nodes and its
 * places. */
static void collect_tables(struct collector *gc, const struct ts_name *group, const char *keep)
{
	static const char *const suffixes[] = {
		"device", "journal", "loaders", "peers", "places"};
	struct part part;

	for (size_t i = 0; i < TS_ARRAY_SIZE(suffixes); i++)
		if (find_belonging(gc, group, suffixes[i], keep, &part))
			settle(gc, &part);
}

/*
 * Decide about @book and @ring, which are open or not; reasons go into their @keep.  Returns
 * whether the lock is ours, or there is none.
 */
static bool judge(const struct collector *gc, const struct ts_name *group, struct part *book,
	struct part *ring)
{
	bool locked = true; /* or nothing to lock */

	if (book->fd >= 0) {
		int r = lock_ledger(gc, book);
		locked = r == 0;
		if (r < 0)
			book->keep =
				r == -EAGAIN ? "a process holds its lock" : ts_view_explain(r);
	}
	if (group->foreign && locked) {
		const char *keep = ts_foreign_keep(book->fd, ring->fd);
		book->keep = book->keep ? book->keep : keep;
		ring->keep = ring->keep ? ring->keep : keep;
		return locked;
	}
	if (book->fd >= 0 && locked)
		judge_ledger(book);
	if (ring->fd >= 0)
		ring->keep = locked ? keep_ring(gc, ring->fd, book->fd >= 0 ? book->keep : NULL)
				    : book->keep;
	return locked;
}

/* Returns whether there is a ring that stays, though we had the lock. */
static bool collect_once(struct collector *gc, const struct ts_name *group)
{
	struct part book, ring, reset;

	bool has_book = open_named(gc, group, "ledger", &book);
	bool has_ring = open_named(gc, group, "ring", &ring);
	bool locked = judge(gc, group, &book, &ring);
	collect_copies(gc, group, has_ring ? ring.keep : book.keep);
	collect_tables(gc, group, has_ring ? ring.keep : book.keep);
	/* The ring first: whoever finds a ledger without a ring makes a new one. */
	if (has_ring)
		settle(gc, &ring);
	if (has_ring && ring.keep && !book.keep)
		book.keep = "its ring stays";
	if (!gc->ring_only || book.old) {
		if (has_book)
			settle(gc, &book);
		/* Without a ledger it says nothing. */
		if (find_belonging(gc, group, "reset", book.keep, &reset))
			settle(gc, &reset);
	}
	close_part(&ring);
	close_part(&book); /* and with it our lock */
	return locked && has_ring && ring.keep != NULL;
}

/* Whether nobody needs the ring any more.  Nothing is locked, and nothing printed. */
static bool is_left(const struct collector *gc, const struct ts_name *group)
{
	struct collector look = {.dry_run = true, .quiet = true, .counts = true};
	struct part book, ring;
	bool left = false;

	look.keeps = gc->keeps;
	bool has_book = open_named(&look, group, "ledger", &book);
	if (book.fd >= 0 && !group->foreign)
		judge_ledger(
			&book); /* most have a living job: then the ring need not be read */
	if (has_book && !book.keep && open_named(&look, group, "ring", &ring)) {
		(void)judge(&look, group, &book, &ring);
		left = !ring.keep;
		close_part(&ring);
	}
	close_part(&book);
	return left;
}

/*
 * A job that left while we held the lock went without it, and left its ring to us
 * (leader/group/attach.h).  Each round is one in which others have left.
 */
static void collect_group(struct collector *gc, const struct ts_name *group)
{
	for (int i = 0; i < LEAVE_ROUNDS; i++)
		if (!collect_once(gc, group) || gc->dry_run || !is_left(gc, group))
			return;
}

/* A half-made object: its maker alone knows it. */
static void collect_private(struct collector *gc, const struct ts_name *name)
{
	struct part part = {.fd = -1};
	struct stat st;

	if (snprintf(part.path, sizeof(part.path), "%s.new.%d", name->stem, name->maker) >=
		(int)sizeof(part.path))
		return;
	if (ts_view_open(part.path, true, &part.fd, &st) < 0)
		part.keep = "it belongs to somebody else or is no regular file";
	else if (!name->same_pids)
		part.keep = ts_foreign_keep_private(part.fd);
	else if (ts_process_id(name->maker, true) != 0)
		part.keep = "its maker is alive";
	part.bytes = part.fd >= 0 ? (uint64_t)st.st_blocks * 512 : 0;
	settle(gc, &part);
	close_part(&part);
}

static bool has_object(const struct ts_name *group, const char *suffix)
{
	char path[TS_PATH_BYTES + 8];

	(void)snprintf(path, sizeof(path), "%s.%s", group->stem, suffix);
	return access(path, F_OK) == 0;
}

/* Whether @name is the object at whose name all objects of its group are looked at. */
static bool is_first(const struct ts_name *name)
{
	if (name->kind == TS_NAME_LEDGER)
		return true;
	if (has_object(name, "ledger"))
		return false;
	return name->kind == TS_NAME_RING || !has_object(name, "ring");
}

static void collect(void *context, const struct ts_name *name)
{
	struct collector *gc = context;

	if (gc->only && strcmp(gc->only, name->group) != 0)
		return;
	if (name->kind == TS_NAME_PRIVATE)
		collect_private(gc, name);
	else if (is_first(name))
		collect_group(gc, name); /* all objects, so once is enough */
}

int ts_gc_collect(const char *group, bool dry_run)
{
	struct collector gc = {.only = group, .dry_run = dry_run};

	int r = ts_names_each(collect, &gc);
	if (r < 0) {
		ts_message_say("cannot list the shared memory: %s", strerror(-r));
		gc.status = TS_EXIT_FAILED;
	}
	/* Servers are of no group. */
	unsigned servers = group ? 0 : ts_gc_collect_servers(dry_run);
	if (gc.removed.objects + gc.removed.ledgers + servers == 0)
		printf("nothing to remove\n");
	return gc.status;
}

int ts_gc_count(bool keeps, struct ts_gc_tally *ret_tally)
{
	struct collector gc = {.dry_run = true, .quiet = true, .counts = true, .keeps = keeps};

	int r = ts_names_each(collect, &gc);
	if (r == 0)
		*ret_tally = gc.removed;
	return r;
}

/* Whether somebody kept the ring at @stem. */
static bool was_kept(const char *stem)
{
	struct part part;
	struct ts_view_ring ring;
	struct stat st;
	bool found = false;

	if (snprintf(part.path, sizeof(part.path), "%s.ring", stem) >= (int)sizeof(part.path) ||
		ts_view_open(part.path, true, &part.fd, &st) < 0)
		return false;
	if (ts_view_ring(part.fd, &ring) == 0) {
		found = ring.kept_until_ns != 0;
		free(ring.members);
	}
	(void)close(part.fd);
	return found;
}

static void sweep_kept(void *context, const struct ts_name *name)
{
	struct collector *gc = context;

	if (name->kind == TS_NAME_RING && !name->foreign && was_kept(name->stem))
		collect_group(gc, name);
}

/* Whether a ring of @bytes would be cut (leader/object/limits.c) for want of shared memory. */
static bool is_short_of_room(uint64_t bytes)
{
	struct ts_names names;
	struct statvfs room;

	if (ts_names_init(&names) < 0 || statvfs(names.directory, &room) < 0)
		return false;
	return (uint64_t)room.f_bavail * room.f_frsize / 100 * TS_LIMITS_TMPFS_PERCENT < bytes;
}

void ts_gc_sweep(const char *group, uint64_t ring_bytes)
{
	struct collector gc = {.quiet = true, .ring_only = true, .keeps = true};
	struct ts_name name;

	if (ts_names_own(group, &name) < 0)
		return;
	collect_group(&gc, &name);
	ts_left_remove(group, TS_LEFT_ALL);
	/* With its own ring there the group needs no room. */
	gc.keeps = has_object(&name, "ring") || !is_short_of_room(ring_bytes);
	if (!gc.keeps)
		(void)ts_names_each(sweep_kept, &gc);
}
