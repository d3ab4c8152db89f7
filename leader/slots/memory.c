/* SPDX-License-Identifier: MIT */
/* The memory of a ring: who has it, who has it mapped, and asking for it back. */
#include "leader/slots/device_private.h"

#include "shim/sys.h"

/* In the place of a slot's number: the member that has it mapped is going to take from it. */
#define MAP_KEPT 1u

/* Who we are, as it stands in a row. */
static uint64_t own_word(const struct ts_device *device)
{
	return ts_device_ring_pack(TS_RING_LIVE, device->member, device->tenure, 0);
}

static bool is_over(struct ts_device *device, uint64_t word)
{
	return word == 0 || ts_device_is_over(device, ts_device_ring_owner(word),
				    ts_device_ring_tenure(word));
}

int ts_device_memory_begin(struct ts_device *device, uint32_t ring)
{
	int r = ts_device_check(device, ring);

	if (r < 0)
		return r;
	_Atomic uint64_t *memory = &device->table->rows[ring].memory;
	uint64_t word = ts_load_acquire(memory), own = own_word(device);
	if (word != own && !is_over(device, word))
		return -EEXIST;
	return ts_cas(memory, &word, own) ? 0 : -EEXIST;
}

void ts_device_memory_end(struct ts_device *device, uint32_t ring)
{
	uint64_t own;

	if (ts_device_check(device, ring) < 0)
		return;
	own = own_word(device);
	(void)ts_cas(&device->table->rows[ring].memory, &own, 0);
}

bool ts_device_memory_held(struct ts_device *device, uint32_t ring)
{
	if (ts_device_check(device, ring) < 0)
		return false;
	return !is_over(device, ts_load_acquire(&device->table->rows[ring].memory));
}

void ts_device_memory_ask_back(struct ts_device *device, uint32_t ring)
{
	if (ts_device_check(device, ring) == 0)
		ts_write_release(&device->table->rows[ring].asked_ns, ts_now_ns());
}

uint64_t ts_device_memory_asked_ns(struct ts_device *device, uint32_t ring)
{
	if (ts_device_check(device, ring) < 0)
		return 0;
	return ts_load_acquire(&device->table->rows[ring].asked_ns);
}

/* ---- mapped by others ------------------------------------------------------------------- */

int ts_device_map_begin(struct ts_device *device, uint32_t ring, uint32_t generation)
{
	int r = ts_device_check(device, ring);
	int index = r < 0 ? r : ts_device_begin(device, device->mapping, TS_DEVICE_MAPS);

	if (index < 0)
		return index;
	ts_write_release(&device->table->maps[device->member].map[index],
		ts_device_pin_pack(device->tenure, ring, 0, generation));
	TS_KILLPOINT(device_announced);
	ts_fence_full(); /* P5: said before this look at the ring */
	uint64_t word = ts_device_settle(device, &device->table->rows[ring]);
	if (ts_device_ring_state(word) == TS_RING_LIVE &&
		ts_device_ring_generation(word) == generation)
		return index;
	ts_device_map_end(device, (uint32_t)index);
	return -ESTALE;
}

void ts_device_map_keep(struct ts_device *device, uint32_t index)
{
	if (ts_device_check(device, 0) < 0 || index >= TS_DEVICE_MAPS)
		return;
	_Atomic uint64_t *map = &device->table->maps[device->member].map[index];
	ts_write_release(map, ts_load_relaxed(map) | ts_device_pin_slot_put(MAP_KEPT));
}

void ts_device_map_end(struct ts_device *device, uint32_t index)
{
	if (ts_device_check(device, 0) < 0 || index >= TS_DEVICE_MAPS)
		return;
	ts_write_release(&device->table->maps[device->member].map[index], 0); /* V4 */
	TS_KILLPOINT(device_unmapped);
	ts_write_release(&device->mapping[index], 0); /* private try-lock */
}

bool ts_device_is_kept(struct ts_device *device, uint32_t ring, uint32_t generation)
{
	if (ts_device_check(device, ring) < 0)
		return false;
	return ts_device_is_held(device, device->table->maps[0].map, TS_DEVICE_MAPS,
		ts_device_pin_pack(0, ring, MAP_KEPT, generation));
}

bool ts_device_is_mapped(struct ts_device *device, uint32_t ring, uint32_t generation)
{
	if (ts_device_check(device, ring) < 0)
		return true; /* not known */
	/* In this order: a word that is missed here for it is just being kept shows below. */
	return ts_device_is_held(device, device->table->maps[0].map, TS_DEVICE_MAPS,
		       ts_device_pin_pack(0, ring, 0, generation)) || /* B4 */
	       ts_device_is_kept(device, ring, generation);
}
