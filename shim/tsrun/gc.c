/* SPDX-License-Identifier: MIT */
/* tsrun gc: remove what the dead left behind. */
#include "shim/tsrun/gc.h"
#include "leader/files/index.h"
#include "leader/group/left.h"
#include "leader/object/limits.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/sys.h"
#include "shim/tsrun/commands.h"
#include "shim/tsrun/message.h"
#include "shim/tsrun/names.h"
#include "shim/tsrun/server.h"
#include "shim/tsrun/units.h"
#include "shim/tsrun/view.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

/* Attaching holds the lock for some 100 us; longer than this is a stopped process. */
#define LOCK_TRIES    20
#define LOCK_PAUSE_NS 5000000

/* How often one group is looked at again. */
#define LEAVE_ROUNDS 8

/* ---- groups of other namespaces ---------------------------------------------------------- */

/*
 * Objects of other namespaces take up memory, and are in nobody's way.  To remove one is to
 * unlink it, under the lock that everybody takes (leader/group/attach.h): a process that has it
 * mapped goes on with it, and the next one to join makes another.  So a wrong verdict costs a
 * job its counters and a warm ring, never a byte.
 *
 * - A lock belongs to the file, whatever namespace its holder is in.  A member of a ring holds
 *   one as long as it lives.  So an object with a lock is in use, whatever its header says:
 *   containers may be shown a boot id of their own.
 * - Without any lock there is no member.  Processes of another boot are all gone.
 * - Then jobs are left whose workers, the members, have ended and will be started again.  If
 *   their process ids are ours (other user namespace, same PID namespace), they are looked up.
 *   A job that has said that it leaves is gone.  Any other may live: then the group stays until
 *   nobody has written to the ledger for FOREIGN_IDLE_S.
 */

/* Longer than any pause between two epochs. */
#define FOREIGN_IDLE_S 3600

/* Whether nobody has written into the object behind @fd, if there is one, for long. */
static bool is_idle(int fd)
{
	struct stat st;

	if (fd < 0)
		return true;
	return fstat(fd, &st) == 0 && st.st_mtime < time(NULL) - FOREIGN_IDLE_S;
}

/* Whether a job has not said that it is leaving. */
static bool has_open_job(struct ts_ledger *ledger)
{
	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		struct ts_job_row *row = ts_ledger_job(ledger, i);
		if (ts_load_relaxed(&row->id) != 0 && !ts_load_relaxed(&row->ended))
			return true;
	}
	return false;
}

/*
 * Why a group of other namespaces must stay, or NULL.  @book is its ledger, byte 0 of which is
 * locked, @ring its ring; -1 for one that is not there.
 */
static const char *keep_foreign(int book, int ring)
{
	struct ts_view_origin origin;
	struct ts_ledger *ledger;
	const char *keep = NULL;

	if ((book >= 0 && ts_view_is_locked(book)) || (ring >= 0 && ts_view_is_locked(ring)))
		return "a process of another namespace holds a lock on it";
	int r = book < 0 ? -ENOENT : ts_view_ledger(book, &origin, &ledger);
	if (r < 0) {
		/* Without a ledger that can be read, its age is all there is. */
		return is_idle(book) && is_idle(ring) ? NULL
						      : "it cannot be read, and is young";
	}
	if (!origin.same_boot)
		keep = NULL;
	else if (origin.same_pids)
		keep = ts_ledger_has_live_job(ledger, 0) ? "a job of the group is alive" : NULL;
	else if (has_open_job(ledger) && !(is_idle(book) && is_idle(ring)))
		keep = "a job of another PID namespace may be alive";
	free(ledger);
	return keep;
}

/* ---- groups of our namespaces ------------------------------------------------------------ */

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

	if (dot && strcmp(dot, ".ledger") == 0)
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

	int r = ts_view_ledger(book->fd, NULL, &ledger);
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

	if (!find_belonging(gc, group, ts_dependents[TS_DEPENDENT_STAGE].suffix, keep, &part))
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

static void collect_table(
	struct collector *gc, const struct ts_name *group, const char *suffix, const char *keep)
{
	struct part part;

	if (find_belonging(gc, group, suffix, keep, &part))
		settle(gc, &part);
}

/* All else that goes with the ring, and what an earlier version may have left. */
static void collect_tables(struct collector *gc, const struct ts_name *group, const char *keep)
{
	for (size_t i = 0; i < TS_DEPENDENTS; i++)
		if (i != TS_DEPENDENT_STAGE)
			collect_table(gc, group, ts_dependents[i].suffix, keep);
	collect_table(gc, group, TS_NAMES_OLD, keep);
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
		const char *keep = keep_foreign(book->fd, ring->fd);
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
	struct part book, ring;

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
	if (has_book && (!gc->ring_only || book.old))
		settle(gc, &book);
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
		part.keep = is_idle(part.fd) ? NULL : "its maker is of another PID namespace";
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

/* ---- servers of `tsrun cluster` ---------------------------------------------------------- */

/* Of a server that was found in a place. */
struct left_server {
	struct ts_server_files files;
	struct ts_server_record record;
	bool has_record;
};

/* "server.<16 hexadecimal digits>.<anything>"; false: another name. */
static bool parse_server(const char *name, uint64_t *ret_number)
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
static const char *keep_server(struct left_server *left)
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
static bool is_server_locked(const struct ts_server_files *files)
{
	int fd = ts_sys_open(files->lock, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);

	if (fd < 0)
		return false;
	bool locked = ts_sys_flock(fd, LOCK_SH | LOCK_NB) == -EAGAIN;
	ts_sys_close(fd);
	return locked;
}

static void say_server(
	const char *verb, const char *place, uint64_t number, const struct left_server *left)
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

static bool list_server(const char *place, uint64_t number, struct left_server *left)
{
	const char *why =
		is_server_locked(&left->files) ? "a tsrun works at it" : keep_server(left);

	if (why)
		printf("would keep %s/server.%016" PRIx64 ".*: %s\n", place, number, why);
	else
		say_server("would remove", place, number, left);
	return !why;
}

static bool clear_server(const char *place, uint64_t number, struct left_server *left)
{
	/* No lock is made for what stays. */
	if (keep_server(left))
		return false;
	int lock = ts_server_try_lock(&left->files);
	if (lock < 0)
		return false;
	bool goes = !keep_server(left);
	if (goes) {
		ts_server_remove_files(&left->files, left->has_record ? &left->record : NULL);
		say_server("removed", place, number, left);
	}
	ts_sys_close(lock);
	return goes;
}

/* All files of one server have one number, and so stand together. */
static unsigned collect_place(const char *place, bool dry_run, struct left_server *left)
{
	struct dirent **entries;
	uint64_t number, last = 0;
	unsigned found = 0;
	bool any = false;
	int count = scandir(place, &entries, NULL, alphasort);

	for (int i = 0; i < count; i++) {
		bool is_new =
			parse_server(entries[i]->d_name, &number) && !(any && number == last);
		if (is_new && ts_server_name_files(place, number, &left->files) == 0) {
			found += dry_run ? list_server(place, number, left)
					 : clear_server(place, number, left);
			last = number;
			any = true;
		}
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return found;
}

/*
 * Remove, or with @dry_run list, the files of this user's servers on this node whose process is
 * gone, with what they kept values in; and what a killed `tsrun cluster up` has left.  Which
 * other tsruns work at stays.  Prints each; returns how many there were.
 */
static unsigned collect_servers(bool dry_run)
{
	struct left_server *left = calloc(1, sizeof(*left));
	char place[PATH_MAX];
	unsigned found = 0;

	for (unsigned i = 0; left && i < TS_SERVER_PLACES; i++)
		if (ts_server_place(i, place))
			found += collect_place(place, dry_run, left);
	free(left);
	return found;
}

/* ---- all of it --------------------------------------------------------------------------- */

int ts_gc_command(const struct ts_arguments *arguments, const struct ts_config *config)
{
	const char *group = ts_arguments_group(arguments, config, false);
	bool dry_run = arguments->flag[TS_FLAG_DRY_RUN];
	struct collector gc = {.only = group, .dry_run = dry_run};

	int r = ts_names_each(collect, &gc);
	if (r < 0) {
		ts_message_say("cannot list the shared memory: %s", strerror(-r));
		gc.status = TS_EXIT_FAILED;
	}
	/* Servers are of no group. */
	unsigned servers = group ? 0 : collect_servers(dry_run);
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

/* Whether somebody kept the ring of @group. */
static bool was_kept(struct collector *gc, const struct ts_name *group)
{
	struct part part;
	struct ts_view_ring ring;
	bool found = false;

	(void)open_named(gc, group, "ring", &part);
	if (part.fd >= 0 && ts_view_ring(part.fd, &ring) == 0) {
		found = ring.kept_until_ns != 0;
		free(ring.members);
	}
	close_part(&part);
	return found;
}

static void sweep_kept(void *context, const struct ts_name *name)
{
	struct collector *gc = context;

	if (name->kind == TS_NAME_RING && !name->foreign && was_kept(gc, name))
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
	uint32_t why;

	if (ts_names_own(group, &name) < 0)
		return;
	collect_group(&gc, &name);
	ts_left_remove(group, TS_LEFT_ALL);
	/* With its own ring there the group needs no room. */
	gc.keeps = has_object(&name, "ring") ||
		   !is_short_of_room(ts_limits_ring(ring_bytes, ts_limits_memory(), &why));
	if (!gc.keeps)
		(void)ts_names_each(sweep_kept, &gc);
}
