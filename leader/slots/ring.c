/* SPDX-License-Identifier: MIT */
/* Rings of device memory: who owns one, offering, withdrawing, leaving. */
#include "leader/slots/device_private.h"

#include "shim/identity.h"
#include "shim/sys.h"

#include <string.h>

/* Times a row may change under our eyes before we say that it is busy. */
#define READ_TRIES 4

/* Between two looks whether a ring that is withdrawn is still in use. */
#define NAP_NS UINT64_C(500000)

static bool is_mine(const struct ts_device *device, uint64_t word)
{
	return ts_device_ring_state(word) != TS_RING_EMPTY &&
	       ts_device_ring_owner(word) == device->member &&
	       ts_device_ring_tenure(word) == device->tenure;
}

/* ---- the owner -------------------------------------------------------------------------- */

static uint32_t count_lost(struct ts_device_row *row, uint64_t slots)
{
	uint32_t lost = 0;

	for (uint64_t i = 0; i < slots; i++)
		lost += ts_device_slot_state(ts_load_relaxed(&row->slots[i].word)) ==
			TS_SLOT_LOST;
	return lost;
}

/* What a LIVE ring is; may be torn, so the caller looks at the ring word again. */
static int read_owner(struct ts_device_row *row, struct ts_device_owner *owner)
{
	uint64_t slots = ts_load_acquire(&row->slot_count);

	owner->slot_bytes = ts_load_acquire(&row->slot_bytes);
	for (uint32_t i = 0; i < TS_DEVICE_HANDLE / 8; i++) {
		uint64_t part = ts_load_acquire(&row->handle[i]);
		memcpy(owner->handle + (size_t)i * 8, &part, 8);
	}
	if (!ts_device_is_shape(slots, owner->slot_bytes))
		return -EBADMSG;
	owner->slot_count = (uint32_t)slots;
	owner->lost = count_lost(row, slots);
	return 0;
}

int ts_device_owner(struct ts_device *device, uint32_t ring, struct ts_device_owner *ret_owner)
{
	struct ts_device_owner owner = {.slot_count = 0};
	int r = ts_device_check(device, ring);

	if (r < 0)
		return r;
	if (ts_load_relaxed(&device->stopped))
		return -ESTALE;
	struct ts_device_row *row = &device->table->rows[ring];
	for (int i = 0; i < READ_TRIES; i++) {
		uint64_t word = ts_device_settle(device, row);
		if (ts_device_ring_state(word) == TS_RING_EMPTY)
			return -ENODEV;
		if (ts_device_ring_state(word) != TS_RING_LIVE)
			return -EBUSY;
		r = read_owner(row, &owner);
		if (ts_load_acquire(&row->word) != word)
			continue;
		if (r < 0)
			return r;
		owner.generation = ts_device_ring_generation(word);
		owner.mine = is_mine(device, word);
		*ret_owner = owner;
		return 0;
	}
	return -EBUSY;
}

bool ts_device_is_offered(struct ts_device *device, uint32_t ring, uint32_t *ret_generation)
{
	if (ts_device_check(device, ring) < 0)
		return false;
	uint64_t word = ts_load_relaxed(&device->table->rows[ring].word);
	*ret_generation = ts_device_ring_generation(word);
	return ts_device_ring_state(word) == TS_RING_LIVE;
}

/* Every slot gets a new turn: what is still tried for older ones fails. */
static void renew_slots(struct ts_device_row *row)
{
	for (uint32_t i = 0; i < TS_DEVICE_SLOTS; i++) {
		uint64_t word = ts_load_relaxed(&row->slots[i].word), fresh;
		do {
			fresh = ts_device_slot_pack(
				TS_SLOT_FREE, 0, 0, ts_device_slot_turn(word) + 1);
		} while (!ts_cas(&row->slots[i].word, &word, fresh));
	}
}

/* Write what the ring is, which is MAKING and ours. */
static void fill_row(
	struct ts_device_row *row, const uint8_t *handle, uint32_t slots, uint64_t slot_bytes)
{
	/* V1; each one a release, for who reads them looks at the ring word once more. */
	ts_write_release(&row->slot_bytes, slot_bytes);
	ts_write_release(&row->slot_count, slots);
	for (uint32_t i = 0; i < TS_DEVICE_HANDLE / 8; i++) {
		uint64_t part;
		memcpy(&part, handle + (size_t)i * 8, 8);
		ts_write_release(&row->handle[i], part);
	}
	renew_slots(row);
}

static int offer(struct ts_device *device, struct ts_device_row *row, const uint8_t *handle,
	uint32_t slots, uint64_t slot_bytes)
{
	uint64_t word = ts_device_settle(device, row);
	uint32_t generation = ts_device_ring_generation(word);
	uint64_t making =
		ts_device_ring_pack(TS_RING_MAKING, device->member, device->tenure, generation);
	uint64_t live =
		ts_device_ring_pack(TS_RING_LIVE, device->member, device->tenure, generation);

	if (ts_device_ring_state(word) != TS_RING_EMPTY || !ts_cas(&row->word, &word, making))
		return -EEXIST;
	TS_KILLPOINT(device_making);
	fill_row(row, handle, slots, slot_bytes);
	TS_KILLPOINT(device_renewed);
	if (!ts_cas(&row->word, &making, live))
		return -EBADMSG; /* MAKING is nobody else's to end while we live */
	TS_KILLPOINT(device_live);
	return 0;
}

int ts_device_offer(struct ts_device *device, uint32_t ring,
	const uint8_t handle[TS_DEVICE_HANDLE], uint32_t slots, uint64_t slot_bytes)
{
	int r = ts_device_check(device, ring);

	if (r == 0 && !ts_device_is_shape(slots, slot_bytes))
		r = -EINVAL;
	if (r < 0)
		return r;
	/* Held meanwhile, so that our tenure cannot end while we write into the row. */
	int hold = ts_device_begin(device, device->busy, TS_DEVICE_HOLDS);
	if (hold < 0)
		return hold;
	r = offer(device, &device->table->rows[ring], handle, slots, slot_bytes);
	ts_device_hold_end(device, (uint32_t)hold);
	return r;
}

/* ---- withdrawing ------------------------------------------------------------------------ */

/** Slots of a ring that is withdrawn. */
struct use {
	int used; /* by somebody who may still end it */
	int lost;
};

static struct use count_use(struct ts_device *device, uint32_t ring, uint32_t generation)
{
	struct ts_device_row *row = &device->table->rows[ring];
	struct use use = {.used = 0};

	for (uint32_t i = 0; i < TS_DEVICE_SLOTS; i++) {
		enum ts_slot_state state =
			ts_device_slot_state(ts_device_recover(device, &row->slots[i]));
		if (state == TS_SLOT_TAKEN || state == TS_SLOT_WRITING ||
			ts_device_is_pinned(device, ring, i, generation))
			use.used++;
		else if (state != TS_SLOT_FREE && state != TS_SLOT_READY)
			use.lost++;
	}
	return use;
}

/*
 * From LIVE to CLOSING, or find that it is; *ret_word is CLOSING then.
 * Errors: -ENOENT it is not ours; -EBUSY it is MAKING.
 */
static int close_ring(
	const struct ts_device *device, struct ts_device_row *row, uint64_t *ret_word)
{
	uint64_t word = ts_load_acquire(&row->word);

	if (!is_mine(device, word))
		return -ENOENT;
	if (ts_device_ring_state(word) == TS_RING_MAKING)
		return -EBUSY;
	*ret_word = ts_device_ring_pack(TS_RING_CLOSING, device->member, device->tenure,
		ts_device_ring_generation(word));
	return word == *ret_word || ts_cas(&row->word, &word, *ret_word) ? 0 : -EBUSY;
}

int ts_device_withdraw(struct ts_device *device, uint32_t ring, uint64_t timeout_ns)
{
	uint64_t start = ts_now_ns(), closing;
	uint32_t never_woken = 0;
	int r = ts_device_check(device, ring);

	if (r < 0)
		return r;
	struct ts_device_row *row = &device->table->rows[ring];
	int kept = (int)ts_load_relaxed(&device->kept[ring]);
	r = close_ring(device, row, &closing);
	if (r < 0)
		return r == -ENOENT && kept ? kept : r;
	TS_KILLPOINT(device_closing);
	ts_fence_full(); /* P3 */
	uint32_t generation = ts_device_ring_generation(closing);
	struct use use = count_use(device, ring, generation);
	while (use.used > 0 && ts_now_ns() - start < timeout_ns) {
		ts_sys_futex_wait(&never_woken, 0, NAP_NS);
		use = count_use(device, ring, generation);
	}
	if (use.used > 0)
		return use.used + use.lost;
	/* LOST slots keep the memory, but do not keep others from offering theirs. */
	ts_write_relaxed(&device->kept[ring], (uint32_t)use.lost);
	if (use.lost > 0)
		ts_device_memory_end(device, ring);
	ts_cas(&row->word, &closing, ts_device_ring_pack(TS_RING_EMPTY, 0, 0, generation + 1));
	TS_KILLPOINT(device_emptied);
	return use.lost;
}

/* Withdraw what this process owns at @ring; false while somebody uses it. */
static bool give_up(struct ts_device *device, uint32_t ring)
{
	(void)ts_device_withdraw(device, ring, 0);
	/* Memory of lost slots goes with the process, which nobody has to wait for. */
	return !is_mine(device, ts_load_acquire(&device->table->rows[ring].word));
}

/* ---- leaving ---------------------------------------------------------------------------- */

bool ts_device_stop(struct ts_store *store)
{
	struct ts_device *device = ts_load_acquire(&store->device);
	bool stopped = true;

	/* A fork child has nothing there, whatever its parent holds. */
	if (!device || device->serial != ts_identity_serial())
		return true;
	ts_write_relaxed(&device->stopped, 1);
	for (uint32_t i = 0; i < TS_DEVICE_HOLDS; i++)
		stopped &= ts_try_hold(&device->busy[i]);
	for (uint32_t i = 0; i < TS_DEVICE_MAPS; i++)
		stopped &= ts_try_hold(&device->mapping[i]);
	for (uint32_t i = 0; i < TS_DEVICE_RINGS; i++)
		stopped &= give_up(device, i);
	return stopped;
}
