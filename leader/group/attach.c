/* SPDX-License-Identifier: MIT */
/* Attaching to a group's shared memory and leaving it. */
#include "leader/group/attach.h"
#include "leader/group/store_private.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <sys/mman.h>
#include <unistd.h>

/* How often one that leaves looks for others that have left meanwhile: each did so at once. */
#define LEAVE_ROUNDS 8

/* ---- ring ------------------------------------------------------------------------------- */

/*
 * Whether a job other than this process keeps the ring: between two epochs all workers of
 * all jobs may be gone for a moment.  We ask when we come or leave, so we do not count.
 */
static bool is_job_alive(struct ts_store *store)
{
	return ts_ledger_has_live_job(store->ledger, ts_process_id(getpid(), false));
}

/* Under the ledger's lock, and nobody uses them; what is of jobs stays @with_jobs. */
static void remove_belongings(struct ts_store *store, bool ring_stays, bool with_jobs)
{
	for (uint32_t i = 0; i < TS_DEPENDENTS; i++) {
		const struct ts_dependent *dependent = &ts_dependents[i];
		if (dependent->of_jobs ? !with_jobs : !ring_stays || dependent->passes)
			dependent->remove(store->dependents[i]);
	}
}

/* Open the ring under the ledger's lock; one that nobody uses or keeps is replaced. */
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
	bool kept = ts_keep_holds(store);
	/* This process may be a job whose workers have said something before it came. */
	remove_belongings(store, kept, ts_ledger_has_live_job(store->ledger, 0));
	if (kept)
		return 0;
	ts_sys_unlink(store->ring.path);
	ts_ring_unmap(store);
	ts_object_close(&store->ring);
	return ts_ring_make(store, wanted);
}

/* ---- attach and detach ------------------------------------------------------------------ */

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
	ts_ledger_leave(store);
	munmap(store, sizeof(*store));
}

static void init(struct ts_store *store, const struct ts_attach_options *options)
{
	store->job = options->job;
	store->keep = options->keep;
	store->member = -1;
	ts_write_relaxed(&store->ring.fd, -1);
	ts_write_relaxed(&store->ledger_object.fd, -1);
	for (uint32_t i = 0; i < TS_WINDOWS; i++)
		store->windows[i].segment = -1;
}

static int attach(struct ts_store *store, const struct ts_attach_options *options)
{
	int r = ts_object_path(store->ring.path, TS_PATH_BYTES, options->group, "ring");

	if (r == 0)
		r = ts_object_path(
			store->ledger_object.path, TS_PATH_BYTES, options->group, "ledger");
	for (uint32_t i = 0; i < TS_DEPENDENTS && r == 0; i++)
		r = ts_object_path(store->dependents[i], TS_PATH_BYTES, options->group,
			ts_dependents[i].suffix);
	if (r == 0)
		r = ts_scope_read(&store->scope);
	if (r == 0)
		r = ts_ledger_enter(store);
	if (r < 0)
		return r;
	TS_KILLPOINT(attach_locked);
	/* Somebody was here: `tsrun gc` of other namespaces asks how long ago that was. */
	(void)ts_sys_futimens(ts_load_relaxed(&store->ledger_object.fd), NULL);
	r = open_ring(store, options->ring_bytes);
	/* Joined before the lock goes, so that nobody takes the ring for abandoned. */
	if (r == 0)
		r = ts_member_join(store);
	if (r == 0)
		ts_keep_extend(store);
	ts_store_unlock(store);
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
	init(store, options);
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

/* Nobody uses the ring any more, and it is still the group's; it may be kept. */
static bool is_left(struct ts_store *store)
{
	return !ts_member_any_alive(store) && !is_job_alive(store) &&
	       ts_object_is_named(&store->ring);
}

/* The ring goes with the last one out, unless it is kept. Under the lock. */
static void remove_left(struct ts_store *store)
{
	/* What belongs to it first: a ring without users makes the next attach do this. */
	bool kept = ts_keep_holds(store);

	remove_belongings(store, kept, false);
	if (!kept)
		ts_sys_unlink(store->ring.path);
	TS_KILLPOINT(detach_unlink);
}

/*
 * Who leaves while somebody else holds the lock goes without it, and that one looks again when
 * it has let go (leader/group/attach.h): each round is one in which others have left.
 */
static void unlink_if_last(struct ts_store *store)
{
	bool left = false;

	for (int i = 0; i < LEAVE_ROUNDS && !left; i++) {
		if (ts_store_lock(store) < 0)
			return;
		left = is_left(store);
		if (left)
			remove_left(store);
		TS_KILLPOINT(detach_looked);
		ts_store_unlock(store);
		if (!left && !is_left(store))
			return;
	}
}

/* All of them, whatever one says. */
static bool stop_belongings(struct ts_store *store)
{
	bool stopped = true;

	for (uint32_t i = 0; i < TS_DEPENDENTS; i++)
		if (ts_dependents[i].stop)
			stopped &= ts_dependents[i].stop(store);
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
	ts_keep_extend(store);
	bool stopped = ts_member_stop(store);
	if (stop_belongings(store) && stopped) {
		ts_member_leave(store);
		unlink_if_last(store);
		ts_object_close(&store->ring);
	}
	ts_object_close(&store->ledger_object);
}

int ts_store_after_fork(struct ts_store *store)
{
	store->member = -1;
	ts_write_relaxed(&store->ring.repair, 0);
	ts_write_relaxed(&store->ledger_object.repair, 0);
	ts_write_relaxed(&store->device, NULL);
	ts_segment_forget_windows(store);
	for (uint32_t i = 0; i < TS_LEASES; i++)
		ts_write_relaxed(&store->lease_busy[i], 0);
	return ts_member_join(store);
}
