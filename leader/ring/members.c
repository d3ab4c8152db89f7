/* SPDX-License-Identifier: MIT */
/* Members: proof of death, lease words, joining, leaving, cleaning up after the dead. */
#include "leader/group/store_private.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <unistd.h>

int ts_member_ring_fd(struct ts_store *store)
{
	bool reopened = false;
	int fd = ts_object_fd(&store->ring, &reopened);

	if (fd >= 0 && reopened && store->member >= 0)
		ts_object_lock_byte(fd, ts_member_lock_byte((uint32_t)store->member), F_WRLCK);
	return fd;
}

/* ---- proof of death --------------------------------------------------------------------- */

/* Whether somebody else holds the lock byte of @index; doubt counts as yes. */
static bool is_locked(struct ts_store *store, uint32_t index)
{
	struct flock lock = {.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = ts_member_lock_byte(index),
		.l_len = 1};
	int fd = ts_member_ring_fd(store);

	return fd < 0 || ts_sys_fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

bool ts_member_is_running(uint64_t word)
{
	uint64_t process = ts_process_id(ts_member_pid(word), true);

	return process != 0 && ts_member_names(word, process);
}

/* Whether some slot shows the process named by @word as a member with its lock held. */
static bool is_member_elsewhere(struct ts_store *store, uint64_t word)
{
	uint32_t high = ts_member_high(store);

	for (uint32_t i = 0; i < high; i++) {
		uint64_t other = ts_load_acquire(&store->members[i].word);
		if (ts_member_state(other) == TS_MEMBER_LIVE && other >> 16 == word >> 16)
			return (int32_t)i == store->member || is_locked(store, i);
	}
	return false;
}

/* Proven dead: lock byte free AND process gone. Either alone is wrong (leader/group/layout.h).
 */
static bool is_dead(struct ts_store *store, uint32_t index, uint64_t word)
{
	if ((int32_t)index == store->member)
		return false;
	if (ts_member_state(word) == TS_MEMBER_CLEANING)
		return !ts_member_is_running(word) && !is_member_elsewhere(store, word);
	/* Of one that lives the lock says it in 1 us, its file in /proc in 20: every waiter
	 * asks all the time. */
	return !is_locked(store, index) && !ts_member_is_running(word);
}

bool ts_member_is_gone(struct ts_store *store, uint32_t index)
{
	if (index >= TS_MEMBER_MAX)
		return true;
	uint64_t word = ts_load_acquire(&store->members[index].word);
	return ts_member_state(word) != TS_MEMBER_LIVE || is_dead(store, index, word);
}

bool ts_member_any_alive(struct ts_store *store)
{
	uint32_t high = ts_member_high(store);

	for (uint32_t i = 0; i < high; i++) {
		if ((int32_t)i != store->member && !ts_member_is_gone(store, i))
			return true;
	}
	return false;
}

/* ---- lease words ------------------------------------------------------------------------ */

int ts_lease_acquire(struct ts_store *store)
{
	if (store->member < 0)
		return -EBUSY;
	for (uint32_t i = 0; i < TS_LEASES; i++)
		if (ts_try_hold(&store->lease_busy[i]))
			return (int)i;
	return -EBUSY;
}

void ts_lease_pin(struct ts_store *store, uint32_t slot, uint32_t segment, uint32_t generation)
{
	ts_write_release(&store->members[store->member].lease[slot],
		ts_lease_pack(
			segment, generation)); /* D1: the caller fences before it relies */
}

void ts_lease_unpin(struct ts_store *store, uint32_t slot)
{
	_Atomic uint64_t *lease = &store->members[store->member].lease[slot];
	uint32_t segment = ts_lease_segment(ts_load_relaxed(lease));

	/* A3 may be another process's, which then hands the segment to our other threads. */
	if (segment < store->shape.segment_count)
		ts_ordered_by_others(&store->segments[segment].word);
	ts_write_release(lease, 0); /* R3, pairs with A3 */
}

void ts_lease_drop(struct ts_store *store, uint32_t slot)
{
	if (slot >= TS_LEASES || store->member < 0)
		return;
	ts_lease_unpin(store, slot);
	ts_write_release(&store->lease_busy[slot], 0); /* private try-lock */
}

void ts_lease_release(struct ts_store *store, struct ts_lease *lease)
{
	ts_lease_drop(store, lease->slot);
	TS_KILLPOINT(lease_release);
	lease->data = NULL;
}

/* ---- joining ---------------------------------------------------------------------------- */

/*
 * Raised before the first pin of the new member: a reclaimer that misses the higher value
 * has its own DRAIN seen by that member (D1, D2).
 */
static void raise_high(struct ts_store *store, uint32_t index)
{
	uint32_t high = ts_load_relaxed(&store->header->member_high);

	while (high < index + 1 && !ts_cas(&store->header->member_high, &high, index + 1))
		continue;
}

/* Take slot @index if it is free. The lock byte comes first: it proves that we live. */
static int join_slot(struct ts_store *store, int fd, uint32_t index, uint64_t self)
{
	struct ts_member *member = &store->members[index];
	uint64_t word = ts_load_acquire(&member->word);

	if (ts_member_state(word) != TS_MEMBER_FREE)
		return -EBUSY;
	int r = ts_object_lock_byte(fd, ts_member_lock_byte(index), F_WRLCK);
	if (r < 0)
		return r;
	TS_KILLPOINT(join_lock);
	raise_high(store, index);
	uint64_t mine = ts_member_pack(TS_MEMBER_LIVE, ts_member_generation(word), self);
	if (!ts_cas(&member->word, &word, mine)) {
		ts_object_lock_byte(fd, ts_member_lock_byte(index), F_UNLCK);
		return -EBUSY;
	}
	TS_KILLPOINT(join_word);
	for (uint32_t i = 0; i < TS_LEASES; i++)
		ts_write_release(&member->lease[i], 0); /* R3: nothing is read yet */
	ts_write_relaxed(&member->job, store->job);
	ts_write_relaxed(&member->joined_ns, ts_now_ns());
	store->member = (int32_t)index;
	TS_KILLPOINT(join_done);
	return 0;
}

/* Take over what the member that left @word behind held; nobody else does at a time. */
static bool take_apart(struct ts_store *store, uint32_t index, uint64_t word)
{
	struct ts_member *member = &store->members[index];
	uint64_t self = ts_process_id(getpid(), false);
	uint64_t mine = ts_member_pack(TS_MEMBER_CLEANING, ts_member_generation(word), self);
	if (!ts_cas(&member->word, &word, mine))
		return false;
	TS_KILLPOINT(clean_word);
	ts_segment_clean(store, index);
	TS_KILLPOINT(clean_segments);
	for (uint32_t i = 0; i < TS_LEASES; i++)
		ts_write_release(&member->lease[i], 0); /* R3, in the name of the dead */
	TS_KILLPOINT(clean_leases);
	bool freed = ts_cas(&member->word, &mine,
		ts_member_pack(TS_MEMBER_FREE, ts_member_generation(mine) + 1, 0));
	TS_KILLPOINT(clean_freed);
	return freed;
}

/*
 * A process that replaced itself by exec keeps pid and start time, and with them what its
 * old program held in the ring; its lock byte went with the descriptor.  Slots in our name
 * are such remains until this program has joined for the first time.
 */
static void clean_own_remains(struct ts_store *store, uint64_t self)
{
	static _Atomic uint64_t joined_as;
	uint32_t high = ts_member_high(store);

	if (ts_load_relaxed(&joined_as) == self)
		return;
	ts_write_relaxed(&joined_as, self);
	for (uint32_t i = 0; i < high; i++) {
		uint64_t word = ts_load_acquire(&store->members[i].word);
		if (ts_member_state(word) == TS_MEMBER_LIVE &&
			word == ts_member_pack(
					TS_MEMBER_LIVE, ts_member_generation(word), self))
			take_apart(store, i, word);
	}
}

int ts_member_join(struct ts_store *store)
{
	/* Asked for here and not cached: after a fork we are somebody else. */
	uint64_t self = ts_process_id(getpid(), false);
	int fd = ts_object_fd(&store->ring, NULL);

	if (fd < 0)
		return fd;
	clean_own_remains(store, self);
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < TS_MEMBER_MAX; i++) {
			if (join_slot(store, fd, i, self) == 0)
				return 0;
		}
		if (ts_member_clean_all(store) == 0)
			break;
	}
	return -EUSERS;
}

/* ---- leaving ---------------------------------------------------------------------------- */

bool ts_member_stop(struct ts_store *store)
{
	bool stopped = true;

	for (uint32_t i = 0; i < TS_WINDOWS; i++)
		stopped &= ts_try_hold(&store->windows[i].busy);
	for (uint32_t i = 0; i < TS_LEASES; i++)
		stopped &= ts_try_hold(&store->lease_busy[i]);
	return stopped;
}

void ts_member_leave(struct ts_store *store)
{
	uint32_t index = (uint32_t)store->member;
	struct ts_member *member = &store->members[index];

	for (uint32_t i = 0; i < TS_WINDOWS; i++)
		ts_segment_seal(store, &store->windows[i]);
	for (uint32_t i = 0; i < TS_LEASES; i++)
		ts_write_release(&member->lease[i], 0); /* R3 */
	uint64_t word = ts_load_relaxed(&member->word);
	/* `job` stays: a ghost still tells whose it was when its worker has gone. */
	ts_cas(&member->word, &word,
		ts_member_pack(TS_MEMBER_FREE, ts_member_generation(word) + 1, 0));
	TS_KILLPOINT(detach_word);
	int fd = ts_object_fd(&store->ring, NULL);
	if (fd >= 0)
		ts_object_lock_byte(fd, ts_member_lock_byte(index), F_UNLCK);
}

/* ---- cleaning --------------------------------------------------------------------------- */

bool ts_member_clean(struct ts_store *store, uint32_t index)
{
	uint64_t word = ts_load_acquire(&store->members[index].word);

	if (ts_member_state(word) == TS_MEMBER_FREE || !is_dead(store, index, word))
		return false;
	return take_apart(store, index, word);
}

uint32_t ts_member_clean_all(struct ts_store *store)
{
	uint32_t high = ts_member_high(store), cleaned = 0;

	for (uint32_t i = 0; i < high; i++)
		cleaned += ts_member_clean(store, i);
	return cleaned;
}

void ts_member_clean_next(struct ts_store *store)
{
	uint32_t high = ts_member_high(store);

	if (high > 0)
		ts_member_clean(store, ts_add_relaxed(&store->clean_next, 1) % high);
}
