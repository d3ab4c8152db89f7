/* SPDX-License-Identifier: MIT */
/* The table of a group's GPUs: finding or making it, who is there, finding rows. */
#include "leader/slots/device_private.h"

#include "shim/hash.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <string.h>
#include <sys/mman.h>

#define MAGIC UINT64_C(0x6563697665647374) /* "tsdevice", little endian */

/* Whether a process lives costs some 50 us to ask; a dead one is found this much later. */
#define ALIVE_FOR_NS UINT64_C(10000000)

/* A few hundred steps of a training job; who comes later meets the others again. */
#define MEETING_NS UINT64_C(10000000000)

/* ---- joining ---------------------------------------------------------------------------- */

static int join(struct ts_store *store, struct ts_device *device)
{
	void *table;

	device->store = store;
	device->serial = ts_identity_serial();
	device->member = (uint32_t)store->member;
	device->tenure =
		ts_member_generation(ts_load_acquire(&store->members[device->member].word));
	int r = ts_belonging_map(store, TS_BELONGING_DEVICE, MAGIC, TS_DEVICE_ABI,
		sizeof(struct ts_device_table), &table);
	if (r < 0)
		return r;
	device->table = table;
	/* Of earlier tenures; they count for nothing, but generations of members come back. */
	for (uint32_t i = 0; i < TS_DEVICE_HOLDS; i++)
		ts_write_release(&device->table->lines[device->member].lease[i], 0); /* V3 */
	for (uint32_t i = 0; i < TS_DEVICE_MAPS; i++)
		ts_write_release(&device->table->maps[device->member].map[i], 0); /* V4 */
	return 0;
}

int ts_device_attach(struct ts_store *store, struct ts_device **ret_device)
{
	struct ts_device *device = ts_load_acquire(&store->device);

	if (store->member < 0)
		return -EINVAL;
	if (device && device->serial == ts_identity_serial()) {
		if (ts_load_relaxed(&device->stopped))
			return -ESTALE;
		*ret_device = device;
		return 0;
	}
	/* Not from malloc: the host may be inside its own allocator's hooks. Zeroed, too. */
	device = mmap(NULL, sizeof(*device), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (device == MAP_FAILED)
		return -ENOMEM;
	int r = join(store, device);
	if (r < 0) {
		munmap(device, sizeof(*device));
		return r;
	}
	ts_write_release(&store->device, device); /* pairs with the load above: complete */
	*ret_device = device;
	return 0;
}

/* ---- who is there ----------------------------------------------------------------------- */

int ts_device_check(const struct ts_device *device, uint32_t ring)
{
	if (device->serial != ts_identity_serial())
		return -ECHILD;
	return ring < TS_DEVICE_RINGS ? 0 : -EINVAL;
}

bool ts_device_is_over(struct ts_device *device, uint32_t member, uint32_t tenure)
{
	if (member == device->member && tenure == device->tenure)
		return false;
	uint64_t word = ts_load_acquire(&device->store->members[member].word);
	if (ts_member_generation(word) != tenure || ts_member_state(word) == TS_MEMBER_FREE)
		return true;
	uint64_t now = ts_now_ns();
	if (now < ts_load_relaxed(&device->alive_until[member]))
		return false;
	if (!ts_member_is_gone(device->store, member)) {
		ts_write_relaxed(&device->alive_until[member], now + ALIVE_FOR_NS);
		return false;
	}
	return true;
}

/* ---- what the dead leave ---------------------------------------------------------------- */

bool ts_device_is_held(
	struct ts_device *device, const _Atomic uint64_t *pins, uint32_t each, uint64_t wanted)
{
	uint64_t any_tenure = ts_device_pin_tenure_put(~UINT64_C(0));
	uint32_t count = ts_member_high(device->store) * each;

	for (uint32_t i = 0; i < count; i++) {
		/* B3, B4; pairs with V3, V4. */
		uint64_t pin = ts_load_acquire(&pins[i]);
		if ((pin & ~any_tenure) == wanted &&
			!ts_device_is_over(device, i / each, ts_device_pin_tenure(pin)))
			return true;
	}
	return false;
}

bool ts_device_is_pinned(
	struct ts_device *device, uint32_t ring, uint32_t slot, uint32_t generation)
{
	return ts_device_is_held(device, device->table->lines[0].lease, TS_DEVICE_HOLDS,
		ts_device_pin_pack(0, ring, slot, generation)); /* B3 */
}

uint64_t ts_device_recover(struct ts_device *device, struct ts_device_slot *slot)
{
	uint64_t word = ts_load_acquire(&slot->word); /* B2 */
	enum ts_slot_state state = ts_device_slot_state(word);

	if (state != TS_SLOT_TAKEN && state != TS_SLOT_WRITING)
		return word;
	if (!ts_device_is_over(device, ts_device_slot_owner(word), ts_device_slot_tenure(word)))
		return word;
	uint64_t freed =
		ts_device_slot_with(word, state == TS_SLOT_TAKEN ? TS_SLOT_FREE : TS_SLOT_LOST);
	if (!ts_cas(&slot->word, &word, freed))
		return word; /* as it was found instead */
	TS_KILLPOINT(device_recovered);
	if (word & TS_DEVICE_WAITED)
		ts_sys_futex_wake(&slot->word);
	return freed;
}

uint64_t ts_device_settle(struct ts_device *device, struct ts_device_row *row)
{
	uint64_t word = ts_load_acquire(&row->word); /* B1 */

	if (ts_device_ring_state(word) == TS_RING_EMPTY ||
		!ts_device_is_over(
			device, ts_device_ring_owner(word), ts_device_ring_tenure(word)))
		return word;
	uint64_t empty =
		ts_device_ring_pack(TS_RING_EMPTY, 0, 0, ts_device_ring_generation(word) + 1);
	if (!ts_cas(&row->word, &word, empty))
		return word;
	TS_KILLPOINT(device_retired);
	return empty;
}

/* ---- rows ------------------------------------------------------------------------------- */

static bool is_uuid(struct ts_device_row *row, const uint8_t *uuid)
{
	/* Acquire: pairs with the release in take_row(), UUID before the flag. */
	return ts_load_acquire(&row->named) && memcmp(row->uuid, uuid, TS_DEVICE_UUID) == 0;
}

/* Take @row for @uuid, or find that it has it already. */
static bool take_row(struct ts_device_row *row, const uint8_t *uuid, uint64_t hash)
{
	uint64_t there = 0;

	if (!ts_cas(&row->uuid_hash, &there, hash) && there != hash)
		return false;
	TS_KILLPOINT(device_row);
	/* Always the same bytes, so two may do it at once, and one for a maker that died. */
	if (!ts_load_acquire(&row->named)) {
		memcpy(row->uuid, uuid, TS_DEVICE_UUID);
		ts_write_release(&row->named, 1);
	}
	return is_uuid(row, uuid);
}

int ts_device_find(struct ts_device *device, const uint8_t uuid[TS_DEVICE_UUID])
{
	uint64_t hash = ts_hash64(uuid, TS_DEVICE_UUID) | 1;
	int r = ts_device_check(device, 0);

	for (uint32_t i = 0; r == 0 && i < TS_DEVICE_RINGS; i++)
		if (take_row(&device->table->rows[i], uuid, hash))
			return (int)i;
	return r < 0 ? r : -ENOSPC;
}

void ts_device_count(struct ts_device *device, uint32_t ring, bool found)
{
	if (ts_device_check(device, ring) < 0)
		return;
	ts_add_relaxed(&device->table->rows[ring].looked, 1);
	if (found)
		ts_add_relaxed(&device->table->rows[ring].found, 1);
}

void ts_device_counts(
	struct ts_device *device, uint32_t ring, uint64_t *ret_looked, uint64_t *ret_found)
{
	bool is_row = ts_device_check(device, ring) == 0;

	*ret_looked = is_row ? ts_load_relaxed(&device->table->rows[ring].looked) : 0;
	*ret_found = is_row ? ts_load_relaxed(&device->table->rows[ring].found) : 0;
}

static _Atomic uint64_t *meeting(struct ts_device *device, uint32_t ring)
{
	if (ring == TS_DEVICE_ANY)
		return ts_device_check(device, 0) == 0 ? &device->table->met_ns : NULL;
	return ts_device_check(device, ring) == 0 ? &device->table->rows[ring].met_ns : NULL;
}

void ts_device_meet(struct ts_device *device, uint32_t ring)
{
	_Atomic uint64_t *met_ns = meeting(device, ring);

	if (met_ns)
		ts_write_relaxed(met_ns, ts_now_ns());
}

bool ts_device_has_met(struct ts_device *device, uint32_t ring)
{
	_Atomic uint64_t *met_ns = meeting(device, ring);
	uint64_t then = met_ns ? ts_load_relaxed(met_ns) : 0;

	return then != 0 && ts_now_ns() - then < MEETING_NS;
}

/* ---- holds ---------------------------------------------------------------------------- */

int ts_device_begin(struct ts_device *device, _Atomic uint32_t *words, uint32_t count)
{
	if (ts_load_relaxed(&device->stopped))
		return -ESTALE;
	for (uint32_t i = 0; i < count; i++)
		if (ts_try_hold(&words[i]))
			return (int)i;
	return -EUSERS;
}

void ts_device_hold_end(struct ts_device *device, uint32_t index)
{
	ts_write_release(&device->busy[index], 0); /* private try-lock */
}
