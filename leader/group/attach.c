/* SPDX-License-Identifier: MIT */
/* Attaching to a group's shared memory and leaving it. */
#include "leader/group/attach.h"
#include "leader/group/store_private.h"
#include "leader/group/words.h"
#include "shim/hash.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Attaching takes some 100 us, so this lets dozens queue; then we work alone for a while. */
#define LOCK_TRIES 50

/* The lock byte of the ledger. */
#define LOCK_BYTE 0

/* Times the ledger may be replaced under our hands before we give up. */
#define BOOK_TRIES 4

/* ---- ledger -------------------------------------------------------------------------------
 */

static void fill_ledger(void *context, void *start)
{
	const struct ts_scope *scope = context;
	struct ts_ledger *ledger = start;

	ledger->magic = TS_LEDGER_MAGIC;
	ledger->abi_major = TS_ABI_MAJOR;
	ledger->abi_minor = TS_ABI_MINOR;
	ledger->uid = scope->uid;
	memcpy(ledger->boot_id, scope->boot_id, sizeof(ledger->boot_id));
	ledger->user_ns = scope->user_ns;
	ledger->pid_ns = scope->pid_ns;
	ledger->check = ts_hash64(ledger, offsetof(struct ts_ledger, check));
}

static int check_ledger(const struct ts_scope *scope, struct ts_object *book)
{
	struct ts_ledger head;
	int r = ts_object_read_start(ts_load_relaxed(&book->fd), &head, sizeof(head));

	if (r < 0)
		return r;
	if (head.magic != TS_LEDGER_MAGIC)
		return -EBADMSG;
	if (head.abi_major != TS_ABI_MAJOR)
		return -EPROTO;
	if (book->bytes != TS_LEDGER_BYTES ||
		head.check != ts_hash64(&head, offsetof(struct ts_ledger, check)))
		return -EBADMSG;
	return ts_scope_check(scope, head.uid, head.boot_id, head.user_ns, head.pid_ns);
}

static int map_ledger(struct ts_object *book, struct ts_ledger **ret_ledger)
{
	void *map = mmap(NULL, TS_LEDGER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
		ts_load_relaxed(&book->fd), 0);

	if (map == MAP_FAILED)
		return -ENOMEM;
	*ret_ledger = map;
	return 0;
}

static void close_ledger(struct ts_object *book, struct ts_ledger *ledger)
{
	if (ledger)
		munmap(ledger, TS_LEDGER_BYTES);
	ts_object_close(book);
}

/* Open the ledger, making it when it is not there. */
static int open_ledger(
	const struct ts_scope *scope, struct ts_object *book, struct ts_ledger **ret_ledger)
{
	int r = ts_object_open(book);

	if (r == -ENOENT) {
		r = ts_object_make(
			book, TS_LEDGER_BYTES, TS_LEDGER_BYTES, fill_ledger, (void *)scope);
		if (r == -EEXIST)
			r = ts_object_open(book);
	}
	if (r < 0)
		return r;
	r = check_ledger(scope, book);
	if (r == 0)
		r = map_ledger(book, ret_ledger);
	if (r < 0)
		ts_object_close(book);
	return r;
}

/* Errors: -EAGAIN held by somebody for 50 ms. */
static int lock_ledger(struct ts_object *book)
{
	uint32_t never_woken = 0;
	int r = -EAGAIN;

	for (int i = 0; i < LOCK_TRIES && r == -EAGAIN; i++) {
		/* A nap that is no cancellation point, unlike nanosleep(2)'s wrapper. */
		if (i > 0)
			ts_sys_futex_wait(&never_woken, 0, 1000000);
		int fd = ts_object_fd(book, NULL);
		if (fd < 0)
			return fd;
		r = ts_object_lock_byte(fd, LOCK_BYTE, F_WRLCK);
	}
	return r;
}

static void unlock_ledger(struct ts_object *book)
{
	int fd = ts_object_fd(book, NULL);

	if (fd >= 0)
		ts_object_lock_byte(fd, LOCK_BYTE, F_UNLCK);
}

/* Open and lock the ledger that the name leads to. */
static int enter_ledger(struct ts_store *store)
{
	for (int i = 0; i < BOOK_TRIES; i++) {
		int r = open_ledger(&store->scope, &store->book, &store->ledger);
		if (r < 0)
			return r;
		r = lock_ledger(&store->book);
		if (r == 0 && ts_object_is_named(&store->book))
			return 0;
		/* Removed between our open and our lock: another one may be in use already. */
		close_ledger(&store->book, store->ledger);
		store->ledger = NULL;
		if (r < 0)
			return r;
	}
	return -EAGAIN;
}

/* ---- ring
 * ------------------------------------------------------------------------------------- */

/*
 * Whether a job other than this process keeps the ring: between two epochs all workers of
 * all jobs may be gone for a moment.  We ask when we come or leave, so we do not count.
 */
static bool is_job_alive(struct ts_store *store)
{
	return ts_ledger_has_live_job(store->ledger, ts_process_id(getpid(), false));
}

/* Under the ledger's lock, and nobody uses them. */
static void remove_belongings(struct ts_store *store)
{
	for (uint32_t i = 0; i < TS_BELONGINGS; i++)
		ts_belongings[i].remove(store->belongings[i]);
}

/* Open the ring under the ledger's lock; one that nobody alive uses is replaced. */
static int open_ring(struct ts_store *store, uint64_t wanted)
{
	int r = ts_object_open(&store->ring);

	if (r == -ENOENT)
		return ts_ring_make(store, wanted);
	if (r < 0)
		return r;
	r = ts_ring_check(&store->scope, &store->ring, &store->shape);
	if (r == 0)
		r = ts_ring_map(store);
	if (r < 0) {
		ts_object_close(&store->ring);
		return r;
	}
	if (ts_member_any_alive(store) || is_job_alive(store))
		return 0;
	remove_belongings(store);
	ts_sys_unlink(store->ring.path);
	ts_ring_unmap(store);
	ts_object_close(&store->ring);
	return ts_ring_make(store, wanted);
}

/* ---- attach and detach --------------------------------------------------------------------
 */

static enum ts_reason reason_of(int error)
{
	switch (-error) {
	case EPERM:
		return TS_REASON_STORE_FOREIGN;
	case EPROTO:
		return TS_REASON_STORE_ABI;
	case EBADMSG:
		return TS_REASON_STORE_DAMAGED;
	case EXDEV:
		return TS_REASON_STORE_SCOPE;
	case ENOSPC:
	case ENOMEM:
	case EDQUOT:
		return TS_REASON_NO_SPACE;
	case EUSERS:
		return TS_REASON_NO_MEMBER;
	case ENODATA:
		return TS_REASON_DISABLED;
	default:
		return TS_REASON_NO_STORE;
	}
}

static void destroy(struct ts_store *store)
{
	ts_ring_unmap(store);
	ts_object_close(&store->ring);
	close_ledger(&store->book, store->ledger);
	munmap(store, sizeof(*store));
}

static void init(struct ts_store *store, uint64_t job)
{
	store->job = job;
	store->member = -1;
	ts_store_relaxed(&store->ring.fd, -1);
	ts_store_relaxed(&store->book.fd, -1);
	for (uint32_t i = 0; i < TS_WINDOWS; i++)
		store->windows[i].segment = -1;
}

static int attach(struct ts_store *store, const struct ts_attach_options *options)
{
	int r = ts_object_path(store->ring.path, TS_PATH_BYTES, options->group, "ring");

	if (r == 0)
		r = ts_object_path(store->book.path, TS_PATH_BYTES, options->group, "ledger");
	for (uint32_t i = 0; i < TS_BELONGINGS && r == 0; i++)
		r = ts_object_path(store->belongings[i], TS_PATH_BYTES, options->group,
			ts_belongings[i].suffix);
	if (r == 0)
		r = ts_scope_read(&store->scope);
	if (r == 0)
		r = enter_ledger(store);
	if (r < 0)
		return r;
	TS_KILLPOINT(attach_locked);
	/* Somebody was here: `tsrun gc` of other namespaces asks how long ago that was. */
	(void)ts_sys_futimens(ts_load_relaxed(&store->book.fd), NULL);
	r = open_ring(store, options->ring_bytes);
	/* Joined before the lock goes, so that nobody takes the ring for abandoned. */
	if (r == 0)
		r = ts_member_join(store);
	unlock_ledger(&store->book);
	if (r == 0)
		ts_member_clean_all(store);
	return r;
}

int ts_store_attach(const struct ts_attach_options *options, struct ts_store **ret_store,
	enum ts_reason *ret_reason)
{
	/* Not from malloc: the host may be inside its own allocator's hooks. Zeroed, too. */
	struct ts_store *store = mmap(NULL, sizeof(*store), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int r = options->ring_bytes == 0 ? -ENODATA : 0;

	if (store == MAP_FAILED) {
		*ret_reason = TS_REASON_MEMORY;
		return -ENOMEM;
	}
	init(store, options->job);
	if (r == 0)
		r = attach(store, options);
	if (r < 0) {
		destroy(store);
		*ret_reason = reason_of(r);
		return r;
	}
	*ret_store = store;
	return 0;
}

/* The ring goes with the last one out. */
static void unlink_if_last(struct ts_store *store)
{
	if (lock_ledger(&store->book) < 0)
		return; /* the next attach finds nobody alive and replaces the ring */
	if (!ts_member_any_alive(store) && !is_job_alive(store) &&
		ts_object_is_named(&store->ring)) {
		/* What belongs to it first: a ring without users makes the next attach do this.
		 */
		remove_belongings(store);
		ts_sys_unlink(store->ring.path);
		TS_KILLPOINT(detach_unlink);
	}
	unlock_ledger(&store->book);
}

/* All of them, whatever one says. */
static bool stop_belongings(struct ts_store *store)
{
	bool stopped = true;

	for (uint32_t i = 0; i < TS_BELONGINGS; i++)
		if (ts_belongings[i].stop)
			stopped &= ts_belongings[i].stop(store);
	return stopped;
}

void ts_store_detach(struct ts_store *store)
{
	if (!store)
		return;
	if (store->member < 0) {
		destroy(store);
		return;
	}
	/*
	 * Another thread may be looking at the directory this moment, and a process leaves
	 * when it ends anyway: the mappings stay, only the descriptors are closed.
	 */
	bool stopped = ts_member_stop(store);
	if (stop_belongings(store) && stopped) {
		ts_member_leave(store);
		unlink_if_last(store);
		ts_object_close(&store->ring);
	}
	ts_object_close(&store->book);
}

int ts_store_after_fork(struct ts_store *store)
{
	store->member = -1;
	ts_store_relaxed(&store->ring.repair, 0);
	ts_store_relaxed(&store->book.repair, 0);
	ts_store_relaxed(&store->device, NULL);
	ts_segment_forget_windows(store);
	for (uint32_t i = 0; i < TS_LEASES; i++)
		ts_store_relaxed(&store->lease_busy[i], 0);
	return ts_member_join(store);
}

int ts_store_lock(struct ts_store *store)
{
	return lock_ledger(&store->book);
}

void ts_store_unlock(struct ts_store *store)
{
	unlock_ledger(&store->book);
}

struct ts_ledger *ts_store_ledger(struct ts_store *store)
{
	return store->ledger;
}
