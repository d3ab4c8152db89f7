/* SPDX-License-Identifier: MIT */
/* The objects of a group: the ledger's and its lock, and those that go with a ring or its jobs.
 */
#include "leader/group/attach.h"
#include "leader/group/store_private.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

/* Attaching takes some 100 us, so this lets dozens queue; then we work alone for a while. */
#define LOCK_TRIES 50

/* The lock byte of the ledger. */
#define LOCK_BYTE 0

/* Times the ledger may be replaced under our hands before we give up. */
#define LEDGER_TRIES 4

static void fill_ledger(void *context, void *start)
{
	ts_object_head_fill(
		start, TS_LEDGER_MAGIC, TS_ABI, context, offsetof(struct ts_ledger, check));
}

/*
 * Map the ledger that was just opened, or close it where it cannot be trusted; with a @scope of
 * NULL, wherever it was made.
 */
static int map_ledger(const struct ts_scope *scope, struct ts_object *object, int protection,
	struct ts_ledger **ret_ledger)
{
	struct ts_ledger head;
	void *map = MAP_FAILED;
	int fd = ts_load_relaxed(&object->fd);
	int r = ts_object_read_start(fd, &head, sizeof(head));

	if (r == 0)
		r = ts_ledger_check(&head);
	if (r == 0 && object->bytes != TS_LEDGER_BYTES)
		r = -EBADMSG;
	if (r == 0 && scope)
		r = ts_scope_check(scope, &head.head);
	if (r == 0) {
		map = mmap(NULL, TS_LEDGER_BYTES, protection, MAP_SHARED, fd, 0);
		r = map == MAP_FAILED ? -ENOMEM : 0;
	}
	if (r < 0)
		ts_object_close(object);
	else
		*ret_ledger = map;
	return r;
}

void ts_ledger_leave(struct ts_store *store)
{
	if (store->ledger)
		munmap(store->ledger, TS_LEDGER_BYTES);
	store->ledger = NULL;
	ts_object_close(&store->ledger_object);
}

int ts_ledger_open(
	const struct ts_scope *scope, struct ts_object *object, struct ts_ledger **ret_ledger)
{
	int r = ts_object_open(object);

	return r < 0 ? r : map_ledger(scope, object, PROT_READ | PROT_WRITE, ret_ledger);
}

/* Open the ledger, making it when it is not there. */
static int open_ledger(
	const struct ts_scope *scope, struct ts_object *object, struct ts_ledger **ret_ledger)
{
	int r = ts_object_open(object);

	if (r == -ENOENT) {
		r = ts_object_make(
			object, TS_LEDGER_BYTES, TS_LEDGER_BYTES, fill_ledger, (void *)scope);
		if (r == -EEXIST)
			r = ts_object_open(object);
	}
	return r < 0 ? r : map_ledger(scope, object, PROT_READ | PROT_WRITE, ret_ledger);
}

/* ---- without joining -------------------------------------------------------------------- */

bool ts_group_has_ring(const char *group)
{
	char path[TS_PATH_BYTES];
	struct stat found;
	return ts_object_path(path, sizeof(path), group, "ring") == 0 &&
	       ts_sys_stat(path, &found) == 0;
}

static struct ts_ledger *map_unjoined(const char *group, int protection)
{
	struct ts_object object = {.fd = -1};
	struct ts_ledger *ledger = NULL;

	if (ts_object_path(object.path, sizeof(object.path), group, "ledger") < 0 ||
		ts_object_open(&object) < 0 ||
		map_ledger(NULL, &object, protection, &ledger) < 0)
		return NULL;
	ts_object_close(&object);
	return ledger;
}

struct ts_ledger *ts_ledger_map(const char *group)
{
	return map_unjoined(group, PROT_READ);
}

struct ts_ledger *ts_ledger_map_to_count(const char *group)
{
	return map_unjoined(group, PROT_READ | PROT_WRITE);
}

void ts_ledger_unmap(struct ts_ledger *ledger)
{
	if (ledger)
		munmap(ledger, TS_LEDGER_BYTES);
}

bool ts_group_has_job(const char *group, uint64_t id)
{
	struct ts_ledger *ledger = ts_group_has_ring(group) ? ts_ledger_map(group) : NULL;
	bool found = ledger && ts_ledger_row_of(ledger, id);
	ts_ledger_unmap(ledger);
	return found;
}

void ts_group_end_job(const char *group, uint64_t id)
{
	struct ts_ledger *ledger = ts_ledger_map_to_count(group);
	if (ledger)
		ts_ledger_end_job(ledger, id);
	ts_ledger_unmap(ledger);
}

/* ---- joining ---------------------------------------------------------------------------- */

int ts_store_lock(struct ts_store *store)
{
	uint32_t never_woken = 0;
	int r = -EAGAIN;

	for (int i = 0; i < LOCK_TRIES && r == -EAGAIN; i++) {
		/* A nap that is no cancellation point, unlike nanosleep(2)'s wrapper. */
		if (i > 0)
			ts_sys_futex_wait(&never_woken, 0, 1000000);
		int fd = ts_object_fd(&store->ledger_object, NULL);
		if (fd < 0)
			return fd;
		r = ts_object_lock_byte(fd, LOCK_BYTE, F_WRLCK);
	}
	return r;
}

void ts_store_unlock(struct ts_store *store)
{
	int fd = ts_object_fd(&store->ledger_object, NULL);

	if (fd >= 0)
		ts_object_lock_byte(fd, LOCK_BYTE, F_UNLCK);
}

int ts_ledger_enter(struct ts_store *store)
{
	for (int i = 0; i < LEDGER_TRIES; i++) {
		int r = open_ledger(&store->scope, &store->ledger_object, &store->ledger);
		if (r < 0)
			return r;
		r = ts_store_lock(store);
		if (r == 0 && ts_object_is_named(&store->ledger_object))
			return 0;
		/* Removed between our open and our lock: another one may be in use already. */
		ts_ledger_leave(store);
		if (r < 0)
			return r;
	}
	return -EAGAIN;
}

struct ts_ledger *ts_store_ledger(struct ts_store *store)
{
	return store->ledger;
}

/* ---- objects that go with a ring -------------------------------------------------------- */

/** What is looked for. */
struct wanted {
	struct ts_store *store;
	const struct ts_dependent_kind *kind;
};

static void fill(void *context, void *start)
{
	const struct wanted *wanted = context;
	const struct ts_dependent_kind *kind = wanted->kind;
	struct ts_dependent_head *head = start;

	head->ring_device = kind->of_jobs ? 0 : wanted->store->ring.device;
	head->ring_inode = kind->of_jobs ? 0 : wanted->store->ring.inode;
	head->total_bytes = kind->bytes;
	ts_object_head_fill(head, kind->magic, kind->abi, &wanted->store->scope,
		offsetof(struct ts_dependent_head, check));
}

/* Errors: -ESTALE it belongs to another ring; and as for ts_dependent_map(). */
static int check(const struct wanted *wanted, const struct ts_object *object)
{
	const struct ts_store *store = wanted->store;
	const struct ts_dependent_kind *kind = wanted->kind;
	struct ts_dependent_head head;
	int r = ts_object_read_start(ts_load_relaxed(&object->fd), &head, sizeof(head));

	if (r == 0)
		r = ts_object_head_check(&head, kind->magic, kind->abi,
			offsetof(struct ts_dependent_head, check));
	if (r == 0 && (head.total_bytes != kind->bytes || object->bytes != kind->bytes))
		r = -EBADMSG;
	if (r == 0)
		r = ts_scope_check(&store->scope, &head.head);
	if (r < 0 || kind->of_jobs)
		return r;
	return head.ring_device == store->ring.device && head.ring_inode == store->ring.inode
		       ? 0
		       : -ESTALE;
}

static int make(struct wanted *wanted, struct ts_object *object)
{
	uint64_t bytes = wanted->kind->bytes;

	return ts_object_make(
		object, bytes, wanted->kind->is_sparse ? TS_PAGE_BYTES : bytes, fill, wanted);
}

/* Under the group's lock. */
static int open_or_make(struct wanted *wanted, struct ts_object *object)
{
	/* Who still uses a ring that was replaced must not replace what is the new one's. */
	if (!wanted->kind->of_jobs && !ts_object_is_named(&wanted->store->ring))
		return -ESTALE;
	int r = ts_object_open(object);
	if (r == -ENOENT)
		return make(wanted, object);
	if (r < 0)
		return r;
	r = check(wanted, object);
	if (r == -ESTALE) {
		/* Left by a ring that was removed by hand; its users keep theirs. */
		ts_object_close(object);
		ts_sys_unlink(object->path);
		return make(wanted, object);
	}
	if (r < 0)
		ts_object_close(object);
	return r;
}

/* Map and close it.  Errors: -ENOMEM. */
static int map_object(struct ts_object *object, uint64_t bytes, void **ret_start)
{
	void *start = MAP_FAILED;

	if (bytes <= ts_limits_address_space())
		start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			ts_load_relaxed(&object->fd), 0);
	ts_object_close(object);
	if (start == MAP_FAILED)
		return -ENOMEM;
	*ret_start = start;
	return 0;
}

int ts_dependent_map(
	struct ts_store *store, const struct ts_dependent_kind *kind, void **ret_start)
{
	struct wanted wanted = {.store = store, .kind = kind};
	struct ts_object object = {.fd = -1};

	memcpy(object.path, store->dependents[kind->which], sizeof(object.path));
	int r = ts_store_lock(store);
	if (r < 0)
		return r;
	r = open_or_make(&wanted, &object);
	ts_store_unlock(store);
	return r < 0 ? r : map_object(&object, kind->bytes, ret_start);
}
