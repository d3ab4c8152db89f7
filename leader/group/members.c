/* SPDX-License-Identifier: MIT */
/* Who uses the ring: proof of death, lease words. */
#include "leader/group/store_private.h"
#include "leader/group/words.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <unistd.h>

uint32_t ts_member_high(struct ts_store *store)
{
	uint32_t high = ts_load_relaxed(&store->header->member_high);

	return high < TS_MEMBER_MAX ? high : TS_MEMBER_MAX;
}

int ts_member_ring_fd(struct ts_store *store)
{
	bool reopened = false;
	int fd = ts_object_fd(&store->ring, &reopened);

	if (fd >= 0 && reopened && store->member >= 0)
		ts_object_lock_byte(fd, ts_member_lock_byte((uint32_t)store->member), F_WRLCK);
	return fd;
}

/* ---- proof of death ---- */

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
bool ts_member_is_dead(struct ts_store *store, uint32_t index, uint64_t word)
{
	if ((int32_t)index == store->member || ts_member_is_running(word))
		return false;
	if (ts_member_state(word) == TS_MEMBER_CLEANING)
		return !is_member_elsewhere(store, word);
	return !is_locked(store, index);
}

bool ts_member_is_gone(struct ts_store *store, uint32_t index)
{
	if (index >= TS_MEMBER_MAX)
		return true;
	uint64_t word = ts_load_acquire(&store->members[index].word);
	return ts_member_state(word) != TS_MEMBER_LIVE || ts_member_is_dead(store, index, word);
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

/* ---- lease words ---- */

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

void ts_lease_drop(struct ts_store *store, uint32_t slot)
{
	if (slot >= TS_LEASES || store->member < 0)
		return;
	_Atomic uint64_t *lease = &store->members[store->member].lease[slot];
	uint32_t segment = ts_lease_segment(ts_load_relaxed(lease));

	/* A3 may be another process's, which then hands the segment to our other threads. */
	if (segment < store->shape.segment_count)
		ts_ordered_by_others(&store->segments[segment].word);
	ts_write_release(lease, 0);                    /* R3, pairs with A3 */
	ts_write_release(&store->lease_busy[slot], 0); /* private try-lock */
}

void ts_lease_release(struct ts_store *store, struct ts_lease *lease)
{
	ts_lease_drop(store, lease->slot);
	TS_KILLPOINT(lease_release);
	lease->data = NULL;
}
